"""Rotation: by size, our own and other people's; nothing is lost, and no call becomes slower as the log grows."""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture.rotate import rotate
from tests.faults import load, records
from tests.faults.calls import HEALTHY, call, config, environ, injected, needs_root

needs_logrotate = pytest.mark.skipif(
    shutil.which("logrotate", path="/usr/sbin:/usr/bin") is None, reason="no logrotate"
)


def containers(log: Path) -> list[str]:
    return [record["container"] for record in records.of_log(log)]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not so: {what}"
        time.sleep(0.01)


def shows(path: Path, lines: int) -> bool:
    return path.read_bytes().count(b"\n") == lines


def test_a_log_is_rotated_before_it_exceeds_its_size(log: Path, lock: Path) -> None:
    """No file is larger than `maxSize`, none readable to others, `maxBackups` are kept, the newest records of all."""
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 2000 / load.MEGABYTE, "maxBackups": 3})
    for number in range(40):
        assert injected(stdin, environ(CNI_CONTAINERID=f"c{number}")) == HEALTHY

    assert ["cni.log.3", "cni.log.2", "cni.log.1", "cni.log"] == [path.name for path in records.files(log)]
    kept = containers(log)
    assert [f"c{number}" for number in range(40 - len(kept), 40)] == kept
    assert all(path.stat().st_size <= 2000 for path in records.files(log))
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in records.files(log)}


def test_a_record_larger_than_a_file_may_be_has_a_file_of_its_own(log: Path, lock: Path) -> None:
    """What never fits is written all the same."""
    settings = {"logFile": str(log), "lockFile": str(lock), "logOptions": {"maxSize": 0.001}}
    for padding in ("", "x" * 5000, ""):
        assert injected(config(**settings, padding=padding), environ()) == HEALTHY

    assert [1, 1, 1] == [len(records.of_bytes(path.read_bytes())) for path in records.files(log)]


def test_a_backup_that_cannot_be_removed_stops_neither_rotation_nor_records(log: Path, lock: Path) -> None:
    """Somebody's directory beyond the last backup is said to be in the way."""
    (log.parent / "cni.log.2").mkdir()
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 1e-6, "maxBackups": 1})

    answers = [injected(stdin, environ(CNI_CONTAINERID=f"c{number}")) for number in range(3)]

    said = f"capture-pre: {log}.2 could not be removed: Is a directory; hint: cni-capture doctor\n"
    assert ["", said, said] == [answer.stderr for answer in answers]
    assert "c2" == records.of_bytes(log.read_bytes())[0]["container"]
    assert "c1" == records.of_bytes((log.parent / "cni.log.1").read_bytes())[0]["container"]


def test_a_rotation_that_is_not_possible_costs_no_record(log: Path, lock: Path) -> None:
    """With somebody's directory in the place of the last backup the log goes on in the same file."""
    (log.parent / "cni.log.1").mkdir()
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 1e-6, "maxBackups": 1})

    answers = [injected(stdin, environ(CNI_CONTAINERID=f"c{number}")) for number in range(3)]

    said = f"capture-pre: {log} could not be rotated: Is a directory; hint: cni-capture doctor\n"
    assert ["", said, said] == [answer.stderr for answer in answers]
    assert ["c0", "c1", "c2"] == [record["container"] for record in records.of_bytes(log.read_bytes())]


