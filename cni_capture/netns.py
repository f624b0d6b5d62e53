"""Named network namespaces of our own, made and removed by `ip netns`.

The namespace for a container ID is `/var/run/netns/cni-capture-<container ID>`: by its name a later command finds it
again, and by its name it is known to be ours to remove.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cni_capture.errors import UserError

_DIRECTORY = Path("/var/run/netns")


def path_for(container_id: str) -> Path:
    """Where the namespace for this container is, or would be."""
    return _DIRECTORY / f"cni-capture-{container_id}"


def create(container_id: str) -> Path:
    """Make the namespace for this container. Raises UserError, also when there is one already."""
    path = path_for(container_id)
    _ip("add", path)
    return path


def remove(container_id: str) -> None:
    """Remove the namespace for this container, with every interface in it. Raises UserError."""
    _ip("delete", path_for(container_id))


def _ip(verb: str, path: Path) -> None:
    try:
        done = subprocess.run(["ip", "netns", verb, path.name], capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError(
            "cannot find the program ip", hint="install iproute2, or give a namespace of your own with --netns"
        ) from None
    if done.returncode != 0:
        raise UserError(
            f"cannot {verb} network namespace {path.name}: {done.stderr.strip()}",
            hint="" if os.geteuid() == 0 else "this needs root",
        )
