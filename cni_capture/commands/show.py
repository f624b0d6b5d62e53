"""`cni-capture show`: from the log to an answer."""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
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
from cni_capture.reading.logs import Logs, tail_start
from cni_capture.reading.records import Damage, Record, lines, records
from cni_capture.reading.sources import STDIN, line_start, open_source
from cni_capture.story.filters import Filter
from cni_capture.story.operations import GIVE_UP, Operation, Pairing, operations
from cni_capture.story.views.printer import Printer, terminal_width
from cni_capture.story.views.terminal import printable

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
  What did the wrapped bridge plugin say, and how did it end?
    cni-capture show --label bridge --failed -o pair
  Watch while it is tried again:
    cni-capture show -f --namespace shop
  Everything about one container, with what each call changed:
    cni-capture show 3f9c1a
  Slow ADDs of the last hour, rotated logs included:
    cni-capture show --all --cmd add --slower-than 500 --since 1h
  How long does each plugin take?
    cni-capture show --stats
  The configurations that a plugin got, for other tools:
    cni-capture show --cmd add -o json | jq -c .input
  Logs of several nodes, in the order of time:
    cni-capture show node1/cni.log node2/cni.log.gz
"""


@click.command(epilog=EXAMPLES)
@what_argument
@click.option(
    "-o",
    "--output",
    type=click.Choice(["short", "pair", "json", "cat"]),
    default="short",
    show_default=True,
    help="A list of operations; both calls, aligned; the records as JSON lines; only their messages.",
)
@all_option
@click.option("--stats", is_flag=True, help="Counts, failures and durations by network, hop and verb.")
@filter_options
@click.option("-n", "--lines", "count", type=click.IntRange(min=0), metavar="N", help="The last N operations.")
@click.option("-f", "--follow", "follows", is_flag=True, help=f"Go on as the log grows; implies -n {_FOLLOWED}.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def command(
    what: tuple[str, ...],
    output: str,
    rotated: bool,
    stats: bool,
    count: int | None,
    follows: bool,
    color: str,
    **options: Any,
) -> int:
    """Say what happened: which pod, how long, what changed, who failed.

    Reads LOG (default: $CNI_CAPTURE_LOG_FILE or /tmp/cni.log; - is standard input; .gz is decompressed), text and
    JSON. Without ID, lists operations: one pass of one verb over the plugins between two probes, or one call of a
    wrapped plugin. With an ID (the beginning of a container ID) or a pod, shows every call of it in full, with what it
    changed, and of a wrapped plugin how it ended, the end of its stderr and what libcni makes of its stdout.

    All conditions must hold. Times are UTC. MS is the time from entry to exit; of a wrapped plugin, its own. RESULT has
    the label or the plugin, the verdict, the addresses, and what the plugins changed: +x new, -x gone, x changed;
    "warn" where the result breaks the CNI spec or is not what the probe found in the namespace. Why it failed is on the
    next line, where RESULT has no room for it. Lines end at the width of the terminal.

    Without conditions, json and cat print all records as they are in the log.

    Exit status: 0 done, 1 no call of that ID, 2 a wrong command line or log.
    """
    subject, logs = subject_and_logs(what)
    if follows and (subject or stats or rotated or len(logs) > 1):
        raise click.UsageError("--follow goes with one log, and not with --all, --stats or an ID")
    if follows and logs[0].endswith(".gz"):
        raise click.UsageError("--follow does not go with a compressed log")
    wanted = filter_of(options)
    printer = Printer(output, _wants_color(color))
    if follows and logs[0] != STDIN:
        return _follow(logs[0], wanted, printer, _FOLLOWED if count is None else count)
    # Almost nothing here makes cycles, and looking for them takes a twentieth of the time that a large log takes.
    gc.set_threshold(100_000)
    ends = bool(subject or stats or count is not None or not sys.stdout.isatty())  # output, if any, comes at the end
    reader = Logs(logs, rotated, bar=ends and sys.stderr.isatty())
    try:
        if subject:
            return _show_one(subject, reader, wanted, printer)
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
    found, story, containers = [], [], set()
    for operation in operations(reader.records()):
        container = operation.first.env.container
        is_meant = belongs(operation, subject)
        if is_meant:
            containers.add(container)
        if container in containers:  # a DEL may come without the pod's name
            story.append(operation)
        if is_meant and wanted(operation):
            found.append(operation)
    if not found:
        click.echo(f"cni-capture: no call of {printable(subject)} in the log", err=True)
        hint = "--pod takes the beginning of a name; --all reads rotated logs, too"
        click.echo(f"hint: {hint}", err=True)
        return 1
    printer.whole(found, story)
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
