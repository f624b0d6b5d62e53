"""Records as the log has them: its JSON lines, or just the message that people grep for."""

from __future__ import annotations

from cni_capture.reading.records import Record, variables
from cni_capture.record import word
from cni_capture.story.views.terminal import printable


def as_line(record: Record) -> bytes:
    """The record as one JSON line: of a JSON record the very same bytes."""
    line: bytes = record.line
    return line


def as_message(record: Record) -> bytes:
    """The message of a text record: `CNI_COMMAND=...,CNI_CONTAINERID=...,input=...`."""
    named = {"CNI_COMMAND": record.env.command, "CNI_CONTAINERID": record.env.container}
    if not all(named.values()):  # an empty variable is not the same as none
        named = {name: value for name, value in variables(record).items() if name in named}
    verb, container = [word(named[name], ",") if name in named else "" for name in ("CNI_COMMAND", "CNI_CONTAINERID")]
    return f"CNI_COMMAND={verb},CNI_CONTAINERID={container},{record.what}=".encode() + record.body + b"\n"


def for_terminal(line: bytes) -> bytes:
    """The same line without what a terminal would obey; JSON stays the same JSON."""
    return (printable(line.decode("utf-8", "replace").rstrip("\n")) + "\n").encode()
