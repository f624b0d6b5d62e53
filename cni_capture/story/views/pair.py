"""Both calls of an operation, one under the other, so that the eye finds what differs."""

from __future__ import annotations

from collections.abc import Iterator

from cni_capture.story.operations import Operation
from cni_capture.story.views.terminal import BOLD, DIM, YELLOW, paint, printable
from cni_capture.story.views.words import clock, hop, milliseconds, outcome, verdict, warnings, who


def headline(operation: Operation, color: bool, time: str) -> str:
    """Who, what, how long, and how it ended."""
    record = operation.first
    words = [
        time,
        printable(record.env.container)[:6] or "-",
        paint(printable(record.env.command) or "-", BOLD, color),
        who(operation),
        printable(record.env.ifname),
        f"on {printable(record.network)}" if record.network and operation.pod[1] else "",
        f"hop {hop(operation)}" if hop(operation) else "",
    ]
    took = "" if operation.milliseconds is None else f" in {milliseconds(operation)} ms"
    said = outcome(operation)
    return " ".join(filter(None, words)) + f"  {verdict(operation, color)}{took}" + (f"  {said}" if said else "")


def troubles(operation: Operation, color: bool) -> Iterator[str]:
    """A line for each thing that is wrong although nothing has failed."""
    for warning in warnings(operation):
        yield f"{paint('warn', YELLOW, color)}  {warning}"


def pair(operation: Operation, color: bool) -> Iterator[str]:
    """The headline, then both calls with what they carried, then warnings, then an empty line."""
    yield headline(operation, color, clock(operation.first.time))
    for direction, record in (("in ", operation.entry), ("out", operation.exit)):
        if record:
            head = (
                f"  {paint(direction, DIM, color)} {clock(record.time)} {printable(record.probe):12} {record.what:6} "
            )
            yield head + printable(record.body.decode("utf-8", "replace"))
    if operation.fault and operation.exit:
        from cni_capture.story.views.wrapped import last_words

        yield from (f"  {line}" for line in last_words(operation.exit))
    for line in troubles(operation, color):
        yield f"  {line}"
    yield ""
