"""`cni-capture show`: from the log to an answer."""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial

import click
from click.shell_completion import CompletionItem

from cni_capture.errors import UserError
from cni_capture.reading.logs import TAIL, Logs, tail_start
from cni_capture.reading.records import Damage, Record, lines, records
from cni_capture.reading.sources import STDIN, line_start, open_source
from cni_capture.story.filters import Filter, moment
from cni_capture.story.operations import GIVE_UP, Operation, Pairing, operations
from cni_capture.story.views.printer import Printer, terminal_width
from cni_capture.story.views.words import printable

DEFAULT_LOG = "/tmp/cni.log"  # as the probes have it, in settings.py
# With --follow: an exit record that is not there after so long is worth a line.
OVERDUE = timedelta(seconds=30)
_FOLLOWED = 10

EXAMPLES = """\b
Examples:
  What happened on this node?
    cni-capture show
  Why did the pod not start?
    cni-capture show --pod shop/web --failed
    cni-capture show shop/web-5d9c
  Watch while it is tried again:
    cni-capture show -f --namespace shop
  Everything about one container, with what each call changed:
    cni-capture show 3f9c1a
  Slow ADDs of the last hour, rotated logs included:
    cni-capture show --all --cmd add --slower-than 500 --since 1h
  How long do the plugins take?
    cni-capture show --stats
  The configurations that a plugin got, for other tools:
    cni-capture show --cmd add -o json | jq -c .input
  Logs of several nodes, in the order of time:
    cni-capture show node1/cni.log node2/cni.log.gz
"""


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


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else moment(value, datetime.now(timezone.utc))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(epilog=EXAMPLES)
@click.argument("what", nargs=-1, metavar="[ID | NAMESPACE/POD] [LOG]...", shell_complete=_complete)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["short", "pair", "json", "cat"]),
    default="short",
    show_default=True,
    help="A line an operation; both calls, aligned; the records as JSON lines; only their messages.",
)
@click.option("--all", "rotated", is_flag=True, help="With each LOG, read what was rotated out of it.")
@click.option("--stats", is_flag=True, help="Counts, failures and durations by network and verb.")
@click.option("--pod", metavar="[NS/]NAME", help="Of the pod whose name begins so.")
@click.option("--namespace", metavar="NS", help="Of pods in this namespace.")
@click.option("--network", metavar="NAME", help="On this network.")
@click.option("--cmd", metavar="VERB", multiple=True, help="Of this verb: add, del, check, gc, status. Repeatable.")
@click.option("--container", metavar="PREFIX", help="Of the container whose ID begins so.")
@click.option("--label", metavar="LABEL", help="Seen by the pair of probes with this label.")
@click.option("--failed", is_flag=True, help="Failed, or without an exit.")
@click.option("--changed", is_flag=True, help="ADDs whose result is not the prevResult that went in.")
@click.option("--slower-than", type=click.FloatRange(min=0), metavar="MS", help="Longer than so many milliseconds.")
@click.option("--since", metavar="TIME", callback=_moment, help="42m (ago; s, m, h, d, w), or RFC 3339 (UTC).")
@click.option("--until", metavar="TIME", callback=_moment, help="Until then; as --since.")
@click.option("-n", "--lines", "count", type=click.IntRange(min=0), metavar="N", help="The last N operations.")
@click.option("-f", "--follow", "follows", is_flag=True, help=f"Go on as the log grows; implies -n {_FOLLOWED}.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def command(
    what: tuple[str, ...],
    output: str,
    rotated: bool,
    stats: bool,
    pod: str | None,
    namespace: str | None,
    network: str | None,
    cmd: tuple[str, ...],
    container: str | None,
    label: str | None,
    failed: bool,
    changed: bool,
    slower_than: float | None,
    since: datetime | None,
    until: datetime | None,
    count: int | None,
    follows: bool,
    color: str,
) -> int:
    """Say what happened: which pod, how long, what changed, who failed.

    Reads LOG (default: $CNI_CAPTURE_LOG_FILE or /tmp/cni.log; - is standard input; .gz is decompressed), text and
    JSON. Without ID, lists operations: one pass of one verb over the plugins between two probes. With an ID (the
    beginning of a container ID) or a pod, shows every call of it in full, with what it changed.

    All conditions must hold. Times are UTC. MS is the time from entry to exit. RESULT has the addresses and what the
    plugins changed: +x new, -x gone, x changed; "warn" where the result breaks the CNI spec or is not what the probe
    found in the namespace. Lines end at the width of the terminal.

    Without conditions, json and cat print all records as they are in the log.

    Exit status: 0 done, 1 no call of that ID, 2 a wrong command line or log.
    """
    subjects = [word for word in what if not _is_log(word)]
    logs = [word for word in what if _is_log(word)] or [_default_log()]
    if len(subjects) > 1:
        raise click.UsageError(f"one ID or pod at a time, not {' and '.join(subjects)}")
    if follows and (subjects or stats or rotated or len(logs) > 1):
        raise click.UsageError("--follow goes with one log, and not with --all, --stats or an ID")
    if follows and logs[0].endswith(".gz"):
        raise click.UsageError("--follow does not go with a compressed log")
    wanted = Filter(
        pod=pod,
        namespace=namespace,
        network=network,
        verbs=frozenset(verb.upper() for verb in cmd),
        container=container,
        label=label,
        failed=failed,
        changed=changed,
        slower_than=slower_than,
        since=since,
        until=until,
    )
    printer = Printer(output, _wants_color(color))
    if follows and logs[0] != STDIN:
        return _follow(logs[0], wanted, printer, _FOLLOWED if count is None else count)
    # Almost nothing here makes cycles, and looking for them takes a twentieth of the time that a large log takes.
    gc.set_threshold(100_000)
    ends = bool(subjects or stats or count is not None or not sys.stdout.isatty())  # output, if any, comes at the end
    reader = Logs(logs, rotated, bar=ends and sys.stderr.isatty())
    try:
        if subjects:
            return _show_one(subjects[0], reader, wanted, printer)
        if stats:
            return _show_stats(reader, wanted, printer)
        if output in ("json", "cat") and wanted == Filter() and count is None:
            for record in reader.records():
                printer.record(record)
            return 0
        found = _last(reader, wanted, count) if count is not None else _all(reader, wanted)
        printer.header()
        for operation in found:
            printer.operation(operation)
            if STDIN in logs:  # perhaps somebody watches
                printer.flush()
    finally:
        printer.hints()
        for complaint in reader.complaints():
            click.echo(f"cni-capture: {printable(complaint)}", err=True)
    return 0


