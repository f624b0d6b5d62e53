"""A mount namespace of its own for mounts that no other process is to see, and that go when it goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Space:
    """Commands run in it with the prefix `inside`; its files are seen from outside by `path`."""

    def __init__(self, pid: int) -> None:
        self.inside = ["nsenter", "-t", str(pid), "-m", "--"]
        self._root = Path(f"/proc/{pid}/root")

    def path(self, path: Path) -> Path:
        return self._root / path.relative_to("/")

    def run(self, script: str) -> None:
        subprocess.run([*self.inside, "sh", "-euc", script], check=True)


@contextmanager
def space(script: str, holder: str = "echo ready; exec cat >/dev/null") -> Iterator[Space]:
    """A namespace in which `script` (sh) has been run and `holder` goes on until its stdin ends."""
    command = ["unshare", "-m", "--propagation", "private", "sh", "-euc", f"{script}\n{holder}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield Space(process.pid)
        process.stdin.close()
