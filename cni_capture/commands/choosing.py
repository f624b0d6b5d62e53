"""Which operations of which logs: the arguments and options that the verbs about the log share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cni_capture.errors import UserError
from cni_capture.reading.logs import TAIL
from cni_capture.reading.records import Damage, lines, records
from cni_capture.reading.sources import STDIN, line_start, open_source
from cni_capture.story.filters import Filter, moment
from cni_capture.story.operations import Operation, operations

DEFAULT_LOG = "/tmp/cni.log"  # as the probes have it, in settings.py

F = TypeVar("F", bound=Callable[..., Any])


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else moment(value, datetime.now(timezone.utc))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Pods and containers of the last operations in the default log, and files."""
    found: dict[str, str] = {}
    try:
        source = open_source(_default_log())
        start = line_start(source.stream, source.size - TAIL)
        for operation in operations(records(lines(source.chunks(start)), Damage())):
            pod = "/".join(filter(None, operation.pod))
            found[pod] = found[operation.first.env.container] = pod
    except (UserError, OSError):
        pass
    items = [CompletionItem(name, help=pod) for name, pod in found.items() if name and name.startswith(incomplete)]
    return [*items, CompletionItem(incomplete, type="file")]


def what_argument(command: F) -> F:
    """A container or a pod, and logs, told apart by their looks; subject_and_logs() takes them."""
    return click.argument("what", nargs=-1, metavar="[ID | NAMESPACE/POD] [LOG]...", shell_complete=_complete)(command)


def subject_and_logs(what: Sequence[str]) -> tuple[str | None, list[str]]:
    """The one container or pod, if one is named, and the logs, by default the one that the probes write.

    Raises click.UsageError.
    """
    subjects = [word for word in what if not _is_log(word)]
    if len(subjects) > 1:
        raise click.UsageError(f"one ID or pod at a time, not {' and '.join(subjects)}")
    return (subjects[0] if subjects else None), [word for word in what if _is_log(word)] or [_default_log()]


def belongs(operation: Operation, subject: str) -> bool:
    """Whether it is of the container whose ID begins with `subject`, or of the pod NAMESPACE/NAME."""
    namespace, slash, name = subject.partition("/")
    return operation.pod == (namespace, name) if slash else operation.first.env.container.startswith(subject)


all_option = click.option("--all", "rotated", is_flag=True, help="With each LOG, read what was rotated out of it.")


def filter_options(command: F) -> F:
    """Conditions that all have to hold; filter_of() takes them."""
    for option in (
        click.option("--until", metavar="TIME", callback=_moment, help="Until then; as --since."),
        click.option("--since", metavar="TIME", callback=_moment, help="42m (ago; s, m, h, d, w), or RFC 3339 (UTC)."),
        click.option("--slower-than", type=click.FloatRange(min=0), metavar="MS", help="Longer than so many ms."),
        click.option("--changed", is_flag=True, help="ADDs whose result is not the prevResult that went in."),
        click.option("--failed", is_flag=True, help="Failed, or without an exit."),
        click.option("--label", metavar="LABEL", help="Seen by the probes with this label; or of this wrapped plugin."),
        click.option("--container", metavar="PREFIX", help="Of the container whose ID begins so."),
        click.option(
            "--cmd", metavar="VERB", multiple=True, help="Of this verb: add, del, check, gc, status. Repeatable."
        ),
        click.option("--network", metavar="NAME", help="On this network."),
        click.option("--namespace", metavar="NS", help="Of pods in this namespace."),
        click.option("--pod", metavar="[NS/]NAME", help="Of the pod whose name begins so."),
    ):
        command = option(command)
    return command


def filter_of(options: dict[str, Any]) -> Filter:
    """Take the values of filter_options out of a command's options."""
    verbs = frozenset(verb.upper() for verb in options.pop("cmd"))
    names = ("pod", "namespace", "network", "container", "label", "failed", "changed", "slower_than", "since", "until")
    return Filter(verbs=verbs, **{name: options.pop(name) for name in names})


def _is_log(word: str) -> bool:
    """Whether a word on the command line is a log rather than an ID or a pod."""
    return (
        word == STDIN or word.startswith(("/", "./", "../")) or word.endswith((".log", ".gz")) or os.path.isfile(word)
    )


def _default_log() -> str:
    return os.environ.get("CNI_CAPTURE_LOG_FILE") or DEFAULT_LOG
