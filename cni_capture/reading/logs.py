"""The logs that somebody named, as one stream of records: whole, or from as near to the end as will do."""

from __future__ import annotations

import heapq
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain

from cni_capture.reading.records import Damage, Record, lines, records
from cni_capture.reading.sources import STDIN, Source, count_lines, line_start, open_set, open_source

# How much is read from the end of a log at first, in bytes; if that is not enough, four times as much.
TAIL = 256 * 1024

Enough = Callable[[Iterable[Record]], bool]


class Logs:
    """All records of some logs, and what was wrong with them. Raises UserError where one cannot be opened or read."""

    def __init__(self, paths: Sequence[str], rotated: bool = False, bar: bool = False) -> None:
        """With `rotated`, each path stands also for what was rotated out of it; `bar`: show progress on stderr."""
        self._sets = [open_set(path) if rotated and path != STDIN else [open_source(path)] for path in paths]
        self._bar = bar
        self._read: list[tuple[Source, int, Damage]] = []

    def records(self) -> Iterator[Record]:
        """All of them, oldest first: files of one set follow each other, several logs are merged by time."""
        if self._bar:
            return self._with_bar()
        return self._merged(None)

    def _with_bar(self) -> Iterator[Record]:
        with Progress(sum(source.size for each in self._sets for source in each if source.seekable)) as progress:
            yield from self._merged(progress)

    def _merged(self, progress: Callable[[int], None] | None) -> Iterator[Record]:
        streams = [chain.from_iterable(self._records(source, 0, progress) for source in each) for each in self._sets]
        return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda record: record.time)

    def tail(self, enough: Enough) -> Iterator[Record]:
        """From a place near the end of the newest file on, if what follows is `enough`; else all."""
        source = self._sets[-1][-1]
        start = tail_start(source, enough) if len(self._sets) == 1 and source.seekable else 0
        return self._records(source, start) if start else self.records()

    def _records(
        self, source: Source, start: int = 0, progress: Callable[[int], None] | None = None
    ) -> Iterator[Record]:
        damage = Damage()
        self._read.append((source, start, damage))
        return records(lines(source.chunks(start, progress)), damage)

    def of_others(self) -> list[str]:
        """Names of the files that somebody else than root or ourselves may have written; of a pipe, nobody can tell."""
        ours = (0, os.geteuid())
        pipe = sys.stdin.buffer if sys.stdin else None
        files = [source for each in self._sets for source in each if source.stream is not pipe]
        stats = [(source.name, os.fstat(source.stream.fileno())) for source in files]
        return [name for name, stat in stats if stat.st_uid not in ours or stat.st_mode & 0o002]

    def complaints(self) -> Iterator[str]:
        """What was damaged, by file, for a person."""
        for source, start, damage in self._read:
            before = count_lines(source.stream, start) if damage.count and start else 0
            found = [damage.words(before), source.remark]
            if any(found):
                yield f"{source.name}: {'; '.join(filter(None, found))}"


def tail_start(source: Source, enough: Enough) -> int:
    """Where in a file to begin reading, in bytes, so that what follows is `enough`; 0 when nothing less is."""
    size = TAIL
    while size < source.size:
        start = line_start(source.stream, source.size - size)
        if enough(records(lines(source.chunks(start)), Damage())):
            return start
        size *= 4
    if source.size > TAIL:
        source.stream.seek(0)
    return 0


class Progress(AbstractContextManager["Progress"]):
    """A bar on stderr for what takes longer than a second. Called with the bytes just read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._done = 0
        self._began = time.monotonic()
        self._advance: Callable[[int], None] | None = None
        self._stop: Callable[[], None] | None = None

    def __call__(self, read: int) -> None:
        self._done += read
        if self._advance is None and time.monotonic() - self._began > 1:
            self._show()
        if self._advance:
            self._advance(self._done)

    def _show(self) -> None:
        from rich import progress  # slow to import, and seldom needed
        from rich.console import Console

        bar = progress.Progress(
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = bar.add_task("", total=self._size or None)
        bar.start()
        self._advance = lambda done: bar.update(task, completed=done)
        self._stop = bar.stop

    def __exit__(self, *_: object) -> None:
        if self._stop:
            self._stop()
