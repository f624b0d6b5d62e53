"""`cni-capture uninstall`: take the probes out of the plugin directory."""

from __future__ import annotations

from pathlib import Path

import click

from cni_capture import launchers


@click.command(
    epilog="""\b
Examples:
  cni-capture uninstall
  cni-capture uninstall --cni-bin ~/cni/bin
"""
)
@click.option(
    "--prefix",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default="/opt/cni-capture",
    show_default=True,
    help="Folder of the probes' code.",
)
@click.option(
    "--cni-bin",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default="/opt/cni/bin",
    show_default=True,
    help="Plugin directory of the runtimes.",
)
def command(prefix: Path, cni_bin: Path) -> None:
    """Remove the launchers and the probes' code.

    Take the probes out of every conflist first: a runtime that does not find a plugin starts no container.
    """
    for path in launchers.uninstall(prefix, cni_bin):
        click.echo(f"removed {path}")
