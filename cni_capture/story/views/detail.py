"""Every call of one container in full, in order: what it was given, what came back, and what that changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from cni_capture.reading.records import Record, facts, variables
from cni_capture.story import changes
from cni_capture.story.operations import Operation, ending
from cni_capture.story.views import wrapped
from cni_capture.story.views.pair import headline, troubles
from cni_capture.story.views.terminal import CYAN, GREEN, RED, YELLOW, paint, printable
from cni_capture.story.views.words import clock, span

# Said elsewhere in the block, or of no interest to a reader.
_KNOWN = (
    *("v", "time", "probe", "pid", "env", "side", "monotonic", "network", "label", "input", "output"),
    *("newlines", "returns", "stderr", "stderrBytes"),
)
_SHOWN_VARIABLES = ("CNI_COMMAND",)


def detail(operations: Iterable[Operation], story: Sequence[Operation], color: bool) -> Iterator[str]:
    """A block of lines for each operation. They are out of `story`, all of their container's, the oldest first."""
    for operation in operations:
        record = operation.first
        yield headline(operation, color, f"{record.time:%Y-%m-%d} {clock(record.time)}")
        if record.env.command == "ADD" and not record.error:
            yield f"  {_end(operation, story[story.index(operation) + 1 :])}"
        for line in troubles(operation, color):
            yield f"  {line}"
        yield from _calls(operation, color)
        yield ""


def _end(add: Operation, later: Sequence[Operation]) -> str:
    """How an ADD ended later."""
    end = ending(add, later)
    word = "cleaned up" if add.is_failure else "deleted"
    if end is None:
        return f"never {word}, as far as this log goes"
    apart = span(end.first.time - add.first.time)
    return f"{word} {apart} later" + (", but that DEL failed" if end.is_failure else "")


def _calls(operation: Operation, color: bool) -> Iterator[str]:
    before, after = changes.results(operation)
    told: dict[str, str] = {}
    for record in operation.records:
        title = f"{record.side} {clock(record.time)} {_process(record)}"
        yield f"  {paint(printable(title), CYAN, color)}"
        # The second time only what differs from the first.
        for name, value in _told(record).items():
            if told.get(name) != value:
                yield f"    {name:16} {value}"
                told[name] = value
        if record is operation.exit and before and after:
            yield f"    {record.what}, against the prevResult that went in"
            yield from _marked(changes.diff(before, after), color)
        elif record is operation.exit and operation.entry and record.what == operation.entry.what:
            found = changes.diff(operation.entry.body, record.body)
            yield f"    {record.what}, where it differs from the entry's"
            yield from _marked([line for line in found if line[0] != " "], color)
        elif record.plugin and record.body[:1] == b'"':
            yield from (f"    {line}" for line in wrapped.stdout(record))
        else:
            yield f"    {record.what}"
            yield from _marked([(" ", line) for line in changes.pretty(record.body).splitlines()], color)
        if record is operation.exit and operation.fault:
            for line in wrapped.verdict_of_libcni(record, operation.fault):
                yield f"    {paint(line, YELLOW, color)}"
        if record.plugin and record is operation.exit:
            yield from (f"    {line}" for line in wrapped.last_words(record))


def _process(record: Record) -> str:
    known = facts(record)
    name = f"{record.probe}[{known['pid'].decode()}]" if "pid" in known else record.probe
    parent = json.loads(known["parent"]) if "parent" in known else ""
    return f"{name}, called by {parent}[{known.get('ppid', b'?').decode()}]" if parent else name


def _told(record: Record) -> dict[str, str]:
    """Variables and other facts in words; keys that this version does not know are shown, too."""
    found = {name: value for name, value in variables(record).items() if name not in _SHOWN_VARIABLES}
    for name, raw in facts(record).items():
        if name not in _KNOWN and name not in ("ppid", "parent"):
            text = raw.decode("utf-8", "replace")
            found[name] = text[1:-1] if text[:1] == '"' and "\\" not in text else text
    return {printable(name): printable(value) for name, value in found.items()}


def _marked(lines: Iterable[tuple[str, str]], color: bool) -> Iterator[str]:
    for mark, line in lines:
        text = f"{mark} {printable(line)}"
        yield f"    {paint(text, GREEN if mark == '+' else RED, color and mark != ' ')}"
