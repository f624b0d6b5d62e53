"""`cni-capture install`: put the probes where the runtimes find them."""

from __future__ import annotations

from pathlib import Path

import click

from cni_capture import launchers


@click.command(
    epilog="""\b
Examples:
  cni-capture install
  cni-capture install --prefix ~/cni-capture --cni-bin ~/cni/bin
"""
)
@click.option(
    "--prefix",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default="/opt/cni-capture",
    show_default=True,
    help="Folder for the probes' code.",
)
@click.option(
    "--cni-bin",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default="/opt/cni/bin",
    show_default=True,
    help="Plugin directory of the runtimes.",
)
def command(prefix: Path, cni_bin: Path) -> None:
    """Install capture-pre and capture-post into the plugin directory.

    Safe while containers start: launchers are renamed into place, after each has answered VERSION. Installing again
    upgrades.
    """
    for launcher in launchers.install(prefix, cni_bin):
        click.echo(f"installed {launcher}")
