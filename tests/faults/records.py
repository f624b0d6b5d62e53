"""The records in all the files of a log, by the tests' own reader; a line that is not one whole record is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.decoder import decode

Record = dict[str, Any]
"""Facts by key; time, probe, pid, verb, container; the exact `body`; by the key input or output what it says."""


def of_line(line: bytes) -> Record:
    record = decode(line)
    try:
        value = json.loads(record.body)
    except (ValueError, RecursionError):
        value = record.body.decode("utf-8", "surrogateescape")
    return {
        **record.facts,
        "time": record.time,
        "probe": record.probe,
        "pid": record.pid,
        "verb": record.env.get("CNI_COMMAND", ""),
        "container": record.env.get("CNI_CONTAINERID", ""),
        "body": record.body,
        record.what: value,
    }


def of_bytes(data: bytes) -> list[Record]:
    """The records of a log that ends with a whole one; empty lines are none."""
    assert data[-1:] in (b"", b"\n"), f"the last line is torn: {data[-200:]!r}"
    return [of_line(line) for line in data.split(b"\n") if line]


def of_log(log: Path) -> list[Record]:
    """The records in all files of a rotating log; none when it is not there."""
    return [record for path in files(log) for record in of_bytes(path.read_bytes())]


def files(log: Path) -> list[Path]:
    """A log and its backups, the oldest first."""
    backups = [path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit()]
    found = sorted(backups, key=lambda path: -int(path.suffix[1:]))
    return [*found, log] if log.exists() else found
