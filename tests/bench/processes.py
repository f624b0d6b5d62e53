"""Time whole processes, started as a runtime starts a plugin: with just the environment and stdin of a call."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """What to run, and what it finds in its environment and on stdin."""

    name: str
    argv: list[str]
    environ: Mapping[str, str]
    stdin: Path


def start(command: Command) -> int:
    """Start a command, its output thrown away; return its process ID.

    By posix_spawn(3), as cheap as a runtime does it: a fork of this large process would cost a good part of a probe.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(command.stdin), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawn(command.argv[0], command.argv, command.environ, file_actions=actions)


def finish(pid: int) -> None:
    """Wait for a process, which must have exited 0."""
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"a timed command ended with wait status {status}")


def medians(commands: Sequence[Command], rounds: int) -> dict[str, float]:
    """Median seconds of each command by name; all of them in turn in every round, the first two rounds not counted."""
    seconds: dict[str, list[float]] = {command.name: [] for command in commands}
    for number in range(rounds + 2):
        for command in commands:
            began = time.perf_counter()
            finish(start(command))
            if number >= 2:
                seconds[command.name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def at_once(command: Command, count: int) -> tuple[float, float]:
    """Start `count` of a command together; return seconds until all have ended, and of the slowest one."""
    began = {start(command): time.perf_counter() for _ in range(count)}
    first = min(began.values())
    slowest = 0.0
    for _ in range(count):
        pid, status = os.wait()
        if status != 0:
            raise RuntimeError(f"a timed command ended with wait status {status}")
        now = time.perf_counter()
        slowest = max(slowest, now - began[pid])
    return now - first, slowest
