"""Our entries into a conflist and out again, as pure functions over its bytes: what is not ours stays where it is.

A probe's entry goes in front of the plugin that follows it, with a comma and the white space that stands before that
plugin; at the end, behind the last plugin in the same way. A wrap is in its plugin's own entry (see wraps.py). Taking
out is the exact inverse.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from cni_capture.conf.conflist import (
    POST,
    PRE,
    Plugin,
    is_single_text,
    list_of_single,
    plugins_in,
    single_of_list,
    text_of,
)
from cni_capture.conf.plan import Plan, stretches, targets
from cni_capture.conf.wraps import unwrap, wrap, wrap_ipam
from cni_capture.errors import UserError


def splice(data: bytes, plan: Plan, where: str = "conflist") -> bytes:
    """The conflist with the probes of `plan` in it and without any that were in it before.

    For a pair, a single plugin's configuration (a .conf) becomes a list. Raises UserError, in which `where` names the
    file.
    """
    text = _without_ours(text_of(data, where), where)
    if plan.wraps:
        return _wrapped(text, plan, where).encode()
    if is_single_text(text, where):
        text = list_of_single(text)
    plugins = plugins_in(text, where)
    return _insert(text, plugins, _entries(plugins, plan, where)).encode()


def unsplice(data: bytes, where: str = "conflist") -> tuple[bytes, bool]:
    """The conflist without ours, and whether the list has become a single plugin's configuration. Raises UserError."""
    text = text_of(data, where)
    without = _without_ours(text, where)
    single = None if without == text else single_of_list(without)
    return (without if single is None else single).encode(), single is not None


def plugins_without_ours(data: bytes, where: str) -> list[Plugin]:
    """The plugins as they are without us. Raises UserError."""
    return plugins_in(_without_ours(text_of(data, where), where), where)


def _wrapped(text: str, plan: Plan, where: str) -> str:
    plugins = plugins_in(text, where)
    for at, is_ipam, label in targets(plugins, plan, where):
        settings = {**plan.settings, **({"label": label} if label else {})}
        plugins[at] = (wrap_ipam if is_ipam else wrap)(plugins[at], settings)
    return _replaced(text, plugins)


def _without_ours(text: str, where: str) -> str:
    return _without_probes(_replaced(text, [unwrap(plugin).plugin for plugin in plugins_in(text, where)]), where)


def _replaced(text: str, plugins: Iterable[Plugin]) -> str:
    """The text with what each of these plugins is now, in the place where it was."""
    pieces, done = [], 0
    for plugin in plugins:
        pieces += [text[done : plugin.start], plugin.config.text]
        done = plugin.end
    return "".join([*pieces, text[done:]])


def _entries(plugins: Sequence[Plugin], plan: Plan, where: str) -> list[tuple[int, str]]:
    """The probes as JSON, each with the index of the plugin that it goes in front of (their number: at the end)."""
    entries: list[tuple[int, str]] = []
    for first, last, label in stretches(plugins, plan, where):
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
    plugins = plugins_in(text, where)
    kept = [index for index, plugin in enumerate(plugins) if not plugin.is_probe]
    if not kept:
        raise UserError(f"{where}: nothing but probes in it", hint="put the plugins in by hand, or remove the file")
    cuts = [(plugins[i].start, plugins[i + 1].start) for i in range(kept[-1]) if plugins[i].is_probe]
    if kept[-1] < len(plugins) - 1:
        cuts.append((plugins[kept[-1]].end, plugins[-1].end))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    return text
