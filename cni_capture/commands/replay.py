"""`cni-capture replay`: a call out of the log, made again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cni_capture.commands.choosing import (
    all_option,
    belongs,
    filter_of,
    filter_options,
    subject_and_logs,
    what_argument,
)
from cni_capture.errors import UserError
from cni_capture.libcni.chain import to_stderr
from cni_capture.libcni.invoke import Answer
from cni_capture.reading.logs import Logs
from cni_capture.reading.sources import STDIN
from cni_capture.replay import script
from cni_capture.replay.again import call_again, chain_again
from cni_capture.replay.calls import MARK, Call, call_of, is_chained, title
from cni_capture.replay.chains import Chain, chain_of
from cni_capture.replay.comparison import differences, renamed
from cni_capture.replay.trial import Place, Recorder, place
from cni_capture.story.answers import answer
from cni_capture.story.faults import SUCCESS
from cni_capture.story.filters import Filter
from cni_capture.story.operations import Operation, operations
from cni_capture.story.views.terminal import printable

_WRAP = "cni-capture splice --wrap TYPE"

EXAMPLES = """\b
Examples:
  The call that failed, as a script to read, change and run:
    cni-capture replay shop/web-5d9c > again.sh
  Again, in a namespace of its own: does it still fail?
    cni-capture replay shop/web-5d9c --exec
  Does the plugin that I have just built do the same?
    cni-capture replay 3f9c1a --cmd add --label bridge --exec --plugin ./bridge
  The whole chain, by itself:
    cni-capture replay 3f9c1a --chain --exec