def _is_log(word: str) -> bool:
    """Whether a word on the command line is a log rather than an ID or a pod."""
    return (
        word == STDIN or word.startswith(("/", "./", "../")) or word.endswith((".log", ".gz")) or os.path.isfile(word)
    )


def _default_log() -> str:
    return os.environ.get("CNI_CAPTURE_LOG_FILE") or DEFAULT_LOG


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def _enough(wanted: Filter, count: int, tail: Iterable[Record]) -> bool:
    """Whether the end of a log has `count` of the wanted operations, and surely whole ones."""
    began: list[datetime] = []

    def noting(found: Iterable[Record]) -> Iterator[Record]:
        for record in found:
            if not began:
                began.append(record.time)
            yield record

    last = deque(filter(wanted, operations(noting(tail))), maxlen=count)
    # The entry of a lone exit may stand before the part that was read.
    return len(last) == count and not any(
        operation.entry is None and operation.first.time - began[0] < GIVE_UP for operation in last
    )


def _all(reader: Logs, wanted: Filter) -> Iterable[Operation]:
    found = operations(reader.records())
    return found if wanted == Filter() else filter(wanted, found)


def _last(reader: Logs, wanted: Filter, count: int) -> Iterable[Operation]:
    return deque(filter(wanted, operations(reader.tail(partial(_enough, wanted, count)))), maxlen=count)


def _show_one(subject: str, reader: Logs, wanted: Filter, printer: Printer) -> int:
    """Every operation of one container (the beginning of its ID), or of one pod, in full."""
    is_pod = "/" in subject
    namespace, _, name = subject.partition("/")

    def belongs(operation: Operation) -> bool:
        if is_pod:
            return operation.pod == (namespace, name)
        return operation.first.env.container.startswith(subject)

    found = [operation for operation in operations(reader.records()) if belongs(operation) and wanted(operation)]
    if not found:
        click.echo(f"cni-capture: no call of {printable(subject)} in the log", err=True)
        hint = "--pod takes the beginning of a name; --all reads rotated logs, too"
        click.echo(f"hint: {hint}", err=True)
        return 1
    printer.whole(found)
    return 0


def _show_stats(reader: Logs, wanted: Filter, printer: Printer) -> int:
    from cni_capture.story.views.stats import Stats

    stats = Stats()
    stats.add(_all(reader, wanted))
    printer.stats(stats.lines() if printer.output == "json" else stats.table(terminal_width(), printer.color))
    return 0


def _follow(log: str, wanted: Filter, printer: Printer, count: int) -> int:
    """The last operations, then each as soon as its exit is there, or is overdue."""
    from cni_capture.reading.following import follow

    start = 0
    if os.path.exists(log):
        source = open_source(log)
        enough = partial(_enough, wanted, count)
        start = tail_start(source, enough) if count else line_start(source.stream, source.size)
        source.stream.close()
    damage = Damage()
    pairing = Pairing(at_once=True)
    # Until the end is reached for the first time: what has been decided. Then it is printed as it comes.
    past: deque[Operation] | None = deque(maxlen=count)
    told: set[int] = set()
    # What is overdue is told by the log's own clock, which may be another machine's, or a copy's that is played back.
    behind = timedelta(0)
    reported = 0
    printer.header()
    for batch in lines(follow(log, start)):
        now = datetime.now(timezone.utc)
        for record in records([batch], damage):
            pairing.feed(record)
            if past is None:
                behind = now - record.time
        now -= behind
        pairing.tick(now)
        if past is not None:
            past.extend(filter(wanted, pairing.ready))
            pairing.ready.clear()
            if not batch:
                for operation in sorted(past, key=lambda operation: operation.first.time):
                    printer.operation(operation)
                past = None
        else:
            while pairing.ready:
                operation = pairing.ready.popleft()
                if wanted(operation):
                    printer.operation(operation)
        if not batch and past is None:
            late = pairing.overdue(now - OVERDUE)
            for operation in late:
                if id(operation) not in told and wanted(operation):
                    printer.overdue(operation)
            told = {id(operation) for operation in late}
        if damage.count > reported:
            click.echo(f"cni-capture: {log}: damaged line left out", err=True)
            reported = damage.count
        printer.hints()
        printer.flush()
    return 0
