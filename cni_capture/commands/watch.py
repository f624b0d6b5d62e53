"""`cni-capture watch`: keep a network spliced when its owner rewrites it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import filelock

from cni_capture.commands.places import place_options, places_of, plan_of, plan_options
from cni_capture.conf.splicing import Places, watch_lock
from cni_capture.conf.watching import Watcher
from cni_capture.errors import UserError


@click.command(
    epilog="""\b
Examples:
  Until Ctrl-C, and as it was after that:
    cni-capture watch --unsplice-on-exit
  As a service, with examples/cni-capture-watch.service:
    systemctl enable --now cni-capture-watch
  One file, whatever comes first by name:
    cni-capture watch /etc/cni/net.d/10-calico.conflist --wrap calico
"""
)
@click.argument("conflist_", metavar="[CONFLIST]", required=False, type=click.Path(path_type=Path))
@click.option("--unsplice-on-exit", is_flag=True, help="Take the probes out again at the end.")
@click.option("--force", is_flag=True, help="Put probes even where they change what others do.")
@plan_options
@place_options
def command(conflist_: Path | None, unsplice_on_exit: bool, force: bool, **options: Any) -> None:
    """Splice CONFLIST as `splice` does, and again whenever its owner has written it anew.

    CONFLIST is by default the file that the runtimes use; when another comes first by name, that one is kept from then
    on. Repairs are at least five seconds apart. One that is rewritten again and again is not fought for: a warning says
    so, and repairs get rare, up to five minutes apart. Ends at SIGTERM or Ctrl-C.
    """
    plan, places = plan_of(options), places_of(options)
    path = conflist_.parent.resolve() / conflist_.name if conflist_ else None
    watcher = Watcher(path, plan, places, say=lambda words: click.echo(f"cni-capture: {words}", err=True), force=force)
    stop, signals = threading.Event(), []

    def end(number: int, _: object) -> None:
        signals.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with _only_one(watcher.folder, places):
        try:
            watcher.run(stop)
        finally:
            if unsplice_on_exit:
                watcher.unsplice()
    if signal.SIGINT in signals:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _only_one(folder: Path, places: Places) -> Iterator[None]:
    """Nobody else watches the folder meanwhile. Raises UserError."""
    lock = watch_lock(folder, places)
    try:
        places.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(f"another cni-capture watch is at work in {folder}", hint="end it first") from None
    except OSError as error:
        raise UserError(f"{error.filename or places.state}: {error.strerror}", hint="watch as root") from None
    try:
        yield
    finally:
        lock.release()
