"""`cni-capture install`: put the probes where the runtimes find them."""

from __future__ import annotations

from pathlib import Path

import click

from cni_capture import launchers
from cni_capture.commands.places import installation_options


@click.command(
    epilog="""\b
Examples:
  cni-capture install
  cni-capture install --prefix ~/cni-capture --cni-bin ~/cni/bin
"""
)
@installation_options
def command(prefix: Path, cni_bin: Path) -> None:
    """Install capture-pre, capture-post and capture-wrap into the plugin directory.

    Safe while containers start: launchers are renamed into place, after each has answered VERSION. Installing again
    upgrades.
    """
    for launcher in launchers.install(prefix, cni_bin):
        click.echo(f"installed {launcher}")
