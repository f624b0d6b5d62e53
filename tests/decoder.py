"""A second reader of the log, written from the words in record.py and nothing else, to prove that nothing is lost."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_HEADER = re.compile(r"(\S+) (capture-[a-z]+)\[(\d+)\] ")
_BARE = re.compile(r"[^ ]*")
_VARIABLE = re.compile(r"CNI_|TRACEPARENT$")
_BLANKS = re.compile(r"[ \t]*")
_parse = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Decoded:
    """A record: `env` as the probe had it, `facts` besides it, and the exact bytes of its input or output."""

    time: str
    probe: str
    pid: int
    env: dict[str, str]
    facts: dict[str, Any]
    what: str
    body: bytes


def decode(line: bytes) -> Decoded:
    """A line of the log without its line feed, in either format. Raises ValueError when it is no record."""
    text = line.decode()
    return _json_record(text) if text.startswith("{") else _text_record(text)


def _json_record(text: str) -> Decoded:
    members: dict[str, Any] = {}
    at = 1
    while text[at - 1] != "}":
        key, at = _scan(text, at)
        _expect(text[at] == ":", text, at)
        start = at + 1
        members[key], end = _scan(text, start)
        at = end + 1
    _expect(at == len(text), text, at)
    _expect(next(iter(members)) == "v" and members.pop("v") == 1, text, 0)
    what, value = members.popitem()
    time, probe, pid, env = (members.pop(key) for key in ("time", "probe", "pid", "env"))
    return Decoded(time, probe, pid, env, *_unfold(members, what, value, text[start:end]))


def _text_record(text: str) -> Decoded:
    header = _HEADER.match(text)
    if not header:
        raise ValueError(f"not a record: {text}")
    env: dict[str, str] = {}
    facts: dict[str, Any] = {}
    at = header.end()
    while not text.startswith("CNI_COMMAND=", at):
        key, at = _word(text, at, "=")
        if _VARIABLE.match(key):
            env[key], at = _word(text, at + 1, " ")
        else:
            facts[key], at = _fact(text, at + 1)
        _expect(text[at] == " ", text, at)
        at += 1
    for key in ("CNI_COMMAND", "CNI_CONTAINERID"):
        _expect(text.startswith(f"{key}=", at), text, at)
        at += len(key) + 1
        if text[at] != ",":  # nothing at all: there was no such variable
            env[key], at = _word(text, at, ",")
        _expect(text[at] == ",", text, at)
        at += 1
    what, _, body = text[at:].partition("=")
    value, end = _scan(body)
    _expect(end == len(body), body, end)
    time, probe, pid = header.groups()
    return Decoded(time, probe, int(pid), env, *_unfold(facts, what, value, body))


def _scan(text: str, at: int = 0) -> tuple[Any, int]:
    """The JSON value at `at`, and where it and the blanks after it end."""
    value, at = _parse(text, _skip(text, at))
    return value, _skip(text, at)


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    assert blanks
    return blanks.end()


def _word(text: str, at: int, end: str) -> tuple[str, int]:
    """A string: JSON where it begins with a quote, else all up to `end`."""
    if text[at] == '"':
        value, at = _parse(text, at)
        return str(value), at
    stop = text.index(end, at)
    return text[at:stop], stop


def _fact(text: str, at: int) -> tuple[object, int]:
    if text[at] in '"{[':
        return _parse(text, at)
    bare = _BARE.match(text, at)
    assert bare
    try:
        return json.loads(bare[0]), bare.end()
    except ValueError:
        return bare[0], bare.end()


def _unfold(facts: dict[str, Any], what: str, value: object, raw: str) -> tuple[dict[str, Any], str, bytes]:
    """The facts that are left when those about line breaks have been used, and the bytes that were captured."""
    if isinstance(value, str):
        return facts, what, value.encode("utf-8", "surrogateescape")
    body = bytearray(raw.encode())
    for key, mark in (("newlines", b"\n"), ("returns", b"\r")):
        for offset in facts.pop(key, []):
            _expect(body[offset : offset + 1] == b" ", raw, offset)
            body[offset : offset + 1] = mark
    return facts, what, bytes(body)


def _expect(condition: bool, text: str, at: int) -> None:
    if not condition:
        raise ValueError(f"not a record, at character {at}: {text}")
