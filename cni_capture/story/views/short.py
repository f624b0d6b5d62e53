"""One line an operation, in fixed columns, within the width of the terminal; the long column last.

Why it failed is what somebody wants to know, so that gets a line of its own where the column has no room for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from cni_capture.story.operations import FAILED, Operation
from cni_capture.story.views.terminal import BOLD, DIM, YELLOW, paint, printable, shorten
from cni_capture.story.views.words import clock, hop, milliseconds, outcome, verdict, warnings, who

NARROWEST = 80
# Under the ID.
_INDENT = " " * 13


class Short:
    """The list. `width` is in characters."""

    def __init__(self, width: int, color: bool) -> None:
        spare = max(0, width - NARROWEST)
        self._width = max(width, NARROWEST)
        self._color = color
        self._day: date | None = None
        self._pod = 19 + min(spare // 2, 30)
        self._id = 6 if spare < 60 else 12

    def header(self) -> str:
        names = f"{'TIME':12} {'ID':{self._id}} {'CMD':6} {'POD':{self._pod}} {'IF':5} {'MS':>5} RESULT"
        return paint(names, BOLD, self._color)

    def rows(self, operation: Operation) -> Iterator[str]:
        """The line of an operation, and why it failed; before it the date, where that is not the one before."""
        record = operation.first
        if record.time.date() != self._day:
            self._day = record.time.date()
            yield paint(f"-- {self._day} UTC --", DIM, self._color)
        head = " ".join(
            (
                clock(record.time),
                f"{printable(record.env.container)[: self._id] or '-':{self._id}}",
                f"{shorten(printable(record.env.command) or '-', 6):6}",
                f"{shorten(who(operation), self._pod):{self._pod}}",
                f"{shorten(printable(record.env.ifname) or '-', 5):5}",
                f"{milliseconds(operation):>5}",
                "",
            )
        )
        said, room = outcome(operation), self._width - len(head)
        result, is_whole = self._result(operation, said, room)
        if is_whole or operation.verdict is not FAILED:
            yield head + result
        else:
            yield head + self._result(operation, "", room)[0]
            yield _INDENT + _cut(said, self._width - len(_INDENT), 0)

    def _result(self, operation: Operation, said: str, room: int) -> tuple[str, bool]:
        """Verdict, warning and what is `said` besides, coloured, in `room` characters; and whether all of it."""
        label = f"{hop(operation)}: " if hop(operation) else ""
        warn = " warn" if next(warnings(operation), None) else ""
        plain = label + verdict(operation, False) + warn + (f" {said}" if said else "")
        end = len(label) + len(verdict(operation, False))
        is_whole = len(plain) <= room
        plain = _cut(plain, room, end + len(warn))
        # Coloured after it has been measured: what colours it has no width.
        if not self._color or len(plain) < end:
            return plain, is_whole
        rest = plain[end:]
        if warn and rest.startswith(warn):
            rest = paint(warn, YELLOW, True) + rest[len(warn) :]
        return label + verdict(operation, True) + rest, is_whole


def _cut(text: str, room: int, keep: int) -> str:
    """At most `room` characters, without a part of a word unless it stands within the first `keep`."""
    if len(text) <= room:
        return text
    blank = text.rfind(" ", keep + 1, room)
    return f"{text[: blank if blank > 0 else room - 1]}…"
