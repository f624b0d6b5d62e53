"""A recorded call as it can be made again: its variables, its stdin, and the program that got them. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from cni_capture.errors import UserError
from cni_capture.reading.records import Record, captured, decode, facts, variables
from cni_capture.story.operations import Operation
from cni_capture.story.views.terminal import printable
from cni_capture.story.views.words import who

MARK = "CNI_CAPTURE_REPLAY"
"""Set for what is replayed: the time of the record. Probes record it, as all of CNI_*, and so mark their records."""


@dataclass(frozen=True)
class Call:
    """One call. `environ` has the variables that were recorded, with MARK; `redacted` are keys of the configuration
    whose values are not in the log.
    """

    title: str
    environ: Mapping[str, str]
    stdin: bytes
    program: str
    redacted: tuple[str, ...]

    @property
    def verb(self) -> str:
        return self.environ.get("CNI_COMMAND", "")

    @property
    def netns(self) -> str:
        return self.environ.get("CNI_NETNS", "")

    @property
    def container_id(self) -> str:
        return self.environ.get("CNI_CONTAINERID", "")


def call_of(operation: Operation, program: str = "") -> Call:
    """The call that an operation began with, of `program` instead of the recorded one where that is not "".

    Of two probes around a stretch it is the call of the first: what the plugins between them got is not in the log.
    Raises UserError when the record of the beginning is not there, or names no program.
    """
    entry = operation.entry
    if entry is None:
        raise UserError(
            f"{title(operation)}: only the end of this call is in the log", hint="--all reads rotated logs, too"
        )
    environ = {**variables(entry), MARK: timestamp(entry)}
    return Call(title(operation), environ, captured(entry), program or _program(operation, entry), _redacted(entry))


def title(operation: Operation) -> str:
    """Which call it was, in words that do no harm in a terminal or a comment."""
    record = operation.first
    what = record.plugin or record.probe
    where = f" on {record.network}" if record.network and operation.pod[1] else ""
    return printable(f"{record.env.command} of {what} for {who(operation)}{where} at {timestamp(record)}")


def timestamp(record: Record) -> str:
    """When it was written, as the log has it."""
    return f"{record.time:%Y-%m-%dT%H:%M:%S.%f}Z"


def _program(operation: Operation, entry: Record) -> str:
    path = facts(entry).get("path")
    if path:
        return str(json.loads(path))
    if not entry.plugin:  # a probe of a pair, which the runtime has found where it finds plugins
        return f"{entry_path(entry)[0]}/{entry.probe}"
    why = f": {operation.error['msg']}" if operation.error.get("msg") else ""
    raise UserError(
        printable(f"{title(operation)}: the plugin was not found then{why}"), hint="name one with --plugin PATH"
    )


def entry_path(entry: Record) -> list[str]:
    """Where the runtime looked for plugins, never empty."""
    found = variables(entry).get("CNI_PATH", "").split(":")
    return [folder for folder in found if folder] or ["/opt/cni/bin"]


def _redacted(entry: Record) -> tuple[str, ...]:
    keys = json.loads(facts(entry).get("redacted", b"[]"))
    return tuple(str(key) for key in keys) if isinstance(keys, list) else ()


def is_chained(stdin: bytes) -> bool:
    """Whether plugins before this one had made something."""
    config = decode(stdin)
    return isinstance(config, dict) and bool(config.get("prevResult"))
