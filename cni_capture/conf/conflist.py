"""Probes into a conflist and out again, as pure functions over its bytes: what is not ours stays where it is.

An entry goes in front of the plugin that follows it, with a comma and the white space that stands before that plugin;
at the end, behind the last plugin in the same way. Taking out is the exact inverse.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cni_capture.call import CNIError, Config, Skip, read_config, scanner, skip_space
from cni_capture.errors import UserError

PRE, POST, WRAP = "capture-pre", "capture-post", "capture-wrap"

# What a probe in first place does to its neighbour, which then gets a prevResult where it had none.
_MUST_BE_CHAINED = ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf")


@dataclass(frozen=True)
class Plan:
    """Where the probes go, and what their entries say.

    `around` is the type of the one plugin to enclose ("": the whole chain), `each` wants a pair around every plugin;
    `settings` are keys of the probes' entries with JSON values, in this order.
    """

    around: str = ""
    each: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


class Plugin(NamedTuple):
    """One entry of a chain, and where its text begins and ends."""

    type: str
    config: Config
    start: int
    end: int

    @property
    def is_ours(self) -> bool:
        return self.type in (PRE, POST)

    @property
    def ipam_type(self) -> str:
        """The plugin that gives it addresses; "" when it has none."""
        ipam = _member(self.config, "ipam")
        return str(ipam.get("type", "")) if isinstance(ipam, dict) else ""

    @property
    def capabilities(self) -> list[str]:
        """The capabilities that it declares as true."""
        declared = _member(self.config, "capabilities")
        return [name for name, wanted in declared.items() if wanted] if isinstance(declared, dict) else []


class Stretch(NamedTuple):
    """The plugins that one pair of probes encloses, by index, the last one included."""

    first: int
    last: int
    label: str


class Objection(NamedTuple):
    """Why a probe must not stand where the plan puts it, and what to do instead."""

    reason: str
    instead: str


def splice(data: bytes, plan: Plan, where: str = "conflist") -> bytes:
    """The conflist with the probes of `plan` in it and without any that were in it before.

    A single plugin's configuration (a .conf) becomes a list. Raises UserError, in which `where` names the file.
    """
    text = _without_probes(_text(data, where), where)
    if is_single(data, where):
        text = _wrap(text)
    plugins = _plugins(text, where)
    return _insert(text, plugins, _entries(plugins, plan, where)).encode()


def unsplice(data: bytes, where: str = "conflist") -> tuple[bytes, bool]:
    """The conflist without our entries, and whether it is a single plugin's configuration again. Raises UserError."""
    text = _text(data, where)
    without = _without_probes(text, where)
    single = None if without == text else _unwrap(without)
    return (without if single is None else single).encode(), single is not None


def is_single(data: bytes, where: str = "conflist") -> bool:
    """Whether it is the configuration of one plugin (a .conf), not of a list. Raises UserError."""
    config = _config(_text(data, where), where)
    return "plugins" not in config.spans and isinstance(_member(config, "type"), str)


def chain(data: bytes, where: str = "conflist") -> list[Plugin]:
    """The plugins in the order of ADD, ours among them. Raises UserError."""
    text = _text(data, where)
    return _plugins(_wrap(text) if is_single(data, where) else text, where)


def has_probes(data: bytes) -> bool:
    """Whether it names a probe, capture-wrap among them; of what is no conflist, whether it looks like it."""
    try:
        return any(plugin.is_ours or WRAP in (plugin.type, plugin.ipam_type) for plugin in chain(data))
    except UserError:
        return any(f'"{probe}"'.encode() in data for probe in (PRE, POST, WRAP))


def objections(data: bytes, plan: Plan, where: str = "conflist") -> list[Objection]:
    """What speaks against a probe in first place, if the plan puts one there. Raises UserError."""
    plugins = [plugin for plugin in chain(data, where) if not plugin.is_ours]
    if not any(stretch.first == 0 for stretch in _stretches(plugins, plan, where)):
        return []
    reason = _reason(plugins[0])
    if not reason:
        return []
    others = [plugin.type for plugin in plugins[1:]]
    instead = f"put the probes around a later plugin: --around {others[0]}" if others else ""
    if plugins[0].type in _MUST_BE_CHAINED:
        instead = f"put the plugin that makes the interface in front of {plugins[0].type}"
    elif plugins[0].type == "ipvlan":
        instead = "name its master in the conflist" + (f", or {instead}" if instead else "")
    return [Objection(reason, "; ".join(filter(None, (instead, "--force does it all the same"))))]


def _reason(first: Plugin) -> str:
    if first.type == "cilium-cni":
        return "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode"
    if first.type == "ipvlan" and not _member(first.config, "master"):
        return "behind a probe ipvlan without a master fails: it looks for one in the probe's result"
    if first.type == "loopback":
        return "behind a probe loopback leaves lo out of its result"
    if first.type in _MUST_BE_CHAINED:
        return f"{first.type} is first in its chain and rightly fails; behind a probe it would silently succeed"
    if str(_member(first.config, "bridge")).startswith("cni-podman"):  # podman's own name for it
        return "podman takes a network's driver, subnets and bridge from the first plugin, and would not find them"
    return ""


def _stretches(plugins: Sequence[Plugin], plan: Plan, where: str) -> list[Stretch]:
    if plan.each:
        return [Stretch(index, index, label) for index, label in enumerate(_labels(plugins))]
    if not plan.around:
        return [Stretch(0, len(plugins) - 1, "")]
    found = [index for index, plugin in enumerate(plugins) if plugin.type == plan.around]
    if not found:
        types = ", ".join(plugin.type for plugin in plugins)
        raise UserError(f"{where}: no plugin of type {plan.around}", hint=f"its plugins are: {types}")
    if len(found) > 1:
        raise UserError(
            f"{where}: {len(found)} plugins of type {plan.around}",
            hint="--each puts a pair of probes around every plugin",
        )
    return [Stretch(found[0], found[0], "")]


