"""What a call takes of the node's memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.calls import BIN, config, environ

MEMORY = Path(__file__).with_name("memory.py")
PYTHON = "/usr/bin/python3"
SIZE = 50_000_000
TOP = b'{"cniVersion":"1.0.0","name":"big",'


def peak(command: list[str], stdin: bytes, env: dict[str, str]) -> tuple[int, bytes]:
    """Bytes of memory of a command at its peak, and its output; an error unless it succeeds and says nothing."""
    done = subprocess.run([PYTHON, "-IS", MEMORY, *command], input=stdin, env=env, capture_output=True, timeout=120)
    status, size = done.stderr.decode().split()
    assert status == "0"
    return int(size), done.stdout


def in_result(value: bytes) -> bytes:
    return TOP + b'"prevResult":{"x":' + value + b"}}"


SHAPES = {
    "a string": lambda: in_result(b'"' + b"x" * SIZE + b'"'),
    "numbers": lambda: in_result(b"[" + b"1," * (SIZE // 2) + b"1]"),
    "objects": lambda: in_result(b"[" + b'{"a":1},' * (SIZE // 8) + b"1]"),
    "strings": lambda: in_result(b"[" + b'"ab",' * (SIZE // 5) + b"1]"),
    "lists": lambda: in_result(b"[" + b"[]," * (SIZE // 3) + b"1]"),
    "members": lambda: in_result(b"{" + b",".join(b'"k%d":1' % number for number in range(SIZE // 12)) + b"}"),
    "blanks": lambda: TOP + b" " * SIZE + b'"prevResult":{}}',
    "line feeds": lambda: TOP + b"\n" * SIZE + b'"prevResult":{}}',
    "a string that is not ASCII": lambda: in_result(b'"' + b"x" * SIZE + "é".encode() + b'"'),
    "numbers and a secret": lambda: in_result(b'[{"token":"x"},' + b"1," * (SIZE // 2) + b"1]"),
}


def test_a_small_call_takes_little_more_than_the_interpreter(log: Path, lock: Path) -> None:
    """Of 1 KB, 1.2 times the bare interpreter at most."""
    stdin = config(logFile=str(log), lockFile=str(lock), padding="x" * 700)

    peak([str(BIN / "capture-pre")], stdin, environ())  # now the modules are compiled
    bare, _ = peak([PYTHON, "-I", "-S", "-c", "pass"], b"", environ())
    ours, _ = peak([str(BIN / "capture-pre")], stdin, environ())

    assert ours <= 1.2 * bare, f"{ours / bare:.2f} times"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_huge_call_takes_few_times_its_size(log: Path, lock: Path, shape: str) -> None:
    """50 MB of stdin, whatever it consists of, in six times as much, with the right answer and a whole record."""
    stdin = SHAPES[shape]()
    env = environ(CNI_CAPTURE_LOG_FILE=str(log), CNI_CAPTURE_LOCK_FILE=str(lock))
    try:
        ours, answer = peak([str(BIN / "capture-pre")], stdin, env)

        _, _, result = stdin.partition(b'"prevResult":')
        assert answer == result[:-1]
        assert log.stat().st_size > SIZE
        assert ours <= 6 * len(stdin), f"{ours / len(stdin):.1f} times"
    finally:
        log.unlink(missing_ok=True)
