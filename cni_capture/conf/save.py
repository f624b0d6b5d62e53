"""Replace a file so that whoever reads it, and whatever crashes, finds the old one whole or the new one whole.

The new file grows beside the old one under a name that no runtime loads, hidden and with an ending of our own, and is
renamed over it when it is on the disk. What a crash leaves of it is removed by the next save.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from pathlib import Path

# Runtimes load what ends in .conf, .conflist and .json (go-cni, opts.go).
_ENDING = ".cni-capture"


class Changed(Exception):
    """Somebody else has written the file since it was read."""


def save(path: Path, data: bytes, *, like: Path | None = None, seen: bytes | None = None) -> None:
    """Put `data` at `path`, with the mode, owner and extended attributes of the file `like` (else 0600 and our own).

    Raises Changed, and leaves everything as it was, when `like` does not hold what was `seen` in it; OSError.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_ENDING}"):
        left.unlink()
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent)
    try:
        try:
            rest = data
            while rest:
                rest = rest[os.write(fd, rest) :]
            if like is not None:
                _take_after(fd, like)
            os.fsync(fd)
        finally:
            os.close(fd)
        # Not atomic with the rename, and nothing is: a writer who comes in between is overwritten.
        if like is not None and like.read_bytes() != seen:
            raise Changed(like)
        os.rename(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, for good. Raises OSError."""
    os.unlink(path)
    _sync_folder(path.parent)


def _take_after(fd: int, like: Path) -> None:
    model, own = os.stat(like), os.fstat(fd)
    if (model.st_uid, model.st_gid) != (own.st_uid, own.st_gid):
        os.fchown(fd, model.st_uid, model.st_gid)
    for name in os.listxattr(like):
        os.setxattr(fd, name, os.getxattr(like, name))
    os.fchmod(fd, model.st_mode & 0o7777)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
