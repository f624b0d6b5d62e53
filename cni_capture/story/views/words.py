"""What all views share: names, times and verdicts in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from cni_capture.reading.records import decode
from cni_capture.story import changes
from cni_capture.story.faults import SUCCESS
from cni_capture.story.lint import lint
from cni_capture.story.operations import Operation, Verdict
from cni_capture.story.views.terminal import GREEN, RED, YELLOW, paint, printable

_COLORS = {
    Verdict.OK: GREEN,
    Verdict.FAILED: RED,
    Verdict.NO_EXIT: RED,
    Verdict.NO_END: RED,
    Verdict.ENTRY_ONLY: YELLOW,
    Verdict.EXIT_ONLY: YELLOW,
}


def clock(time: datetime) -> str:
    """The time of day, UTC, to the millisecond."""
    return f"{time:%H:%M:%S}.{time.microsecond // 1000:03}"


def span(time: timedelta) -> str:
    """How long, in its two largest units: 6m7s."""
    seconds = time.total_seconds()
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (whole % 60, "s")]
    while not parts[0][0]:
        parts.pop(0)
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def milliseconds(operation: Operation) -> str:
    """At most five characters; "?" where nobody knows."""
    found = operation.milliseconds
    if found is None:
        return "?"
    return f"{found:.0f}" if found < 99_999.5 else f"{found / 1000:.0f}s"[:5]


def who(operation: Operation) -> str:
    """The pod; where none is known, the network in brackets."""
    namespace, name = operation.pod
    if name:
        return printable(f"{namespace}/{name}" if namespace else name)
    return printable(f"[{operation.first.network}]") if operation.first.network else "-"


def hop(operation: Operation) -> str:
    """Which of several hops of the chain it was, and whether somebody has replayed it; "" where there is one."""
    record = operation.first
    return printable(f"replay {record.hop}".rstrip() if record.env.replay else record.hop)


def verdict(operation: Operation, color: bool) -> str:
    undecided = "no end so far" if operation.first.plugin else "no exit so far"
    word = str(operation.verdict.value) if operation.verdict else undecided
    return paint(word, _COLORS.get(operation.verdict, YELLOW) if operation.verdict else YELLOW, color)


def outcome(operation: Operation) -> str:
    """What there is to say besides the verdict: why it failed, or what it brought."""
    if operation.verdict is Verdict.FAILED:
        return printable("; ".join(filter(None, _why(operation))))
    if operation.after:
        return _after(operation)
    before, after = changes.results(operation)
    if not after:
        return ""
    result = decode(after)
    there = changes.addresses(result)
    return printable(" ".join([*there, *changes.words(decode(before), result)]))


def _why(operation: Operation) -> Iterator[str]:
    """Why it failed: the error as it was given; else how a wrapped plugin ended, and what it said last."""
    error, fault = operation.error, operation.fault
    if error:
        details = f"; {error['details']}" if error.get("details") else ""
        code = f"{error['code']}: " if "code" in error else ""
        yield f"{code}{error.get('msg', '')}{details}"
        yield fault.reason if fault else ""
    elif fault and operation.exit:
        from cni_capture.story.views.wrapped import gist

        last = gist(operation.exit)
        stderr = f"stderr: {last}" if last else ""
        yield from (fault.reason, stderr) if fault.ended == SUCCESS else (fault.ended, stderr, fault.reason)


def _after(operation: Operation) -> str:
    """Of a DEL: what it ends."""
    assert operation.after
    if operation.after.again:
        return "again"
    if operation.after.failed:
        return "clean-up of the failed ADD"
    if operation.after.added and operation.first.time >= operation.after.added:
        return f"after {span(operation.first.time - operation.after.added)}"
    return ""


def warnings(operation: Operation) -> Iterator[str]:
    """What is wrong although the plugins said ok: the result breaks the spec, or is not what is there."""
    _, after = changes.results(operation)
    if after:
        # Records say the version of the configuration, 0.1.0 where it says none.
        yield from map(printable, lint(after, operation.first.cni_version))
        yield from map(printable, changes.contradictions(operation))
