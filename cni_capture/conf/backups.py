"""What a conflist was before the probes came, and what it was left as: one folder per conflist in the state directory.

Outside the configuration directory, where runtimes would load a copy, or at least read everything again for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from cni_capture.conf.save import save

DEFAULT = Path("/var/lib/cni-capture")


@dataclass(frozen=True)
class Left:
    """A conflist as we left it: `digest` (SHA-256) at `time` (RFC 3339); it was made of the file `source`."""

    path: str
    source: str
    digest: str
    time: str


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Backups:
    """Of the conflists that were spliced, below `state`."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "conflists"

    def keep(self, left: Left, before: bytes) -> None:
        """Keep what a conflist was before. Raises OSError."""
        folder = self._of(left.path)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        save(folder / Path(left.source).name, before)
        save(folder / "left.json", json.dumps(asdict(left)).encode())

    def left(self, path: Path) -> Left | None:
        """How we left a conflist; None when we never spliced it, or took the probes out again. Raises OSError."""
        try:
            return Left(**json.loads((self._of(str(path)) / "left.json").read_bytes()))
        except FileNotFoundError:
            return None

    def before(self, left: Left) -> bytes:
        """What the conflist was before. Raises OSError."""
        return (self._of(left.path) / Path(left.source).name).read_bytes()

    def drop(self, path: Path) -> None:
        """Forget a conflist that is as it was. Raises OSError."""
        if self._of(str(path)).exists():
            shutil.rmtree(self._of(str(path)))

    def all(self) -> Iterator[Left]:
        """All that is kept. Raises OSError."""
        for folder in sorted(self._folder.glob("*")):
            if (folder / "left.json").exists():
                yield Left(**json.loads((folder / "left.json").read_bytes()))

    def _of(self, path: str) -> Path:
        return self._folder / quote(os.fsencode(path), safe="")
