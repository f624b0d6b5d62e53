"""A probe that is ended, or whose reader goes away, ends as the system would have it and leaves no torn record."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults import records
from tests.faults.calls import BIN, HEALTHY, Answer, call, config, environ, finish, start
from tests.faults.test_waits import until_waiting


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_call_that_waits_for_the_lock(log: Path, lock: Path, number: signal.Signals) -> None:
    """At once, with the status of the signal, silently, without a record."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start(config(logFile=str(log), lockFile=str(lock), lockTimeout=60), environ())
        until_waiting(process.pid)
        process.send_signal(number)

        assert finish(process) == Answer(-number, "", "")

    assert records.of_log(log) == []


def test_a_signal_ends_a_call_that_waits_for_its_configuration(log: Path, lock: Path) -> None:
    """A runtime that gives up while it writes."""
    env = environ(CNI_CAPTURE_LOG_FILE=str(log), CNI_CAPTURE_LOCK_FILE=str(lock))
    process = subprocess.Popen(
        [BIN / "capture-pre"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    process.stdin.write(b"{")
    process.stdin.flush()
    until_reading(process.pid)
    process.terminate()

    assert finish(process) == Answer(-signal.SIGTERM, "", "")
    assert not log.exists()


def until_reading(pid: int) -> None:
    """Until the process is blocked in read(2) of its stdin, which is system call 0."""
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 "):
        assert time.monotonic() < deadline, "it does not read"
        time.sleep(0.01)


@pytest.mark.parametrize("read", [0, 10])
def test_a_reader_that_goes_away_costs_the_answer_and_not_the_record(log: Path, lock: Path, read: int) -> None:
    """Before the answer, or in the midst of a long one: ended by SIGPIPE as any program, recorded whole."""
    keys = {"logFile": str(log), "lockFile": str(lock), "name": "n"}
    padding = "x" * 1_000_000
    stdin = config(**keys)[:-1] + b', "prevResult": {"x": "' + padding.encode() + b'"}}'
    process = subprocess.Popen(
        [BIN / "capture-pre"], env=environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    if not read:
        process.stdout.close()
    process.stdin.write(stdin)
    process.stdin.close()
    if read:
        assert len(os.read(process.stdout.fileno(), read)) == read
        process.stdout.close()
    assert process.stderr
    with process.stderr:
        assert process.stderr.read() == b""

    assert process.wait() == -signal.SIGPIPE
    assert [padding] == [record["input"]["prevResult"]["x"] for record in records.of_log(log)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_call_ended_at_any_moment_damages_no_record(log: Path, lock: Path, number: signal.Signals) -> None:
    """80 calls with records of 4 MB, each ended somewhere: after the next call every line is whole."""
    stdin = config(logFile=str(log), lockFile=str(lock), padding="x" * 4_000_000)
    chance = random.Random(5)
    for _ in range(80):
        process = start(stdin, environ())
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(number)
        assert finish(process).status in (0, -number)

    assert call(config(logFile=str(log), lockFile=str(lock))).stdout == HEALTHY.stdout
    assert {"c1"} == {record["container"] for record in records.of_log(log)}
