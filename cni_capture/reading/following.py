"""A log that grows: what is appended to it, through rotation, truncation, and before it exists."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from watchfiles import watch

from cni_capture.errors import UserError
from cni_capture.reading.sources import rotated

_CHUNK = 64 * 1024
# Milliseconds: an append is passed on within the first two, a clock ticks with the last.
_DEBOUNCE, _STEP, _TICK = 10, 2, 500


def follow(path: str, start: int = 0) -> Iterator[bytes]:
    """What is in the log from byte `start` on, and then what is appended, for ever.

    An empty chunk says that there is nothing more for now; it comes at least every half second. A file that was
    rotated away is read to its end, and so are those rotated after it, before the new one is. Raises UserError.
    """
    log = Path(os.path.abspath(path))
    fd, at, whole = _open(log), start, True
    try:
        for changed in _wakes(log):
            if not changed and fd >= 0 and os.fstat(fd).st_size == at and _is_current(fd, log):
                yield b""
                continue
            while True:
                if fd < 0:
                    fd, at = _open(log), 0
                if fd >= 0:
                    if os.fstat(fd).st_size < at:  # truncated: begins anew
                        at = 0
                        if not whole:
                            yield b"\n"
                    while chunk := os.pread(fd, _CHUNK, at):
                        at += len(chunk)
                        whole = chunk.endswith(b"\n")
                        yield chunk
                if fd < 0 or _is_current(fd, log):
                    break
                if not whole:  # nobody will write the rest of that line
                    yield b"\n"
                    whole = True
                fd, at = _next(fd, log), 0
            yield b""
    finally:
        if fd >= 0:
            os.close(fd)


def _wakes(log: Path) -> Iterator[bool]:
    """Once at the beginning, then whenever the log may have changed (True), and every now and then (False)."""
    if not log.parent.is_dir():
        raise UserError(f"{log.parent}: no such directory", hint="--follow waits for a log, not for its directory")
    changes = watch(
        log.parent,
        watch_filter=lambda _, name: os.path.basename(name) == log.name,
        debounce=_DEBOUNCE,
        step=_STEP,
        rust_timeout=_TICK,
        yield_on_timeout=True,
        recursive=False,
    )
    yield True  # what comes between this look and the beginning of the watch, the first tick finds
    for changed in changes:
        yield bool(changed)


def _open(log: Path) -> int:
    """A descriptor of the log, -1 while there is none. Raises UserError."""
    try:
        fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise UserError(f"{log}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UserError(f"{log} is not a regular file, and cannot be followed")
    return fd


def _is_current(fd: int, log: Path) -> bool:
    """Whether the descriptor is of the file that has the log's name now; no file: not yet another one."""
    try:
        now = os.stat(log)
    except OSError:
        return True
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino)


def _next(fd: int, log: Path) -> int:
    """The file that came after the one behind `fd`, which is closed; the log itself, unless more was rotated away."""
    mine = os.fstat(fd)
    os.close(fd)
    newer = log
    for name in rotated(str(log)):
        if name.endswith(".gz"):
            continue
        try:
            there = os.stat(name)
        except OSError:
            continue
        if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            return _open(newer)
        newer = Path(name)
    return _open(log)
