"""`cni-capture unsplice`: take the probes out of a network again."""

from __future__ import annotations

from pathlib import Path

import click

from cni_capture.commands.places import conf_dir_option, state_dir_option
from cni_capture.commands.splice import print_difference
from cni_capture.conf import confdir
from cni_capture.conf.splicing import Places, is_watched, unplanned, unsplice


@click.command(
    epilog="""\b
Examples:
  cni-capture unsplice --dry-run
  cni-capture unsplice
  cni-capture unsplice /etc/cni/net.d/10-calico.conflist
"""
)
@click.argument("conflist_", metavar="[CONFLIST]", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print what would change, as a unified diff, and change nothing.")
@conf_dir_option
@state_dir_option
def command(conflist_: Path | None, dry_run: bool, conf_dir: Path, state_dir: Path) -> None:
    """Take all that is ours out of CONFLIST, by default out of every file in --conf-dir that has some.

    A file that nobody has changed since it was spliced is afterwards what it was, byte for byte; of another one only
    our entries and wraps go, those made by hand as well. The probes themselves stay where they are, as runtimes may
    call them for containers that started with them: `cni-capture uninstall` removes them, once those containers are
    gone.
    """
    places = Places(conf_dir, state=state_dir)
    paths = [conflist_] if conflist_ else list(confdir.with_probes(places.conf_dir))
    if not paths:
        click.echo(f"cni-capture: no probes in {places.conf_dir}", err=True)
        return
    for path in paths:
        if dry_run:
            print_difference(unplanned(path, places))
            continue
        change = unsplice(path, places)
        if change.is_none:
            click.echo(f"cni-capture: no probes in {path}", err=True)
        else:
            click.echo(f"unspliced {change.path}")
        if is_watched(change.path, places):
            click.echo("cni-capture: cni-capture watch is at work there, and puts them back: end it first", err=True)
    if not dry_run:
        click.echo(
            "cni-capture: the probes stay in the plugin directory: runtimes may call them for containers that started "
            "with them",
            err=True,
        )
