"""Calls that no runtime would make on purpose, grown from ones that runtimes made, and what must be true of any."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import records
from tests.faults.calls import Answer

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
PROBES = ("capture-pre", "capture-post")
VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")

PIECES = [
    b"", b"\0", b"\n", b"\r\n", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"-Infinity",
    b"Infinity", b"1e999999", b"-0", b"01", b"9" * 5000, b"1e-5000", b"0.", b"[" * 2000, b'{"a":' * 2000, b"{}",
    b"[]", b"null", b"true", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\\x"', b'"\x1b]0;x\x07"',
    "\u2028\u0085\x9b31m".encode(), b"\x1b[2J", b'"prevResult":1,', b'"prevResult":null,',
    b'"prevResult":"\\u001b[2J",', b'"cniVersion":"",', b'"cniVersion":7,', b'"cniVersion":"\\u001b]0;x\\u0007",',
    b'"name":"a\\nb",', b'"label":"x\\ny",', b'"redact":["a","\\ud800"],', b'"logFormat":"json",',
    b'"logFormat":{},', b'"logFile":"x",', b'"logFile":"/\\ud800",', b'"lockFile":[],', b'"lockTimeout":"NaN",',
    b'"logOptions":{"maxSize":1e400},', b'"logOptions":{"maxBackups":-1},', b'"token":"s3cret",',
    b'"label":' + b"[" * 990 + b"]" * 990 + b",", b'"interfaces":"maybe",', b",", b":", b"}", b"]", b'"', b"\\",
    b" " * 70_000, b"\n" * 5000, b"/**/", b"'", b'"k":1,' * 3000,
]  # fmt: skip
"""What is put into a configuration; the longer ones reach the limits of recursion, of line breaks, of a piece."""

WORDS = [
    "", " ", "\n", "\r\n", "\x1b]0;title\x07", "\x1b[2J", "\x7f", "\x9b31m", "\u2028", "\ud800", "\udcff", "\0",
    '"', "\\", "=", ",", "a=b", "a b", "{}", "[", "é", "😀", "x" * 70_000, "ADD", "add", "ADD\n", "VERSION", "GC",
    "STATUS", "CHECK", "DEL", "CNI_COMMAND=ADD,CNI_CONTAINERID=x,input={}", "../../etc/passwd", "%s%n", "null",
    "true", "1e5", "0",
]  # fmt: skip
"""What is put into variables and their names."""

_VARIABLES = ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH", "TRACEPARENT"]


@dataclass(frozen=True)
class Hostile:
    name: str
    env: dict[str, str]
    stdin: bytes


def seeds() -> list[Hostile]:
    """Calls as runtimes made them, the shortest of each verb and file first."""
    calls = [json.loads(line) for path in sorted(CAPTURES.glob("*.jsonl")) for line in path.open()]
    return [Hostile("capture-pre", call["env"], call["stdin"].encode("utf-8", "surrogateescape")) for call in calls]


def possible(call: Hostile) -> Hostile:
    """The call with an environment that a process can have: execve(2) takes 128 KiB of a variable."""
    impossible = str.maketrans("", "", "\0\ud800")
    longest = 30_000  # characters, of up to four bytes
    env = {
        name.translate(impossible).replace("=", ""): value.translate(impossible)[:longest]
        for name, value in call.env.items()
    }
    return Hostile(call.name, env, call.stdin)


def mutated(seed: Hostile, chance: random.Random) -> Hostile:
    """The call with some changes to its configuration, its environment, or both."""
    stdin, env = bytearray(seed.stdin), dict(seed.env)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        chance.choice(_CHANGES)(stdin, chance)
    for _ in range(chance.choice((0, 0, 1, 1, 3))):
        name = chance.choice(_VARIABLES) if chance.random() < 0.8 else "CNI_" + chance.choice(WORDS)
        env[name] = chance.choice(WORDS)
    if chance.random() < 0.1:
        env.pop(chance.choice(_VARIABLES), None)
    if chance.random() < 0.3:
        env["CNI_COMMAND"] = chance.choice(VERBS)
    return Hostile(chance.choice(PROBES), env, bytes(stdin))


def _insert(stdin: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(stdin) + 1)
    stdin[at:at] = chance.choice(PIECES)


def _insert_member(stdin: bytearray, chance: random.Random) -> None:
    at = stdin.find(b"{", chance.randrange(len(stdin) + 1)) + 1
    stdin[at:at] = chance.choice(PIECES)


def _replace_value(stdin: bytearray, chance: random.Random) -> None:
    at = stdin.find(b":", chance.randrange(len(stdin) + 1)) + 1
    end = at + chance.choice((0, 1, 4))
    stdin[at:end] = chance.choice(PIECES)


def _remove(stdin: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(stdin) + 1)
    del stdin[at : at + chance.choice((1, 2, 10, 1000))]


def _repeat(stdin: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(stdin) + 1)
    stdin[at:at] = stdin[at : at + chance.randrange(200)]


def _flip(stdin: bytearray, chance: random.Random) -> None:
    if stdin:
        stdin[chance.randrange(len(stdin))] = chance.randrange(256)


_CHANGES: list[Callable[[bytearray, random.Random], None]] = [
    _insert,
    _insert_member,
    _insert_member,
    _replace_value,
    _remove,
    _repeat,
    _flip,
]


def check(call: Hostile, env: Mapping[str, str], answer: Answer, added: bytes) -> None:
    """A valid answer or a valid error, at most one line of complaint, and one record on one line that lost nothing.

    `env` is what the probe really had, `added` what the call added to the log.
    """
    verb = env.get("CNI_COMMAND", "")
    assert "Traceback" not in answer.stderr
    assert answer.stderr.isascii()
    assert answer.stderr.isprintable() or (answer.stderr[:-1].isprintable() and answer.stderr[-1] == "\n")
    if answer.status == 0:
        _check_success(call, verb, answer.stdout)
    else:
        assert answer.status == 1
        error = json.loads(answer.stdout)
        assert {"cniVersion", "code", "msg"} <= error.keys() <= {"cniVersion", "code", "msg", "details"}
        assert error["code"] in (4, 6)
        assert error["code"] == 4 or not _is_object(call.stdin)
        assert answer.stdout.isascii()
    if verb == "VERSION":
        assert added == b""
    else:
        _check_record(call, env, answer, added)


def _check_success(call: Hostile, verb: str, stdout: str) -> None:
    assert verb in VERBS
    if verb == "ADD":
        network = strictly(call.stdin)
        result = network.get("prevResult") if network is not TOO_DEEP else TOO_DEEP
        if result is TOO_DEEP:
            assert stdout.encode() in call.stdin or stdout.startswith('{"cniVersion": "')
        elif result is None:
            assert json.loads(stdout).keys() == {"cniVersion"}
        else:
            assert stdout.encode() in call.stdin
            assert strictly(stdout.encode()) == result
    elif verb == "VERSION":
        assert json.loads(stdout)["cniVersion"] == "1.1.0"
    else:
        assert stdout == ""


def _check_record(call: Hostile, env: Mapping[str, str], answer: Answer, added: bytes) -> None:
    assert added.endswith(b"\n")
    assert added.count(b"\n") == 1
    assert b"\r" not in added
    assert b"\0" not in added
    assert b"\x1b" not in added
    is_output = call.name == "capture-post" and env.get("CNI_COMMAND") == "ADD" and answer.status == 0
    body = answer.stdout.encode() if is_output else call.stdin
    try:
        (record,) = records.of_bytes(added)
    except (RecursionError, ValueError):
        assert _UNREADABLE.search(body)
        assert (
            b"[redacted]" in added or body.replace(b"\n", b" ").replace(b"\r", b" ") in added or quoted(body) in added
        )
        return
    assert record["verb"] == env.get("CNI_COMMAND", "")
    assert record["container"] == env.get("CNI_CONTAINERID", "")
    assert ("error" in record) == (answer.status == 1)
    assert "redacted" in record or record["body"] == body


_UNREADABLE = re.compile(rb"[\[{](?:[^\[{]*[\[{]){900}|\d{4000}")
"""What may have more levels or digits than the standard library's reader takes."""
TOO_DEEP: Any = object()


def quoted(text: bytes) -> bytes:
    return json.dumps(text.decode("utf-8", "surrogateescape")).encode()


def strictly(text: bytes) -> Any:
    """JSON by the standard library's reader, without the constants that it allows; TOO_DEEP where it gives up."""
    try:
        return json.loads(text.decode(), parse_constant=_no_constant, parse_int=str, parse_float=str)
    except RecursionError:
        return TOO_DEEP


def _is_object(text: bytes) -> bool:
    try:
        value = strictly(text)
    except (ValueError, AssertionError):
        return False
    return isinstance(value, dict)


def _no_constant(name: str) -> Any:
    raise AssertionError(f"{name} was taken for JSON")
