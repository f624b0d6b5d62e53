"""Operations and records to the streams, in the view that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import click

from cni_capture.reading.records import Record
from cni_capture.story.operations import HINTS, Operation, Verdict


def terminal_width() -> int:
    """Of the terminal: that of stdout, else (`| grep`) the one that stderr goes to, else 80."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except OSError:
            continue
    return 80


class Printer:
    """Operations and records to stdout, in the view that was asked for; hints to stderr, each once."""

    def __init__(self, output: str, color: bool) -> None:
        self.output = output
        self.color = color
        self._write = sys.stdout.buffer.write
        self._terminal = sys.stdout.isatty()
        self._hinted: set[Verdict] = set()
        self._said: set[Verdict] = set()
        if output == "short":
            from cni_capture.story.views.short import Short

            self._short = Short(terminal_width(), color)

    def header(self) -> None:
        if self.output == "short":
            self._text([self._short.header()])

    def operation(self, operation: Operation) -> None:
        if operation.verdict in HINTS:
            self._hinted.add(operation.verdict)
        if self.output == "short":
            self._text(self._short.rows(operation))
        elif self.output == "pair":
            from cni_capture.story.views.pair import pair

            self._text(pair(operation, self.color))
        else:
            for record in operation.records:
                self.record(record)

    def overdue(self, operation: Operation) -> None:
        """An operation that is not decided: for people only, since its records are printed when it is."""
        if self.output in ("short", "pair"):
            self.operation(operation)

    def record(self, record: Record) -> None:
        from cni_capture.story.views.records import as_line, as_message, for_terminal

        line = as_line(record) if self.output == "json" else as_message(record)
        self._write(for_terminal(line) if self._terminal else line)

    def whole(self, found: list[Operation], story: list[Operation]) -> None:
        """Operations out of the `story` of a container: in full, unless another view was asked for."""
        if self.output != "short":
            for operation in found:
                self.operation(operation)
            return
        from cni_capture.story.views.detail import detail

        self._text(detail(found, story, self.color))
        self._hinted |= {operation.verdict for operation in found if operation.verdict in HINTS}

    def stats(self, found: Iterable[str]) -> None:
        self._text(found)

    def hints(self) -> None:
        """Each hint that an operation gave reason for, once."""
        for verdict in sorted(self._hinted - self._said):
            self.flush()
            click.echo(f"hint: {HINTS[verdict]}", err=True)
        self._said |= self._hinted

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def _text(self, found: Iterable[str]) -> None:
        for line in found:
            self._write(line.encode("utf-8", "backslashreplace") + b"\n")
