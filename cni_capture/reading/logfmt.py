"""A text record of the log as the JSON record that says the same, byte for byte what `record.json_line` would write."""

from __future__ import annotations

import re

from cni_capture.call import Skip, scanner
from cni_capture.record import VERSION

_VERSION = f'{{"v":{VERSION},"time":"'.encode()
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# What stands bare: printable ASCII that a JSON string has as it is, without what ends a word (record.bare).
_BARE = rb"[!#-<>-\[\]-~]"
_HEAD = re.compile(rb"([0-9-]{10}T[0-9:.]{15}Z) ([a-z-]+)\[(0|[1-9][0-9]*)\] ")
_WORD = re.compile(
    rb"(" + _STRING + rb"|[A-Za-z_]" + _BARE + rb"*)=(?:(?!\{|\[)(" + _STRING + rb"|" + _BARE + rb"+) )?"
)
_IN_MESSAGE = rb"(" + _STRING + rb"|[!#-+\--<>-\[\]-~]*)"  # there a comma ends it
_MESSAGE = re.compile(rb"CNI_COMMAND=" + _IN_MESSAGE + rb",CNI_CONTAINERID=" + _IN_MESSAGE + rb",(input|output)=")
_NOT_A_STRING = re.compile(rb"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def as_json(line: bytes) -> bytes:
    """The JSON record (no line feed) for a text record (no line feed). Raises ValueError when it is none.

    The body is handed on as it is: whether it is JSON, the reader of the JSON record will see.
    """
    head = _HEAD.match(line)
    if head is None:
        raise ValueError("no time, probe and pid")
    variables: list[bytes] = []
    facts: list[bytes] = []
    at = head.end()
    while not line.startswith(b"CNI_COMMAND=", at):
        word = _WORD.match(line, at)
        if word is None:
            raise ValueError(f"no word at byte {at}")
        at = word.end()
        name = _string(word[1])
        value = word[2]
        if value is None:
            value, at = _structure(line, at)
        if name.startswith((b'"CNI_', b'"TRACEPARENT"')):
            variables.append(name + b":" + _string(value))
        elif value[0] in b'"{[' or _NOT_A_STRING.fullmatch(value):
            facts.append(name + b":" + value + b",")
        else:
            facts.append(name + b':"' + value + b'",')
    message = _MESSAGE.match(line, at)
    if message is None:
        raise ValueError(f"no message at byte {at}")
    verb, container, what = message.groups()
    named = [b'"CNI_COMMAND":' + _string(verb)] if verb else []
    named += [b'"CNI_CONTAINERID":' + _string(container)] if container else []
    pieces = [_VERSION, head[1], b'","probe":"', head[2], b'","pid":', head[3], b',"env":{']
    pieces += [b",".join(named + variables), b"},", *facts, b'"', what, b'":', line[message.end() :], b"}"]
    return b"".join(pieces)


def _string(value: bytes) -> bytes:
    return value if value[:1] == b'"' else b'"' + value + b'"'


def _structure(line: bytes, at: int) -> tuple[bytes, int]:
    """The object or list that begins at `at`, and where the next word does."""
    if line[at : at + 1] not in (b"{", b"["):
        raise ValueError(f"no value at byte {at}")
    try:
        end = scanner(Skip)(line.decode("latin-1"), at)[1]
    except (StopIteration, RecursionError):
        raise ValueError(f"no value at byte {at}") from None
    if line[end : end + 1] != b" ":
        raise ValueError(f"no blank after the value at byte {at}")
    return line[at:end], end + 1
