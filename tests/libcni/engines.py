"""The two engines of the bench: our chain, and a real cnitool when there is one.

cnitool keeps its cache in /var/lib/cni and nowhere else. So it runs in a mount namespace of its own in which that is
the bench's cache, which needs root.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cni_capture.libcni import chain, network
from cni_capture.libcni.attachments import Attachment, Cache
from tests.libcni.scenarios import CONTAINER_ID, NETNS, Bench, Engine

_IN_CACHE = """
mkdir -p "$1" && mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/cni && mount --bind "$1" /var/lib/cni && shift &&
exec "$@"
"""


def ours(bench: Bench, verb: str) -> tuple[int, str, str]:
    """Our chain, from the conflist on disk to the words of the outcome."""
    noise: list[bytes] = []
    runtime = chain.Runtime([str(bench.plugins)], Cache(bench.cache), stderr=noise.append)
    outcome = chain.run(verb.upper(), network.load(bench.conflist), Attachment(CONTAINER_ID, NETNS), runtime)
    stderr = b"".join(noise).decode("utf-8", "surrogateescape") + (
        f"{outcome.error}\n" if outcome.error is not None else ""
    )
    stdout = outcome.result.pretty() if outcome.result is not None else ""
    return int(outcome.error is not None), stdout, stderr


def cnitool(program: Path) -> Engine:
    """A cnitool of release 1.3.0."""

    def engine(bench: Bench, verb: str) -> tuple[int, str, str]:
        environ = {"PATH": os.environ["PATH"], "CNI_PATH": str(bench.plugins), "NETCONFPATH": str(bench.conflists)}
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", _IN_CACHE, "sh", bench.cache, program, verb, "x", NETNS],
            env=environ,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
        return done.returncode, done.stdout, done.stderr

    return engine
