"""The ADD of a whole chain, out of the records of its wrapped plugins: a conflist, and what came of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from cni_capture.errors import UserError
from cni_capture.libcni.attachments import Attachment
from cni_capture.libcni.gojson import GoError
from cni_capture.libcni.invoke import Answer
from cni_capture.libcni.result import from_stdout
from cni_capture.reading.records import captured, decode
from cni_capture.replay.calls import Call, call_of, entry_path
from cni_capture.replay.comparison import without_empty_dns
from cni_capture.story.answers import answer
from cni_capture.story.changes import is_ipam
from cni_capture.story.operations import Operation

# What libcni puts into a plugin's configuration besides the plugin's own (libcni/api.go, buildOneConfig).
_LIBCNI_S = ("cniVersion", "name", "prevResult", "runtimeConfig")
_ALL = "cni-capture splice --wrap-all, and have it happen again"


@dataclass(frozen=True)
class Chain:
    """An ADD of several plugins: the call of the first, the conflist, and what each answered (None: it never ended).

    The `title` of the call names all plugins.
    """

    call: Call
    conflist: str
    attachment: Attachment
    paths: list[str]
    answers: list[Answer | None]
    redacted: tuple[str, ...]


def chain_of(chosen: Operation, operations: Iterable[Operation]) -> Chain:
    """The ADD that `chosen` belongs to, out of all operations, the oldest first. Raises UserError."""
    members = _members(chosen, operations)
    calls = [call_of(member) for member in members]
    configs = [_config(call.stdin) for call in calls]
    _see_that_it_is_whole(members, configs)
    first = members[0].first
    plugins = [
        {"type": config["type"], **{key: raw for key, raw in config.items() if key not in _LIBCNI_S}}
        for config in configs
    ]
    network = {key: configs[0][key] for key in ("cniVersion", "name") if key in configs[0]} | {"plugins": plugins}
    conflist = msgspec.json.format(msgspec.json.encode(network), indent=2).decode()
    capability_args: dict[str, Any] = {}
    for config in configs:
        capability_args |= decode(bytes(config.get("runtimeConfig", b""))) or {}
    args = [pair.partition("=") for pair in first.env.args.split(";") if pair]
    return Chain(
        replace(calls[0], title=calls[0].title.replace(first.plugin, "+".join(it.first.plugin for it in members), 1)),
        conflist,
        Attachment(
            first.env.container,
            first.env.netns,
            first.env.ifname,
            tuple((key, value) for key, _, value in args),
            capability_args,
        ),
        entry_path(first),
        [answer(member.exit) if member.exit else None for member in members],
        tuple(dict.fromkeys(key for call in calls for key in call.redacted)),
    )


def _members(chosen: Operation, operations: Iterable[Operation]) -> list[Operation]:
    """The wrapped plugins of the ADD that `chosen` is of, in the order of the chain; their calls of others left out."""
    about = chosen.first.attachment
    run: list[Operation] = []
    for operation in operations:
        record = operation.first
        if record.attachment != about or not (record.plugin or record.env.command == "DEL"):
            continue
        is_new = record.env.command != "ADD" or record.hop in [member.first.hop for member in run]
        if is_new and _has(run, chosen):
            break
        if is_new:
            run = []
        if record.env.command == "ADD":
            run.append(operation)
    members = [member for member in run if not is_ipam(member) and not any(_is_within(member, it) for it in run)]
    if not members or not _has(run, chosen):
        raise UserError("no plugin of this chain was wrapped", hint=_ALL)
    return members


def _has(run: Sequence[Operation], chosen: Operation) -> bool:
    return any(member.first.line == chosen.first.line for member in run)


def _is_within(inner: Operation, outer: Operation) -> bool:
    """Whether a plugin was called by another one, which was at work meanwhile (a delegate, as flannel's bridge)."""
    if inner is outer or outer.entry is None or outer.exit is None:
        return False
    return outer.entry.time <= inner.first.time < outer.exit.time


def _config(stdin: bytes) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(stdin, type=dict[str, Raw])
    except msgspec.DecodeError as error:
        raise UserError(f"the configuration of a plugin is not JSON: {error}") from None


def _see_that_it_is_whole(members: Sequence[Operation], configs: Sequence[dict[str, Raw]]) -> None:
    """Each plugin must have got what the one before it returned. Raises UserError."""
    before: Any = None
    last = "the beginning"
    for member, config in zip(members, configs, strict=True):
        got = without_empty_dns(decode(bytes(config.get("prevResult", b""))))
        plugin = member.first.plugin
        is_probe_s = before is None and isinstance(got, dict) and got.keys() == {"cniVersion"}
        if got != before and not is_probe_s:
            raise UserError(
                f"between {last} and {plugin} the result has changed: a plugin there is not in the log", hint=_ALL
            )
        if member.exit is not None:
            try:
                before = from_stdout(captured(member.exit), member.first.cni_version).encode()
            except GoError:
                break
            before = without_empty_dns(before)
        last = plugin
