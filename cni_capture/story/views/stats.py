"""Counts and durations by network, hop and verb."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from cni_capture.story.operations import OK, Operation
from cni_capture.story.views.terminal import BOLD, RED, paint, printable, shorten
from cni_capture.story.views.words import hop

_BARS = " ▁▂▃▄▅▆▇█"
# Upper bounds of the histogram's bars in milliseconds: doubling; the last bar has no bound.
_BOUNDS = [2.0**power for power in range(14)]


class Group:
    """What is counted of one verb, on one hop of one network."""

    __slots__ = ("count", "failures", "milliseconds")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.milliseconds = array("d")


class Summary(NamedTuple):
    """Durations in milliseconds: nearest-rank percentiles (None when there are none), and how many for each bar."""

    p50: float | None
    p95: float | None
    max: float | None
    histogram: list[int]


def summary(milliseconds: Iterable[float]) -> Summary:
    ordered = sorted(milliseconds)
    count = len(ordered)
    p50, p95, most = [ordered[-(-count * rank // 100) - 1] if ordered else None for rank in (50, 95, 100)]
    below = [0, *(bisect_left(ordered, bound) for bound in _BOUNDS), count]
    return Summary(p50, p95, most, [upper - lower for lower, upper in pairwise(below)])


class Stats:
    """Keeps eight bytes of each operation, and says what they amount to."""

    def __init__(self) -> None:
        # By network, hop (a replay's is one of its own), and verb.
        self._groups: dict[tuple[str, str, str], Group] = {}

    def add(self, operations: Iterable[Operation]) -> None:
        """Count operations; durations are of what came back."""
        groups = self._groups
        for operation in operations:
            record = operation.entry or operation.first
            env = record.env
            key = (record.network, hop(operation) if env.replay else record.hop, env.command)
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group()
            group.count += 1
            if operation.verdict is OK:
                took = operation.milliseconds
                if took is not None:
                    group.milliseconds.append(took)
            elif operation.is_failure:
                group.failures += 1

    def table(self, width: int, color: bool) -> Iterator[str]:
        """The table for people, at least 80 wide."""
        room = 17 + max(0, min(width, 120) - 80)
        yield paint(
            f"{'NETWORK HOP':{room}} {'CMD':6} {'COUNT':>8} {'FAILED':>7} {'P50':>6} {'P95':>6} {'MAX':>6} <1ms .. >8s",
            BOLD,
            color,
        )
        for (network, step, verb), group in sorted(self._groups.items()):
            # The hop whole, if there is room for some of the network beside it.
            name = shorten(printable(network) or "-", max(room - 1 - len(printable(step)), room // 4))
            name = shorten(f"{name} {printable(step)}".rstrip(), room)
            failed = f"{group.failures:>7}"
            p50, p95, most, counts = summary(group.milliseconds)
            bars = "".join(_BARS[-(-count * 8 // max(counts))] if count else " " for count in counts)
            yield (
                f"{name:{room}} {shorten(printable(verb) or '-', 6):6}"
                f" {group.count:>8} {paint(failed, RED, color and bool(group.failures))}"
                f" {_short(p50)} {_short(p95)} {_short(most)} {bars}"
            ).rstrip()

    def lines(self) -> Iterator[str]:
        """The same for programs: a JSON object for each; `hop` only where there is one."""
        for (network, step, verb), group in sorted(self._groups.items()):
            facts: dict[str, object] = {"network": network}
            facts |= {"hop": step} if step else {}
            facts |= {"command": verb, "count": group.count, "failed": group.failures}
            for name, value in summary(group.milliseconds)._asdict().items():
                facts[name] = round(value, 3) if isinstance(value, float) else value
            yield json.dumps(facts)


def _short(milliseconds: float | None) -> str:
    if milliseconds is None:
        return f"{'-':>6}"
    return f"{milliseconds:>6.0f}" if milliseconds < 999_999.5 else f"{milliseconds / 1000:>5.0f}s"
