"""Where lines of the log come from: files, rotated and compressed ones, standard input, a file that still grows."""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from cni_capture.errors import UserError

STDIN = "-"
# Larger ones are slower: they leave the processor's cache.
_CHUNK = 64 * 1024


class Source:
    """One open log: its name for people, its stream, and its size in bytes (0: unknown)."""

    def __init__(self, name: str, stream: IO[bytes], size: int = 0, compressed: bool = False) -> None:
        self.name = name
        self.stream = stream
        self.size = size
        self.compressed = compressed
        self.remark = ""
        """What was wrong with it, in words, once it has been read."""

    @property
    def seekable(self) -> bool:
        return self.size > 0 and not self.compressed

    def chunks(self, start: int = 0, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """All that is there from byte `start` on; `progress` is told how many bytes have been read."""
        if start:
            self.stream.seek(start)
        # os.read() gives what a pipe has now; read() would wait for more.
        read = self.stream.read if self.compressed else partial(os.read, self.stream.fileno())
        try:
            while chunk := read(_CHUNK):
                if progress:
                    progress(len(chunk))
                yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.remark = f"damaged gzip data, read as far as possible ({error})"
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}") from None


def open_source(path: str) -> Source:
    """The log at `path`, "-" for standard input, decompressed when the name ends in .gz. Raises UserError."""
    if path == STDIN:
        return Source("standard input", sys.stdin.buffer)
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115  (the Source has it now)
        if os.path.isdir(path):
            raise IsADirectoryError(21, "Is a directory")
    except OSError as error:
        hint = {
            FileNotFoundError: "has a probe been called yet? --follow waits for the first record",
            PermissionError: "logs belong to the user that the runtime runs as, usually root",
        }.get(type(error), "")
        raise UserError(f"{path}: {error.strerror}", hint=hint) from None
    size = os.fstat(stream.fileno()).st_size
    if path.endswith(".gz"):
        return Source(path, cast(IO[bytes], gzip.GzipFile(fileobj=stream)), size, compressed=True)
    return Source(path, stream, size)


def open_set(path: str) -> list[Source]:
    """A log and what was rotated out of it, the oldest first. Raises UserError.

    Opened from the newest to the oldest, which is the way files move when a probe rotates them meanwhile: a file can
    so be met twice, and is then left out, but none is missed. No lock needed, which readers may not have the right to.
    """
    found: list[Source] = []
    seen = set()
    for name in [path, *rotated(path)]:
        try:
            source = open_source(name)
        except UserError:
            if name == path and not found:
                raise
            continue  # rotated away
        stat = os.fstat(source.stream.fileno())
        if (stat.st_dev, stat.st_ino) not in seen:
            seen.add((stat.st_dev, stat.st_ino))
            found.append(source)
    return found[::-1]


def rotated(path: str) -> list[str]:
    """The names of what was rotated out of a log, the newest first: cni.log.1, cni.log.2.gz and so on."""
    log = Path(path)
    pattern = re.compile(re.escape(log.name) + r"\.([0-9]+)(\.gz)?")
    try:
        names = os.listdir(log.parent)
    except OSError:
        return []
    numbered = sorted((int(match[1]), match[0]) for name in names if (match := pattern.fullmatch(name)))
    return [str(log.parent / name) for _, name in numbered]


def count_lines(stream: IO[bytes], end: int) -> int:
    """How many line feeds a file has before byte `end`."""
    count = 0
    stream.seek(0)
    while end > 0 and (chunk := stream.read(min(_CHUNK, end))):
        count += chunk.count(b"\n")
        end -= len(chunk)
    return count


def line_start(stream: IO[bytes], at: int) -> int:
    """The first beginning of a line at or after byte `at`."""
    if at <= 0:
        return 0
    stream.seek(at - 1)
    while chunk := stream.read(_CHUNK):
        feed = chunk.find(b"\n")
        if feed >= 0:
            return at + feed
        at += len(chunk)
    return at
