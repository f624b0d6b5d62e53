"""`cni-capture doctor`: is it capturing, and if not, why?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cni_capture.commands.places import place_options, places_of
from cni_capture.health.doctor import examine
from cni_capture.health.verdicts import FAIL, OK, WARN, Finding

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "red"}


@click.command(
    epilog="""\b
Examples:
  cni-capture doctor
  cni-capture doctor /etc/cni/net.d/87-podman-bridge.conflist
  cni-capture doctor -o json | jq -r '.[] | select(.status != "ok") | .what'
"""
)
@click.argument("conflist_", metavar="[CONFLIST]", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@place_options
def command(conflist_: Path | None, output: str, **options: Any) -> int:
    """Check that the probes are in CONFLIST, run, and can record; by default it is the file that the runtimes use.

    Every check is ok, warn or FAIL, and has a hint where it is not ok. Exit status: 1 if one is FAIL. Run it as root,
    who may see everything.
    """
    statuses = []
    found: list[dict[str, str]] = []
    group = ""
    for title, finding in examine(conflist_, places_of(options)):
        statuses.append(finding.status)
        if output == "json":
            found.append({"group": title, **finding._asdict()})
            continue
        if title != group:
            click.echo(f"\n{title}" if group else title)
            group = title
        _print(finding)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    return int(FAIL in statuses)


def _print(finding: Finding) -> None:
    click.echo(f"  {click.style(f'{finding.status:<4}', fg=_COLOURS[finding.status])}  {finding.what}")
    if finding.hint:
        click.echo(f"        hint: {finding.hint}")