def _labels(plugins: Iterable[Plugin]) -> list[str]:
    """The types, numbered where one stands more than once: bridge, tuning, tuning-2."""
    labels: list[str] = []
    for plugin in plugins:
        label, number = plugin.type, 1
        while label in labels:
            number += 1
            label = f"{plugin.type}-{number}"
        labels.append(label)
    return labels


def _entries(plugins: Sequence[Plugin], plan: Plan, where: str) -> list[tuple[int, str]]:
    """The probes as JSON, each with the index of the plugin that it goes in front of (their number: at the end)."""
    entries: list[tuple[int, str]] = []
    for first, last, label in _stretches(plugins, plan, where):
        keys = {**plan.settings, **({"label": label} if label else {})}
        capabilities = dict.fromkeys(
            (name for plugin in plugins[first : last + 1] for name in plugin.capabilities), True
        )
        pre = {"type": PRE, **keys, **({"capabilities": capabilities} if capabilities else {})}
        entries += [(first, json.dumps(pre)), (last + 1, json.dumps({"type": POST, **keys}))]
    return entries


def _insert(text: str, plugins: Sequence[Plugin], entries: Sequence[tuple[int, str]]) -> str:
    pieces, done = [], 0
    for index, plugin in enumerate(plugins):
        pieces.append(text[done : plugin.start])
        pieces += [f"{entry},{_gap(text, plugins, index)}" for place, entry in entries if place == index]
        pieces.append(text[plugin.start : plugin.end])
        done = plugin.end
    gap = _gap(text, plugins, len(plugins) - 1)
    pieces += [f",{gap}{entry}" for place, entry in entries if place == len(plugins)]
    return "".join([*pieces, text[done:]])


def _gap(text: str, plugins: Sequence[Plugin], index: int) -> str:
    """The white space in front of a plugin; if the first one has none, as in `[{`, that in front of the second."""
    start = plugins[index].start
    space = text[len(text[:start].rstrip(" \t\r\n")) : start]
    return _gap(text, plugins, 1) if not space and index == 0 and len(plugins) > 1 else space


def _without_probes(text: str, where: str) -> str:
    config = _config(text, where)
    if "plugins" not in config.spans:
        return text
    plugins = _plugins(text, where)
    kept = [index for index, plugin in enumerate(plugins) if not plugin.is_ours]
    if not kept:
        raise UserError(f"{where}: nothing but probes in it", hint="put the plugins in by hand, or remove the file")
    cuts = [(plugins[i].start, plugins[i + 1].start) for i in range(kept[-1]) if plugins[i].is_ours]
    if kept[-1] < len(plugins) - 1:
        cuts.append((plugins[kept[-1]].end, plugins[-1].end))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    return text


def _wrap(text: str) -> str:
    """A single plugin's configuration as a list, as libcni does it in memory (libcni/conf.go, ConfListFromConf)."""
    head, tail = _wrapping(read_config(text.encode()))
    return f"{head}{text}{tail}"


def _unwrap(text: str) -> str | None:
    """The inverse; None when the list was not made so."""
    head, tail = _wrapping(read_config(text.encode()))
    if not (text.startswith(head) and text.endswith(tail)):
        return None
    inner = text[len(head) : -len(tail)]
    try:
        return inner if _wrap(inner) == text else None
    except CNIError:  # several plugins
        return None


def _wrapping(config: Config) -> tuple[str, str]:
    keys = [(key, config.raw(key)) for key in ("cniVersion", "name")]
    return "{" + "".join(f'"{key}": {raw}, ' for key, raw in keys if raw) + '"plugins": [\n', "\n]}\n"


def _text(data: bytes, where: str) -> str:
    return _read(data, where).text


def _config(text: str, where: str) -> Config:
    return _read(text.encode(), where)


def _read(data: bytes, where: str) -> Config:
    try:
        return read_config(data)
    except CNIError as error:
        raise UserError(f"{where}: {error.msg}: {error.details}", hint="JSON has no comments") from None


def _plugins(text: str, where: str) -> list[Plugin]:
    span = _config(text, where).spans.get("plugins")
    if span is None or text[span[0]] != "[":
        raise UserError(f"{where}: no list of plugins", hint='a conflist has "plugins": [{"type": ...}]')
    plugins = []
    for number, (start, end) in enumerate(_elements(text, span[0], where), 1):
        entry = f"{where}, plugin {number}"
        config = _config(text[start:end], entry)
        kind = _member(config, "type")
        if not isinstance(kind, str) or not kind:
            raise UserError(f"{entry}: no type", hint='every plugin names its program: "type": "bridge"')
        plugins.append(Plugin(kind, config, start, end))
    if not plugins:
        raise UserError(f"{where}: no plugins", hint='a conflist has "plugins": [{"type": ...}]')
    return plugins


def _elements(text: str, at: int, where: str) -> list[tuple[int, int]]:
    """Where each element of the array that begins at `at` begins and ends; the text is known to be JSON."""
    scan = scanner(Skip)
    spans = []
    at = skip_space(text, at + 1)
    while text[at] != "]":
        try:
            end = scan(text, at)[1]
        except RecursionError:
            raise UserError(f"{where}: nested too deep", hint="no plugin needs so many brackets") from None
        spans.append((at, end))
        at = skip_space(text, end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
    return spans


def _member(config: Config, key: str) -> object:
    """A member as Go decodes it into a struct: by its exact name, else in any case (encoding/json, Unmarshal)."""
    if key in config.spans:
        return config.value(key)
    return next((config.value(name) for name in config.spans if name.casefold() == key.casefold()), None)
