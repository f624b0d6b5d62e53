"""Lines of the log -> records. JSON and text, mixed; a damaged line is noted and the good ones around it are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import BytesIO
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from cni_capture.call import CNIError, read_config
from cni_capture.reading.logfmt import as_json

# A CNI call is a few kilobytes; what has no line break for so long is no log, and must not fill the memory.
LONGEST_LINE = 256 * 1024 * 1024
_NOTHING = Raw()
_BRACE = ord("{")


class Variables(
    Struct,
    gc=False,
    rename={
        "command": "CNI_COMMAND",
        "container": "CNI_CONTAINERID",
        "ifname": "CNI_IFNAME",
        "netns": "CNI_NETNS",
        "args": "CNI_ARGS",
    },
):
    """The CNI variables that pairing and filters look at; "" where there was none."""

    command: str = ""
    container: str = ""
    ifname: str = ""
    netns: str = ""
    args: str = ""


class Record(Struct, gc=False, rename={"cni_version": "cniVersion", "exit_status": "exitStatus"}):
    """One record: what of it the tools use, decoded; the rest stays in `line`, its exact JSON and a line feed.

    Raw values are exact JSON, empty where the record has no such key. Keys that are not here are ignored.
    """

    v: int
    time: Annotated[datetime, Meta(tz=True)]
    probe: str
    env: Variables
    side: Literal["entry", "exit"]
    monotonic: float | None = None  # seconds since boot
    network: str = ""
    cni_version: str = ""
    # Tells several hops of one chain apart; of capture-wrap, which has its plugin's name, that one where there is none.
    label: str = ""
    plugin: str = ""
    # How the plugin behind capture-wrap ended.
    exit_status: int = 0
    signal: str = ""
    error: Raw = _NOTHING
    interfaces: Raw = _NOTHING
    input: Raw = _NOTHING
    output: Raw = _NOTHING
    # Always set, and to bytes, once it is decoded: a key of that name in the log is a stranger's, and read over.
    line: Any = b""

    @property
    def what(self) -> str:
        """ "input" or "output": the key of what was captured."""
        return "output" if self.output else "input"

    @property
    def body(self) -> bytes:
        """What was captured, as exact JSON."""
        return bytes(self.output or self.input)


_RAW = ("error", "interfaces", "input", "output")
_PLAIN = (
    *("v", "time", "probe", "env", "side", "network", "cniVersion", "label", "monotonic"),
    *("plugin", "exitStatus", "signal"),
)
_decode = msgspec.json.Decoder(Record).decode


def read_record(line: bytes) -> Record:
    """The record in a line (with its line feed) of either format. Raises ValueError when there is none."""
    if line[:1] != b"{":
        line = as_json(line[:-1]) + b"\n"
    try:
        record = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        record = _read_carefully(line)
    record.line = line
    record.label = record.label or record.plugin
    return record


def _read_carefully(line: bytes) -> Record:
    """The same for what msgspec refuses and the log may have: lone surrogates, deep nesting."""
    try:
        config = read_config(line)
        plain = {key: json.loads(config.raw(key) or "null") for key in _PLAIN if key in config.spans}
        record = msgspec.convert(plain, Record)
    except (CNIError, RecursionError) as error:
        raise ValueError(str(error)) from None
    for key in _RAW:
        raw = config.raw(key)
        if raw is not None:
            setattr(record, key, Raw(raw.encode()))
    return record


def facts(record: Record) -> dict[str, bytes]:
    """Every key of a record, in its order, with the exact JSON of its value."""
    try:
        return {key: bytes(raw) for key, raw in msgspec.json.decode(record.line, type=dict[str, Raw]).items()}
    except (msgspec.DecodeError, RecursionError):
        text = read_config(record.line)
        return {key: text.text[start:end].encode() for key, (start, end) in text.spans.items()}


def variables(record: Record) -> dict[str, str]:
    """Every variable of a record, in its order."""
    found: dict[str, str] = json.loads(facts(record)["env"])
    return found


def decode(raw: bytes) -> Any:
    """JSON of any kind as Python values; None when there is none, or when Python cannot hold it."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            return None


class Damage:
    """Lines that were no records: how many, and the numbers of the first ones, counted from 1."""

    NAMED = 10

    def __init__(self) -> None:
        self.lines = 0
        """How many lines have been read."""
        self.count = 0
        self.numbers: list[int] = []

    def note(self) -> None:
        """The line read last is damaged."""
        self.count += 1
        if len(self.numbers) < self.NAMED:
            self.numbers.append(self.lines)

    def words(self, before: int = 0) -> str:
        """For a person; "" without damage. `before` lines came before the first one that was read."""
        if not self.count:
            return ""
        numbers = ", ".join(str(number + before) for number in self.numbers)
        more = f" and {self.count - self.NAMED} more" if self.count > self.NAMED else ""
        return f"damaged line{'s'[: self.count > 1]} left out: {numbers}{more}"


def lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Chunks of a file -> lists of its lines, each with its line feed (the last one is given one where it has none).

    A line longer than LONGEST_LINE comes without its end. An empty chunk (nothing new for now) is an empty list.
    """
    rest: list[bytes] = []
    held = 0
    for chunk in chunks:
        if not chunk:
            yield []
            continue
        found = BytesIO(chunk).readlines()  # by far the fastest way to split bytes
        if held and found[0].endswith(b"\n"):
            found[0] = b"".join([*rest, found[0]])
            rest, held = [], 0
        if not found[-1].endswith(b"\n"):
            last = found.pop()
            if held < LONGEST_LINE:
                rest.append(last)
                held += len(last)
        if found:
            yield found
    if held:
        yield [b"".join([*rest, b"\n"])]


def records(batches: Iterable[list[bytes]], damage: Damage) -> Iterator[Record]:
    """Lists of lines -> records. Empty lines are nothing; what is no record is noted in `damage`."""
    for batch in batches:
        for line in batch:
            damage.lines += 1
            # The usual line in place: a call more for each would be felt on a million of them.
            if line[0] == _BRACE:
                try:
                    record = _decode(line)
                    record.line = line
                    if record.plugin:
                        record.label = record.label or record.plugin
                    yield record
                    continue
                except (msgspec.DecodeError, RecursionError):
                    pass
            elif line == b"\n":
                continue
            try:
                record = read_record(line)
            except ValueError:
                damage.note()
            else:
                yield record
