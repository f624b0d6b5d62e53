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


class Variables(
    Struct,
    gc=False,
    rename={
        "command": "CNI_COMMAND",
        "container": "CNI_CONTAINERID",
        "ifname": "CNI_IFNAME",
        "netns": "CNI_NETNS",
        "args": "CNI_ARGS",
        "replay": "CNI_CAPTURE_REPLAY",
    },
):
    """The CNI variables that pairing and filters look at; "" where there was none.

    `replay` is set in what `cni-capture replay` runs: the time of the record that it repeats.
    """

    command: str = ""
    container: str = ""
    ifname: str = ""
    netns: str = ""
    args: str = ""
    replay: str = ""


class Record(
    Struct,
    gc=False,
    kw_only=True,
    rename={"cni_version": "cniVersion", "hop": "label", "exit_status": "exitStatus", "took": "milliseconds"},
):
    """One record: what of it the tools use, decoded; the rest stays in `line`, its exact JSON and a line feed.

    Raw values are exact JSON, empty where the record has no such key. Keys that are not here are ignored. The order is
    that of the probes, which msgspec expects and then need not search.
    """

    v: int
    time: Annotated[datetime, Meta(tz=True)]
    probe: str
    pid: int = 0
    env: Variables
    side: Literal["entry", "exit"]
    monotonic: float | None = None  # seconds since boot
    network: str = ""
    cni_version: str = ""
    # What tells the hops of a chain apart: the label; wraps of two plugins may have the same one, and may nest.
    hop: str = ""
    error: Raw = _NOTHING
    interfaces: Raw = _NOTHING
    # Of capture-wrap: its plugin, how that ended, and after how many milliseconds.
    plugin: str = ""
    exit_status: int = 0
    signal: str = ""
    took: float | None = None
    input: Raw = _NOTHING
    output: Raw = _NOTHING
    # Always set, and to bytes, once it is decoded: a key of that name in the log is a stranger's, and read over.
    line: Any = b""

    @property
    def attachment(self) -> tuple[str, ...]:
        """What it is about: network, container and interface, and, where it is of a replay, of which call."""
        return self.network, self.env.container, self.env.ifname, self.env.replay

    @property
    def label(self) -> str:
        """The label that was set; of a wrapped plugin without one, its name."""
        return self.hop.removesuffix(f" {self.plugin}") if self.plugin else self.hop

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
    *("plugin", "pid", "exitStatus", "signal", "milliseconds"),
)
_NAMES = {field.encode_name for field in msgspec.structs.fields(Variables)}
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
    if record.plugin:
        record.hop = _hop_of_wrap(record)
    return record


def _hop_of_wrap(record: Record) -> str:
    """Of the label as it was read, and the plugin; each once."""
    return f"{record.hop} {record.plugin}" if record.hop not in ("", record.plugin) else record.plugin


def _read_carefully(line: bytes) -> Record:
    """The same for what msgspec refuses and the log may have: lone surrogates, deep nesting."""
    try:
        config = read_config(line)
        plain = {key: json.loads(config.raw(key) or "null") for key in _PLAIN if key in config.spans}
        if isinstance(plain.get("env"), dict):  # a name that is no text is not looked for, but refused
            plain["env"] = {name: value for name, value in plain["env"].items() if name in _NAMES}
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


def captured(record: Record) -> bytes:
    """What was captured, byte for byte: with its line breaks, and as it was where it was no JSON object (record.py)."""
    if record.body[:1] == b'"':
        return text_of(record.body)
    body, known = bytearray(_with_space(record)), facts(record)
    for key, mark in (("newlines", b"\n"), ("returns", b"\r")):
        offsets = decode(known.get(key, b""))
        for offset in offsets if isinstance(offsets, list) else ():
            if isinstance(offset, int) and body[offset : offset + 1] == b" ":
                body[offset : offset + 1] = mark
    return bytes(body)


def _with_space(record: Record) -> bytes:
    """The JSON that was captured with the white space around it, from which offsets are counted."""
    body, line = record.body, record.line
    start = line.rfind(body)
    before, after = line[:start], line[start + len(body) :]
    space = b" \t"
    return b"".join((before[len(before.rstrip(space)) :], body, after[: len(after) - len(after.lstrip(space))]))


def text_of(raw: bytes) -> bytes:
    """The bytes that a probe put into a JSON string, whatever they were."""
    text: str = json.loads(raw)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte: no probe has written that
        return text.encode("utf-8", "replace")


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
        """How many lines have been read, but for those that are being read."""
        self.count = 0
        self.numbers: list[int] = []

    def note(self, number: int) -> None:
        """This line is damaged."""
        self.count += 1
        if len(self.numbers) < self.NAMED:
            self.numbers.append(number)

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
        # All lines at once, if they are the usual ones: a call more for each would be felt on a million of them.
        try:
            found = list(map(_decode, batch))
        except (msgspec.DecodeError, RecursionError):
            yield from _one_by_one(batch, damage)
        else:
            for record, line in zip(found, batch, strict=True):
                record.line = line
                if record.plugin:
                    record.hop = _hop_of_wrap(record)
                yield record
        damage.lines += len(batch)


def _one_by_one(batch: list[bytes], damage: Damage) -> Iterator[Record]:
    for number, line in enumerate(batch, damage.lines + 1):
        if line != b"\n":
            try:
                record = read_record(line)
            except ValueError:
                damage.note(number)
            else:
                yield record
