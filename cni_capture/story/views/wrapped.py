"""What only capture-wrap has seen of a plugin: stdout of any kind, what libcni makes of it, and stderr."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cni_capture.reading.records import Record, captured, decode, facts
from cni_capture.story.answers import stderr
from cni_capture.story.faults import Fault
from cni_capture.story.views.terminal import printable

# Of stderr, and of stdout that is not JSON: lines, and characters of one, that a person looks at. The log has the rest.
_LINES, _LONGEST = 10, 400
# Characters of stderr in the one line that sums up a call.
_GIST = 160
# Of an excerpt, in characters, before and after the place that it is about.
_BEFORE, _AFTER = 24, 48
# What a Go program says when it dies of its own fault; then follows where that was, which may be long.
_PANIC = re.compile(rb"^(?:panic|fatal error): .*", re.MULTILINE)


def gist(exit: Record) -> str:
    """The line of stderr that tells most: that of a panic, else the last one; "" when there is none."""
    said = stderr(exit)
    panic = _PANIC.search(said)
    return _shown(panic[0] if panic else said.rstrip().rpartition(b"\n")[2], _GIST)


def stdout(exit: Record) -> Iterator[str]:
    """Stdout as it was, in its own lines."""
    said = captured(exit)
    if not said:
        yield "output           nothing"
        return
    yield f"output, as it was ({_bytes(len(said))})"
    # Not all of them, which may be millions.
    lines = said.removesuffix(b"\n").split(b"\n", _LINES)
    yield from (f"  {_shown(line)}" for line in lines[:_LINES])
    if len(lines) > _LINES:
        yield _left_out(lines[_LINES].count(b"\n") + 1)


def verdict_of_libcni(exit: Record, fault: Fault) -> Iterator[str]:
    """What reaches the user, where that is not what the plugin said, and the bytes at which libcni stumbles."""
    if fault.libcni:
        yield f"libcni says      {_shortened(printable(fault.libcni))}"
    elif fault.reason:
        yield f"but              {printable(fault.reason)}"
    said = captured(exit) if fault.at is not None else b""
    if said and fault.at is not None:
        yield f"which is about   byte {fault.at:,} of the output, on line {_line(said, fault.at):,}"
        before = _text(said[max(0, fault.at - 4 * _BEFORE) : fault.at])[-_BEFORE:]
        after = _text(said[fault.at : fault.at + 4 * _AFTER])[:_AFTER]
        yield f"  {before}{after}"
        yield f"  {' ' * len(before)}^"


def last_words(exit: Record) -> Iterator[str]:
    """The last lines of stderr, and what it died of, if that stands before them."""
    said = stderr(exit)
    if not said:
        return
    lines = said.removesuffix(b"\n").split(b"\n")
    shown = lines[-_LINES:]
    total = decode(facts(exit).get("stderrBytes", b""))
    total = total if isinstance(total, int) else len(said)
    is_end = len(shown) < len(lines) or total > len(said)
    yield f"stderr, its end ({_bytes(total)} in all)" if is_end else f"stderr ({_bytes(total)})"
    panic = _PANIC.search(said)
    between = len(lines) - _LINES - _line(said, panic.start()) if panic else -1
    if panic and between >= 0:
        yield f"  {_shown(panic[0])}"
        if between:
            yield _left_out(between)
    yield from (f"  {_shown(line)}" for line in shown)


def _line(said: bytes, at: int) -> int:
    """The number of the line that has byte `at`, counted from 1."""
    return said.count(b"\n", 0, at) + 1


def _left_out(lines: int) -> str:
    return f"  … {lines:,} more line{'s' * (lines != 1)}"


def _shown(line: bytes, longest: int = _LONGEST) -> str:
    """A line, or its beginning. Four bytes are the most that a character takes."""
    text = _text(line[: 4 * longest].replace(b"\t", b"    "))
    return text if len(text) <= longest else f"{text[:longest]}… ({_bytes(len(line))})"


def _text(said: bytes) -> str:
    """Bytes as a terminal may have them; those that are not UTF-8 as Python writes them, \\xff."""
    return printable(said.decode("utf-8", "backslashreplace"))


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' * (count != 1)}"


def _shortened(text: str) -> str:
    """The beginning and the end: libcni puts all of stdout into the middle."""
    return text if len(text) <= 240 else f"{text[:120]} … {text[-110:]}"
