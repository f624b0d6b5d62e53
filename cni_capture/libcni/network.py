"""A network: a conflist, or a single plugin's config, as libcni loads it (libcni/conf.go).

What is wrong with a file is said as a UserError, with the line where the JSON ends to make sense.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cni_capture.errors import UserError
from cni_capture.libcni import versions
from cni_capture.libcni.gojson import GoError, SyntaxFault, marshal, parse, plain_object
from cni_capture.libcni.gotypes import Anything, Bool, Map, String, Struct, unmarshal
from cni_capture.libcni.result import DNS

_PLUGIN = Struct(
    "types.PluginConf",
    {
        "cniVersion": String(),
        "name": String(),
        "type": String(),
        "capabilities": Map(Bool()),
        "ipam": Struct("types.IPAM", {"type": String()}),
        "dns": DNS,
        "prevResult": Map(Anything()),
    },
)
_LOOKS = 'a network looks like {"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "bridge", ...}]}'


@dataclass(frozen=True)
class Plugin:
    """One entry of a network: `config` is all of it, keys sorted; `capabilities` are those it declares as true."""

    type: str
    name: str
    capabilities: tuple[str, ...]
    config: dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A network and its plugins, in the order of ADD. `source` is what a runtime keeps of it in its cache."""

    name: str
    cni_version: str
    plugins: tuple[Plugin, ...]
    disable_check: bool
    disable_gc: bool
    source: bytes


def load(path: Path) -> Network:
    """The network in a file, with the plugins of the folder `<name>/*.conf` beside it. Raises UserError.

    libcni 1.3 adds the plugins of that folder unless the file says `loadOnlyInlinedPlugins`.
    """
    network, inlined_only = _read(_bytes(path), path)
    if not inlined_only:
        folder = path.parent / network.name
        files = sorted(f for f in folder.glob("*.conf") if not f.is_dir()) if folder.is_dir() else []
        extra = [_plugin(_bytes(file), str(file)) for file in files]
        network = Network(**{**vars(network), "plugins": (*network.plugins, *extra)})
    if not network.plugins:
        raise UserError(f"{path}: no plugins", hint=_LOOKS)
    return network


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "runtimes keep theirs in /etc/cni/net.d" if isinstance(error, FileNotFoundError) else ""
        raise UserError(f"cannot read {path}: {error.strerror}", hint=hint) from None


def _read(data: bytes, path: Path) -> tuple[Network, bool]:
    config = _object(data, str(path))
    name = config.get("name")
    if not isinstance(name, str) or not name:
        raise UserError(f"{path}: no name", hint='a network needs a name of its own: "name": "mynet"')
    if "plugins" not in config and "type" in config:
        plugin = _plugin(data, str(path))
        version = unmarshal(parse(data), _PLUGIN)["cniVersion"]
        source = marshal({"cniVersion": version, "name": name, "plugins": [config]})
        return Network(name, version, (plugin,), False, False, source), True
    entries = config.get("plugins", [])
    if not isinstance(entries, list):
        raise UserError(f'{path}: "plugins" is no list', hint=_LOOKS)
    if "plugins" in config and not entries:
        raise UserError(f"{path}: no plugins", hint=_LOOKS)
    plugins = tuple(_plugin(marshal(entry), f"{path}, plugin {i}") for i, entry in enumerate(entries, start=1))
    network = Network(
        name=name,
        cni_version=_version(config, path),
        plugins=plugins,
        disable_check=_flag(config, "disableCheck", path),
        disable_gc=_flag(config, "disableGC", path),
        source=data,
    )
    return network, _flag(config, "loadOnlyInlinedPlugins", path)


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        return plain_object(data)
    except SyntaxFault as fault:
        raise UserError(f"{where}, line {fault.line}: not JSON: {fault}", hint=_LOOKS) from None
    except GoError as error:
        raise UserError(f"{where}: not a JSON object: {error}", hint=_LOOKS) from None


def _plugin(data: bytes, where: str) -> Plugin:
    config = _object(data, where)
    try:
        known = unmarshal(parse(data), _PLUGIN)
    except GoError as error:
        raise UserError(f"{where}: {error}", hint="every runtime built on libcni refuses this file") from None
    if not known["type"]:
        raise UserError(f"{where}: no type", hint='every plugin names its program: "type": "bridge"')
    capabilities = tuple(name for name, supported in (known["capabilities"] or {}).items() if supported)
    return Plugin(known["type"], known["name"], capabilities, config)


def _version(config: dict[str, Any], path: Path) -> str:
    """`cniVersion`, or the newest of `cniVersions` and it that this side of the spec knows (spec, section 1)."""
    stated = config.get("cniVersion", "")
    offered = config.get("cniVersions", [])
    if not isinstance(stated, str):
        raise UserError(f'{path}: "cniVersion" is no string', hint='write it in quotes: "cniVersion": "1.0.0"')
    if not isinstance(offered, list) or not all(isinstance(version, str) for version in offered):
        raise UserError(f'{path}: "cniVersions" is no list of strings', hint='"cniVersions": ["0.4.0", "1.0.0"]')
    if "cniVersions" not in config:
        return stated
    try:
        return max(_known([*offered, *([stated] if stated else [])]), key=versions.parse, default=stated)
    except GoError as error:
        raise UserError(f"{path}: {error}", hint='versions look like "1.0.0"') from None


def _known(offered: Iterable[str]) -> list[str]:
    return [version for version in offered if versions.at_least(versions.CURRENT, version)]


def _flag(config: dict[str, Any], key: str, path: Path) -> bool:
    value = config.get(key, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise UserError(f'{path}: "{key}" is neither true nor false', hint=f'"{key}": true')
    return value