"""


@click.command(epilog=EXAMPLES)
@what_argument
@click.option("--exec", "executes", is_flag=True, help="Make the call, and compare the answer with the recorded one.")
@click.option("--chain", "whole", is_flag=True, help="The ADD of all wrapped plugins, with `cni-capture run`.")
@click.option(
    "--plugin",
    metavar="PATH",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Another program instead of the plugin; with --chain of the one of its name.",
)
@click.option("--netns", "netns_path", metavar="PATH", help="Network namespace. Default with --exec: a new one.")
@click.option("--container-id", metavar="ID", help="As this container. Default: as in the log.")
@all_option
@filter_options
def command(
    what: tuple[str, ...],
    executes: bool,
    whole: bool,
    plugin: Path | None,
    netns_path: str | None,
    container_id: str | None,
    rotated: bool,
    **options: Any,
) -> int:
    """Print a shell script that makes a call of the log again: variables, configuration, plugin.

    LOG, ID and conditions are those of `show`. Of several calls it takes the last ADD that failed, else the last call
    that failed, else the last ADD, and says which. What a plugin gets is known where capture-wrap stands in for it.

    --exec makes the call, in a new network namespace unless one is named. What an ADD has made there is deleted again,
    by the same plugin. A container that is alive on this machine is replayed under another ID. The answer is compared
    with the recorded one: exit status, and stdout as JSON, without MAC addresses and names of veths, which are drawn
    anew each time. A difference is printed as a diff. The replay is recorded, with CNI_CAPTURE_REPLAY in `env`.

    Exit status: 0 done, or the same answer; 1 another answer; 2 a wrong command line or log.
    """
    subject, logs = subject_and_logs(what)
    if whole and STDIN in logs:
        raise click.UsageError("--chain reads the log twice: not from standard input")
    reader = _open(logs, rotated, executes)
    chosen = _choose(operations(reader.records()), subject, filter_of(options), whole)
    for complaint in reader.complaints():
        _say(complaint)
    program = str(plugin.resolve()) if plugin else ""
    named = None if netns_path is None else os.path.abspath(netns_path)
    if executes:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was made is deleted first
    if whole:
        it = chain_of(chosen, operations(_open(logs, rotated, executes).records()))
        _warn_of_redaction(it.redacted)
        return _chain(it, program, named, container_id) if executes else _print_chain(it, named, container_id)
    call = call_of(chosen, program)
    _warn_of_redaction(call.redacted)
    if not executes:
        return _print_call(call, chosen.first.plugin, named, container_id)
    if not chosen.first.plugin:
        raise UserError(f"{call.title}: the log has no answer of a plugin to compare with", hint=_WRAP)
    if call.verb == "GC":
        raise UserError(
            "a GC would take away what containers have got that started since",
            hint="print the script, put its cni.dev/valid-attachments right, and run that",
        )
    return _call(call, answer(chosen.exit) if chosen.exit else None, named, container_id)


def _open(logs: Sequence[str], rotated: bool, executes: bool) -> Logs:
    """The logs; what is run, and in which environment, stands there, and /tmp/cni.log may be anybody's.

    Raises UserError.
    """
    opened = Logs(logs, rotated)
    for name in opened.of_others() if executes else ():
        raise UserError(
            f"{name}: somebody else may have written this, and it says which program is run",
            hint="read it, and replay a copy of your own",
        )
    return opened


def _choose(found: Iterable[Operation], subject: str | None, wanted: Filter, whole: bool) -> Operation:
    """The operation to replay. Raises UserError."""
    chosen: Operation | None = None
    count = 0
    for operation in found:
        record = operation.first
        if record.env.replay or (subject is not None and not belongs(operation, subject)) or not wanted(operation):
            continue
        if whole and record.env.command != "ADD":
            continue
        count += 1
        if chosen is None or _worth(operation) >= _worth(chosen):
            chosen = operation
    if chosen is None:
        raise UserError("no such call in the log", hint="cni-capture show lists them; --all reads rotated logs, too")
    if count > 1:
        _say(f"of {count} calls, {title(chosen)} (choose another with --cmd, --label, --since, --until)")
    return chosen


def _worth(operation: Operation) -> tuple[bool, bool, bool]:
    """What people want to see again."""
    record = operation.first
    return bool(record.plugin), operation.is_failure, record.env.command == "ADD"


def _print_call(call: Call, plugin: str, named: str | None, container_id: str | None) -> int:
    if not plugin:
        _say(f"what the plugins behind this probe got is not in the log: this is its own call (hint: {_WRAP})")
    here = {"CNI_NETNS": named, "CNI_CONTAINERID": container_id}
    environ = {**call.environ, **{name: value for name, value in here.items() if value is not None}}
    sys.stdout.buffer.write(script.script(replace(call, environ=environ)))
    return 0


def _print_chain(it: Chain, named: str | None, container_id: str | None) -> int:
    add, delete = _run_words(it, named, container_id)
    environ = {MARK: it.call.environ[MARK]}
    sys.stdout.buffer.write(script.chain_script(it.call.title, it.redacted, environ, it.conflist, add, delete))
    return 0


def _call(call: Call, before: Answer | None, named: str | None, container_id: str | None) -> int:
    with place(call, named, container_id) as where:
        _tell_of_other_name(call, where, container_id)
        after = call_again(call, where, Recorder(_say), _say)
    to_stderr(after.stderr)
    changed = differences(before, renamed(after, where.names(call)), (call.title, f"now, {call.program}"), call.stdin)
    return _tell(changed, call.title, after, where.is_ours and is_chained(call.stdin))


def _chain(it: Chain, program: str, named: str | None, container_id: str | None) -> int:
    with place(it.call, named, container_id) as where:
        _tell_of_other_name(it.call, where, container_id)
        before, after = chain_again(it, program, where, Recorder(_say), to_stderr, _say)
    after = renamed(after, where.names(it.call))
    changed = differences(before, after, (it.call.title, "now"), it.conflist.encode())
    return _tell(changed, it.call.title, after, False)


def _run_words(it: Chain, named: str | None, container_id: str | None) -> tuple[list[str], list[str]]:
    """The commands that run the conflist and undo that, save for its name."""
    at = it.attachment
    who = ["--container-id", container_id or at.container_id, "--ifname", at.ifname, "--path", ":".join(it.paths)]
    add = [*_ourselves(), "run", "add", *(["--netns", named] if named else ["--new-netns"]), *who]
    add += ["--args", ";".join(f"{key}={value}" for key, value in at.args)] if at.args else []
    add += ["--capability-args", json.dumps(at.capability_args)] if at.capability_args else []
    return add, [*_ourselves(), "run", "del", *who]


def _ourselves() -> list[str]:
    """How to start this command again, from anywhere."""
    beside = Path(sys.executable).parent / "cni-capture"
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "cni_capture"]


def _tell(changed: Sequence[str], title: str, after: Answer, may_lack: bool) -> int:
    for line in changed:
        click.echo(line)
    if not changed:
        _say(f"the same as {title}: {after.failure or SUCCESS}")
    elif all('"address"' in line for line in changed[2:] if line[0] in "+-"):
        click.echo("hint: most IPAM plugins give each ADD another address", err=True)
    elif may_lack:
        hint = "a new namespace has nothing in it but lo: --netns names one, --chain runs the whole chain"
        click.echo(f"hint: {hint}", err=True)
    return 1 if changed else 0


def _tell_of_other_name(call: Call, where: Place, container_id: str | None) -> None:
    if where.container_id != call.container_id and container_id is None:
        _say(
            f"{call.container_id[:12]} is alive here, so this is {where.container_id}: the plugin could take its "
            "addresses away (--container-id says which one it is to be)"
        )


def _warn_of_redaction(keys: Sequence[str]) -> None:
    if keys:
        _say(f"the log has no values of {', '.join(keys)}: they are [redacted] here, too")


def _say(words: str) -> None:
    click.echo(f"cni-capture: {printable(words)}", err=True)
