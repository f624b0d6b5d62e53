"""`cni-capture splice`: put probes into the network that runtimes use."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click

from cni_capture.commands.places import place_options, places_of, plan_of, plan_options
from cni_capture.conf import confdir, conflist
from cni_capture.conf.splicing import Change, planned, splice
from cni_capture.conf.wraps import title
from cni_capture.errors import UserError

EXAMPLES = """\b
Examples:
  What would it do? Then do it, and look:
    cni-capture splice --dry-run
    cni-capture splice
    cni-capture show --follow
  Only what calico does, with the interfaces before and after:
    cni-capture splice --around calico --interfaces
  Every plugin on its own, its failure, stderr and cost as well, and the IPAM plugins:
    cni-capture splice --wrap-all --ipam
  One plugin, also where no probe may stand first:
    cni-capture splice --wrap cilium-cni
  One network of podman, which uses all that are there:
    cni-capture splice --around portmap /etc/cni/net.d/87-podman-bridge.conflist
  Back to what it was:
    cni-capture unsplice
"""


@click.command(epilog=EXAMPLES)
@click.argument("conflist_", metavar="[CONFLIST]", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print what would change, as a unified diff, and change nothing.")
@click.option("--force", is_flag=True, help="Put probes even where they change what others do.")
@plan_options
@place_options
def command(conflist_: Path | None, dry_run: bool, force: bool, **options: Any) -> None:
    """Put probes around the plugins of CONFLIST, capture-pre first and capture-post last, or wrap plugins.

    CONFLIST is by default the file that the runtimes use: the first by name in --conf-dir. Its bytes stay as they are
    but for the new entries; it is replaced by rename, and kept in --state-dir as it was. Splicing again with other
    options replaces all that is ours. The .conf of a single plugin becomes a .conflist, unless the plugin is wrapped.

    With --wrap, --wrap-all and --ipam there are no pairs: capture-wrap stands in for a plugin, runs it, and records
    what it got, what it said and how it ended.

    Refused, with nothing changed, when the probes would not run or could not write their log, and where they would
    change what others do. Probes in first place: cilium-cni, ipvlan without master, loopback, podman's networks, and
    those that must not be first (bandwidth, firewall, portmap, sbr, tuning, vrf). Wraps: the first plugin of podman's
    networks, istio-cni, and the IPAM plugin of calico, azure-vnet and antrea, which look at its type.
    """
    plan, places = plan_of(options), places_of(options)
    path = conflist_ or confdir.choose(places.conf_dir)
    if dry_run:
        print_difference(planned(path, plan, places, force=force))
        return
    change = splice(path, plan, places, force=force)
    if change.is_none:
        click.echo(f"cni-capture: {change.path} is spliced like this already", err=True)
    else:
        click.echo(f"spliced {change.path}: {_titles(change.new)}")
        _warn_if_unused(change.path)


def _warn_if_unused(path: Path) -> None:
    try:
        used = confdir.choose(path.parent)
    except UserError:
        return
    if used != path:
        click.echo(f"cni-capture: containerd and CRI-O use {used}, which comes first by name", err=True)


def _titles(data: bytes) -> str:
    return " ".join(map(title, conflist.chain(data)))


def print_difference(change: Change) -> None:
    """As `diff -u` would, with its words for a last line without a line break."""
    old, new = (data.decode().splitlines(keepends=True) for data in (change.old, change.new))
    for line in difflib.unified_diff(old, new, str(change.source), str(change.path)):
        click.echo(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n", nl=False)
