"""Every wait is bounded: whoever has the lock, and whatever the file system does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import records
from tests.faults.calls import HEALTHY, Answer, call, config, finish, needs_root, start
from tests.faults.space import space

HERE = Path(__file__).parent
SPARE = 0.5
"""Seconds beyond `lockTimeout` in which a call must have ended."""

FLOCK = "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX)"
FILELOCK = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire()"


@contextmanager
def holder(program: str, lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program that has the lock until it is left, or its stdin is closed."""
    command = [sys.executable, "-c", f"{program}; print('held', flush=True); sys.stdin.read()", str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.stdin.close()


def shortest(times: int, action: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds and answer of the shortest of some calls: other work on the machine can make any of them longer."""
    timed = []
    for _ in range(times):
        begin = time.monotonic()
        answer = action()
        timed.append((time.monotonic() - begin, answer))
    return min(timed, key=lambda pair: pair[0])


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
@pytest.mark.parametrize("program", [FLOCK, FILELOCK], ids=["flock", "filelock"])
@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_lock_that_is_not_let_go_costs_the_time_allowed_and_no_record(
    log: Path, lock: Path, program: str, stopped: bool, timeout: float
) -> None:
    """After `lockTimeout` the record is written without the lock, and says so."""
    stdin = config(logFile=str(log), lockFile=str(lock), lockTimeout=timeout, logFormat="json")
    with holder(program, lock) as process:
        if stopped:
            process.send_signal(signal.SIGSTOP)

        seconds, answer = shortest(3, lambda: call(stdin))

    why = f"{lock} was locked for {timeout:g} s"
    assert answer == Answer(
        0, HEALTHY.stdout, f"capture-pre: recorded without the lock: {why}; hint: cni-capture doctor\n"
    )
    assert [why] * 3 == [record["unlocked"] for record in records.of_log(log)]
    assert timeout <= seconds < timeout + SPARE


def test_a_lock_that_is_let_go_in_time_is_taken(log: Path, lock: Path) -> None:
    """A call that had to wait is recorded like any other."""
    stdin = config(logFile=str(log), lockFile=str(lock), lockTimeout=30, logFormat="json")
    with holder(FLOCK, lock) as process:
        waiting = start(stdin, {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1"})
        until_waiting(waiting.pid)
        assert process.stdin
        process.stdin.close()

        answer = finish(waiting)

    assert answer == HEALTHY
    assert [None] == [record.get("unlocked") for record in records.of_log(log)]


def test_a_stranger_who_locks_the_log_itself_holds_nobody_up(log: Path, lock: Path) -> None:
    """Not even a call that has to do without the lock, and would tell others by a lock on the log that it writes."""
    stdin = config(logFile=str(log), lockFile=f"{lock}/no", logFormat="json")
    assert call(stdin).stdout == HEALTHY.stdout
    with holder(FLOCK, log):
        assert call(stdin).stdout == HEALTHY.stdout

    assert len(records.of_log(log)) == 2


def until_waiting(pid: int) -> None:
    """Until a thread of the process waits for a flock, as /proc/locks tells ("1: -> FLOCK ... PID ...")."""
    deadline = time.monotonic() + 20
    while not any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines()):
        assert time.monotonic() < deadline, "it does not wait"
        time.sleep(0.01)


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE")
@pytest.mark.parametrize("kind", ["silent", "mute"])
@pytest.mark.parametrize("dead", ["log", "lock"])
def test_a_dead_mount_costs_the_time_allowed(tmp_path: Path, kind: str, dead: str) -> None:
    """Whether log or lock is on a file system that has stopped answering: the call ends, and its streams are let go."""
    script = "mount -t tmpfs tmpfs /mnt; mkdir /mnt/dead /mnt/live"
    server = f"exec {sys.executable} {HERE}/dead_mount.py /mnt/dead {kind}"
    paths = {"log": "/mnt/live/cni.log", "lock": "/mnt/live/cni.lock", dead: f"/mnt/dead/cni.{dead}"}
    stdin = config(logFile=paths["log"], lockFile=paths["lock"], lockTimeout=0.3)
    with space(script, server) as inside:
        seconds, answer = shortest(3, lambda: call(stdin, prefix=inside.inside))
        log = inside.path(Path("/mnt/live/cni.log"))
        recorded = len(records.of_log(log))

    words = {
        "log": "not recorded: /mnt/dead/cni.log did not take it in time",
        "lock": "recorded without the lock: /mnt/dead/cni.lock was locked for 0.3 s",
    }
    assert answer == Answer(0, HEALTHY.stdout, f"capture-pre: {words[dead]}; hint: cni-capture doctor\n")
    assert recorded == {"log": 0, "lock": 3}[dead]
    assert seconds < 0.3 + SPARE


@needs_root
def test_a_live_mount_that_is_not_known_to_be_local_is_written_to_as_any(tmp_path: Path) -> None:
    """Records, complaints and the lock are the same where the writing is done by another process."""
    with space("mount -t tmpfs -o size=64k tmpfs /mnt") as inside:
        stdin = config(logFile="/mnt/cni.log", lockFile="/mnt/cni.lock")
        assert call(stdin, prefix=inside.inside) == HEALTHY
        too_large = config(logFile="/mnt/cni.log", lockFile="/mnt/cni.lock", padding="x" * 100_000)

        answer = call(too_large, prefix=inside.inside)

        assert answer == Answer(
            0,
            HEALTHY.stdout,
            "capture-pre: not recorded: /mnt/cni.log: No space left on device; hint: cni-capture doctor\n",
        )
        assert ["c1"] == [record["container"] for record in records.of_log(inside.path(Path("/mnt/cni.log")))]
