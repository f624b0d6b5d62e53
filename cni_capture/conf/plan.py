"""What a person wants to see of a chain: a pair of probes around some of its plugins, or wraps of some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cni_capture.conf.conflist import POST, PRE, Plugin
from cni_capture.errors import UserError
from cni_capture.standin import WRAP


@dataclass(frozen=True)
class Plan:
    """Where the probes go, and how they record.

    Pairs: around the plugin of type `around` ("": around the whole chain), or, with `each`, around every plugin.
    Wraps, and then no pairs: of the plugins of the types `wrap`, or, with `wrap_all`, of every plugin; with `ipam` also
    of the IPAM plugins that these call, and, where there are no types, of just the IPAM plugins of the chain.
    `settings` are keys of our entries with JSON values, in this order.
    """

    around: str = ""
    each: bool = False
    wrap: Sequence[str] = ()
    wrap_all: bool = False
    ipam: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wraps(self) -> bool:
        """Whether it is one of wraps."""
        return bool(self.wrap) or self.wrap_all or self.ipam

    @property
    def programs(self) -> tuple[str, ...]:
        """What runtimes will call."""
        return (WRAP,) if self.wraps else (PRE, POST)


class Stretch(NamedTuple):
    """The plugins that one pair of probes encloses, by index, the last one included; `label` "" is none."""

    first: int
    last: int
    label: str


class Target(NamedTuple):
    """What is to be wrapped: the plugin with the index `at`, or the IPAM plugin that it calls; `label` "" is none."""

    at: int
    is_ipam: bool
    label: str = ""


def stretches(plugins: Sequence[Plugin], plan: Plan, where: str) -> list[Stretch]:
    """Where the pairs of a plan go in a chain without ours. Raises UserError."""
    if plan.each:
        return [Stretch(index, index, label) for index, label in enumerate(_numbered(each.type for each in plugins))]
    if not plan.around:
        return [Stretch(0, len(plugins) - 1, "")]
    found = [index for index, plugin in enumerate(plugins) if plugin.type == plan.around]
    if not found:
        raise _no_plugin(plugins, plan.around, where)
    if len(found) > 1:
        raise UserError(
            f"{where}: {len(found)} plugins of type {plan.around}",
            hint="--each puts a pair of probes around every plugin",
        )
    return [Stretch(found[0], found[0], "")]


def targets(plugins: Sequence[Plugin], plan: Plan, where: str) -> list[Target]:
    """What the wraps of a plan are of, in a chain without ours; labelled where names would not do. Raises UserError."""
    for kind in plan.wrap:
        if all(plugin.type != kind for plugin in plugins):
            raise _no_plugin(plugins, kind, where)
    chosen = {at: plugin for at, plugin in enumerate(plugins) if not plan.wrap or plugin.type in plan.wrap}
    found: list[tuple[Target, str]] = []
    for at, plugin in chosen.items():
        if plan.wrap or plan.wrap_all:
            found.append((Target(at, False), plugin.type))
        if plan.ipam and plugin.ipam_type:
            found.append((Target(at, True), plugin.ipam_type))
    if plan.ipam and not any(target.is_ipam for target, _ in found):
        with_ipam = [plugin.type for plugin in plugins if plugin.ipam_type]
        raise UserError(
            f"{where}: no IPAM plugin of {', '.join(plugin.type for plugin in chosen.values())}",
            hint=f"only {', '.join(with_ipam)} calls one" if with_ipam else "without --ipam the plugins can be wrapped",
        )
    names = [name for _, name in found]
    if "label" in plan.settings:
        return [target for target, _ in found]
    return [
        target._replace(label=label) if label != name or names.count(name) > 1 else target
        for (target, name), label in zip(found, _numbered(names), strict=True)
    ]


def _no_plugin(plugins: Sequence[Plugin], kind: str, where: str) -> UserError:
    callers = [plugin.type for plugin in plugins if plugin.ipam_type == kind]
    hint = f"its plugins are: {', '.join(plugin.type for plugin in plugins)}"
    if callers:
        hint = f"{kind} is the IPAM plugin of {', '.join(callers)}: --ipam wraps it"
    return UserError(f"{where}: no plugin of type {kind}", hint=hint)


def _numbered(names: Iterable[str]) -> list[str]:
    """Names, numbered where one stands more than once: bridge, tuning, tuning-2."""
    labels: list[str] = []
    for name in names:
        label, number = name, 1
        while label in labels:
            number += 1
            label = f"{name}-{number}"
        labels.append(label)
    return labels