def test_what_is_planted_where_the_log_was_moved_from_costs_no_record(
    log: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link put there between the renaming and the opening is not followed: the record goes to the file moved away."""

    def rotate_and_plant(path: str, backups: int) -> str:
        words = rotate(path, backups)
        log.symlink_to(log.parent / "victim")
        return words

    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 1e-6, "maxBackups": 1})
    assert injected(stdin, environ(CNI_CONTAINERID="c0")) == HEALTHY
    monkeypatch.setattr("cni_capture.rotate.rotate", rotate_and_plant)

    answer = injected(stdin, environ(CNI_CONTAINERID="c1"))

    assert answer.stderr == f"capture-pre: {log} is a symbolic link; hint: cni-capture doctor\n"
    moved = records.of_bytes((log.parent / "cni.log.1").read_bytes())
    assert ["c0", "c1"] == [record["container"] for record in moved]
    assert not (log.parent / "victim").exists()


def test_tail_follows(log: Path, lock: Path) -> None:
    """`tail -F` shows every record, across rotations."""
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 0.001, "maxBackups": 50})
    seen = log.parent / "seen"
    with (
        seen.open("wb") as out,
        subprocess.Popen(["tail", "-n", "+1", "-s", "0.05", "-F", log], stdout=out, stderr=subprocess.DEVNULL) as tail,
    ):
        try:
            for number in range(10):
                assert injected(stdin, environ(CNI_CONTAINERID=f"c{number}")) == HEALTHY
                until(functools.partial(shows, seen, number + 1), "tail shows the record")
        finally:
            tail.kill()

    assert containers(log) == [record["container"] for record in records.of_bytes(seen.read_bytes())]
    assert len(records.files(log)) > 2


@needs_root
@needs_logrotate
@pytest.mark.parametrize("way", ["create 0640 root root", "nocreate", "copytruncate"])
def test_logrotate_may_rotate_in_our_place(log: Path, lock: Path, way: str) -> None:
    """Records before and after are all there, and a new file is closed to others from the first record on."""
    conf = log.parent / "logrotate.conf"
    conf.write_text(f"{log} {{\n  su root root\n  rotate 5\n  {way}\n}}\n")
    conf.chmod(0o600)
    for number in range(4):
        assert call(config(logFile=str(log), lockFile=str(lock)), environ(CNI_CONTAINERID=f"c{number}")) == HEALTHY
        if number < 3:
            command = ["/usr/sbin/logrotate", "--force", "--state", str(log.parent / "state"), str(conf)]
            subprocess.run(command, check=True)

    assert ["c0", "c1", "c2", "c3"] == containers(log)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in records.files(log)}


@needs_root
@needs_logrotate
def test_logrotate_loses_nothing_while_calls_run(log: Path, lock: Path) -> None:
    """Renamed under the hands of 64 calls at a time, every record is in one of the files."""
    conf = log.parent / "logrotate.conf"
    conf.write_text(f"{log} {{\n  su root root\n  rotate 1000\n  nocreate\n  missingok\n}}\n")
    conf.chmod(0o600)
    calls = load.plan(random.Random(3), 150, log, lock, killed=0)
    done = threading.Event()

    def rotate() -> None:
        while not done.is_set():
            command = ["/usr/sbin/logrotate", "--force", "--state", str(log.parent / "state"), str(conf)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    for planned in calls:
        planned.network["logOptions"]["maxSize"] = 0
    rotating = threading.Thread(target=rotate)
    rotating.start()
    try:
        statuses = load.run(calls, together=64)
    finally:
        done.set()
        rotating.join()

    load.check(calls, statuses, log)
    assert len(records.files(log)) > 3


def test_a_log_that_is_removed_is_made_anew(log: Path, lock: Path) -> None:
    """`rm` of log and lock while calls run harms no call, and the next record is in a new file."""
    calls = load.plan(random.Random(4), 60, log, lock, killed=0)
    done = threading.Event()

    def remove() -> None:
        while not done.is_set():
            log.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)

    removing = threading.Thread(target=remove)
    removing.start()
    try:
        assert [0] * 60 == load.run(calls, together=16)
    finally:
        done.set()
        removing.join()

    log.unlink(missing_ok=True)
    assert call(config(logFile=str(log), lockFile=str(lock))) == HEALTHY
    assert ["c1"] == [record["container"] for record in records.of_bytes(log.read_bytes())]


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_the_work_of_a_call_does_not_grow_with_the_log(log: Path, lock: Path) -> None:
    """With 200 bytes or 60 GB of log, a call makes the same system calls with the same results."""
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 0})
    work = []
    for size in (200, 60 * 1024**3):
        log.write_bytes(b"")
        os.truncate(log, size - 1)  # holes: no room is taken
        with log.open("ab") as file:
            file.write(b"\n")
        log.chmod(0o600)
        lock.unlink(missing_ok=True)
        trace = log.parent / "trace"
        assert call(stdin, prefix=["strace", "-o", str(trace), "-e", "trace=desc,file"]) == HEALTHY
        lines = trace.read_text().splitlines()
        last = max(number for number, line in enumerate(lines) if str(lock) in line)
        work.append([re.sub(r"\(.*\) *", "", line) for line in lines[last:] if not line.startswith(("+++", "---"))])

    small, large = work
    assert small == large
