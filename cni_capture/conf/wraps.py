"""One plugin with capture-wrap in its place, and without: the inverse is that by which capture-wrap itself goes.

Of the entry just the text of its `type` changes, and right behind that there is a member more:

    {"type": "bridge", "mtu": 1400}  ->  {"type": "capture-wrap", "capture": {"type": "bridge"}, "mtu": 1400}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cni_capture.call import CNIError, Config, read_config, skip_space
from cni_capture.conf.conflist import Plugin
from cni_capture.errors import UserError
from cni_capture.standin import WRAP, StandIn, key_start, read_stand_in

_SPACE = " \t\r\n"


class Unwrapped(NamedTuple):
    """A plugin as it is without us, and our settings, where it was wrapped, and where its IPAM plugin was."""

    plugin: Plugin
    settings: Config | None
    ipam_settings: Config | None


def unwrap(plugin: Plugin) -> Unwrapped:
    """A plugin without the wraps around it and its IPAM plugin. Raises UserError when one of them names no plugin."""
    settings = ipam_settings = None
    if plugin.type == WRAP:
        real = _read(plugin, plugin.config)
        settings = real.settings
        plugin = plugin._replace(type=real.type, config=read_config(real.config.encode()))
    if plugin.ipam_type == WRAP:
        _check_spelling(plugin.config, "ipam", plugin.where)
        assert plugin.ipam
        real = _read(plugin, plugin.ipam)
        ipam_settings = real.settings
        plugin = plugin._replace(config=_with_ipam(plugin.config, real.config))
    return Unwrapped(plugin, settings, ipam_settings)


def wrap(plugin: Plugin, settings: Mapping[str, Any]) -> Plugin:
    """A plugin with capture-wrap in its place, which has our `settings`. Raises UserError when its entry forbids it."""
    return plugin._replace(type=WRAP, config=_wrapped(plugin.config, settings, plugin.where))


def wrap_ipam(plugin: Plugin, settings: Mapping[str, Any]) -> Plugin:
    """A plugin with capture-wrap in the place of its IPAM plugin, which it must have. Raises UserError as wrap()."""
    _check_spelling(plugin.config, "ipam", plugin.where)
    assert plugin.ipam
    return plugin._replace(
        config=_with_ipam(plugin.config, _wrapped(plugin.ipam, settings, f"{plugin.where}, ipam").text)
    )


def title(plugin: Plugin) -> str:
    """A plugin for a person: bridge, capture-wrap(bridge), bridge+capture-wrap(host-local)."""
    try:
        real, settings, ipam_settings = unwrap(plugin)
    except UserError:
        return plugin.type
    words = real.type if settings is None else f"{WRAP}({real.type})"
    return words if ipam_settings is None else f"{words}+{WRAP}({real.ipam_type})"


def _with_ipam(config: Config, ipam: str) -> Config:
    start, end = config.spans["ipam"]
    return read_config(f"{config.text[:start]}{ipam}{config.text[end:]}".encode())


def _read(plugin: Plugin, entry: Config) -> StandIn:
    """Whom the wrap in an entry, or in the `ipam` of one, stands in for."""
    _check_spelling(entry, "type", plugin.where)
    try:
        return read_stand_in(entry)
    except CNIError as error:
        raise UserError(f"{plugin.where}: {error.msg}", hint=error.details.removeprefix("hint: ")) from None


def _wrapped(entry: Config, settings: Mapping[str, Any], where: str) -> Config:
    _check_spelling(entry, "type", where)
    if "capture" in entry.spans:
        raise UserError(
            f'{where}: it has a key "capture" of its own', hint=f"{WRAP} needs that key: put probes around it, --around"
        )
    text = entry.text
    key, (start, end) = key_start(entry, "type"), entry.spans["type"]
    colon = text[text.rindex('"', 0, start) + 1 : start]
    members = [f'"type": {text[start:end]}', *(f"{json.dumps(key)}: {json.dumps(settings[key])}" for key in settings)]
    capture = f'"capture"{colon}{{{", ".join(members)}}}'
    comma = skip_space(text, end)
    if text[comma] == ",":
        rest = skip_space(text, comma + 1)
        behind = f"{text[end:rest]}{capture},{text[comma + 1 : rest]}{text[rest:]}"
    else:
        behind = f",{_gap(text[:key], colon)}{capture}{text[end:]}"
    return read_config(f'{text[:start]}"{WRAP}"{behind}'.encode())


def _gap(before: str, colon: str) -> str:
    """The white space in front of a key; if that is the first one and has none, as in `{"`, that behind its colon."""
    space = before[len(before.rstrip(_SPACE)) :]
    return colon[colon.index(":") + 1 :] if not space and before[-1] == "{" else space


def _check_spelling(config: Config, key: str, where: str) -> None:
    for name in config.spans:
        if name != key and name.casefold() == key.casefold():
            raise UserError(f'{where}: "{name}" in it, and not "{key}"', hint=f'{WRAP} needs it spelled "{key}"')
