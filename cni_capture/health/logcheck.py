"""The log of probes, examined: can it be written, is it being written, and does it tell the whole story?"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cni_capture import log
from cni_capture.conf.splicing import watched
from cni_capture.errors import UserError
from cni_capture.health.verdicts import FAIL, OK, WARN, Finding
from cni_capture.reading.logs import Logs
from cni_capture.reading.records import Record
from cni_capture.settings import Settings
from cni_capture.story.operations import Operation, operations

_LITTLE, _NOTHING = 100 * 1024 * 1024, 1024 * 1024  # bytes of free disk
_AHEAD = timedelta(seconds=5)


def examine_log(settings: Settings, folders: tuple[Path, ...]) -> Iterator[Finding]:
    """Findings about a log; `folders` are those that runtimes watch."""
    for complaint in settings.complaints:
        yield Finding(WARN, complaint, "the probes use the default; cni-capture splice writes it anew")
    for path in (settings.log_file, settings.lock_file):
        if folder := watched(path, *folders):
            yield Finding(
                FAIL, f"{path} is in {folder}, which runtimes watch", "cni-capture splice --log-file elsewhere"
            )
    yield _lock(settings)
    yield _writing(settings)
    yield from _space(settings)
    yield from _contents(settings)


def _lock(settings: Settings) -> Finding:
    """Whether the lock is free, within the time that a probe waits for it."""
    path = settings.lock_file
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Finding(OK, f"nobody has ever taken the lock {path}")
    except OSError as error:
        return Finding(WARN, f"{path}: {error.strerror}", "records are written without a lock, or only root can tell")
    deadline = time.monotonic() + settings.lock_timeout
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return Finding(OK, f"the lock {path} is free")
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return Finding(
                        WARN,
                        f"{path} is held by {_holder(fd)}",
                        f"records wait {settings.lock_timeout:g} s and are written without it then; fuser -v {path}",
                    )
            time.sleep(0.05)
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    """Who holds a flock on the file (proc(5), /proc/locks)."""
    stat = os.fstat(fd)
    name = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == name:
            try:
                return f"process {words[4]} ({Path(f'/proc/{words[4]}/comm').read_text().strip()})"
            except OSError:
                return f"process {words[4]}"
    return "somebody who is not to be seen from here"


def _writing(settings: Settings) -> Finding:
    path = settings.log_file
    if os.geteuid() != 0 and not os.path.lexists(path):  # the log would be ours, and the probes would not take it
        return Finding(WARN, f"there is no {path} yet", "as root it is tried whether it can be written")
    trouble = log.write(settings, lambda why: [])
    if trouble.startswith("recorded without the lock"):
        return Finding(WARN, trouble, f"who holds it: fuser -v {settings.lock_file}")
    if trouble:
        return Finding(FAIL, trouble, "cni-capture splice --log-file writes another one")
    return Finding(OK, f"{path} can be written")


def _space(settings: Settings) -> Iterator[Finding]:
    try:
        disk = os.statvfs(os.path.dirname(settings.log_file))
    except OSError:
        return  # then it cannot be written, either
    free = disk.f_bavail * disk.f_frsize
    words = f"{free / 1024 / 1024:,.0f} MB free where the log is"
    if free < _NOTHING or (disk.f_files and not disk.f_favail):
        yield Finding(FAIL, f"{words}, and {disk.f_favail:,} inodes", "make room: the call goes on, its record is lost")
    elif free < _LITTLE:
        yield Finding(WARN, words, "make room, or let it take less: cni-capture splice --max-size --max-backups")
    else:
        yield Finding(OK, words)


def _contents(settings: Settings) -> Iterator[Finding]:
    """Number and age of the records, the clock, and what began and never ended."""
    last: Record | None = None
    count = 0

    def counted(found: Iterator[Record]) -> Iterator[Record]:
        nonlocal last, count
        for record in found:
            last, count = record, count + 1
            yield record

    try:
        logs = Logs([settings.log_file], rotated=True)
        orphans = _without_del(operations(counted(logs.records())))
    except UserError as error:
        yield Finding(WARN, error.message, "start a container")
        return
    for complaint in logs.complaints():
        yield Finding(WARN, complaint, "what is damaged is left out of everything else")
    if last is None:
        yield Finding(WARN, "no records yet", "start a container; those that run already are seen when they end")
        return
    age = datetime.now(timezone.utc) - last.time
    yield Finding(OK, f"{_counted(count, 'record')}, the last one {_ago(age)}")
    if age < -_AHEAD:
        yield Finding(WARN, f"the last record is {-age.total_seconds():.0f} s in the future", "set this node's clock")
    if orphans:
        names = ", ".join(operation.first.env.container[:12] for operation in orphans[:3])
        yield Finding(
            WARN,
            f"{_counted(len(orphans), 'ADD')} without a DEL, though the network namespace is gone: {names}",
            f"their addresses may still be taken; cni-capture show {orphans[0].first.env.container[:12]}",
        )


def _without_del(found: Iterator[Operation]) -> list[Operation]:
    """ADDs that nobody deleted, of containers that are gone; replays are nobody's containers."""
    added: dict[tuple[str, ...], Operation] = {}
    for operation in found:
        record = operation.first
        if record.env.replay:
            continue
        if record.env.command == "ADD":
            added[record.attachment] = operation
        elif record.env.command == "DEL":
            added.pop(record.attachment, None)
    return [each for each in added.values() if each.first.env.netns and not os.path.exists(each.first.env.netns)]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _ago(age: timedelta) -> str:
    seconds = max(0.0, age.total_seconds())
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} seconds ago"
