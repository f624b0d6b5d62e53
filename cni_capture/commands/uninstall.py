"""`cni-capture uninstall`: take the probes out of the plugin directory."""

from __future__ import annotations

from pathlib import Path

import click

from cni_capture import launchers
from cni_capture.commands.places import conf_dir_option, installation_options
from cni_capture.conf import confdir
from cni_capture.errors import UserError


@click.command(
    epilog="""\b
Examples:
  cni-capture uninstall
  cni-capture uninstall --cni-bin ~/cni/bin
"""
)
@installation_options
@conf_dir_option
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=confdir.CACHE,
    show_default=True,
    help="Where runtimes keep what containers were started with.",
)
@click.option("--force", is_flag=True, help="Even if the probes are still needed.")
def command(prefix: Path, cni_bin: Path, conf_dir: Path, cache_dir: Path, force: bool) -> None:
    """Remove the launchers and the probes' code.

    Refused as long as somebody needs the probes. A runtime that does not find a plugin starts no container; one that
    deletes containers with what they were started with, as podman and CRI-O do, cannot free their addresses.
    """
    if not force:
        _refuse_if_needed(conf_dir, cache_dir)
    for path in launchers.uninstall(prefix, cni_bin):
        click.echo(f"removed {path}")


def _refuse_if_needed(conf_dir: Path, cache_dir: Path) -> None:
    for path in confdir.with_probes(conf_dir) if conf_dir.exists() else ():
        raise UserError(f"{path} still names the probes", hint="cni-capture unsplice, then try again; or --force")
    started = list(confdir.started_with_probes(cache_dir))
    if started:
        raise UserError(
            f"{len(started)} containers were started with the probes and are still there: {', '.join(started[:3])}"
            f"{', ...' if len(started) > 3 else ''}",
            hint="end them first, or --force if the runtime is containerd, which deletes with the conflist of the day",
        )
