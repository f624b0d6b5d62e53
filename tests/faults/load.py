"""A load of concurrent calls, some of them killed, and what has to be in the log afterwards."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import records
from tests.faults.calls import BIN, environ

VERBS = ("ADD", "ADD", "ADD", "DEL", "CHECK", "GC", "STATUS")
PROBES = ("capture-pre", "capture-post")
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Planned:
    """One call; `kill_after` are the seconds that it may live, None for ever."""

    name: str
    env: dict[str, str]
    network: dict[str, Any]
    kill_after: float | None

    @property
    def what(self) -> str:
        return "output" if (self.name, self.env["CNI_COMMAND"]) == ("capture-post", "ADD") else "input"

    @property
    def recorded(self) -> Any:
        """What its record holds."""
        return self.network["prevResult"] if self.what == "output" else self.network


def plan(chance: random.Random, count: int, log: Path, lock: Path, killed: float) -> list[Planned]:
    """Calls of every verb, with records from 200 bytes to 1 MB in both formats, that rotate every few records."""
    return [_call(chance, number, log, lock, killed) for number in range(count)]


def _call(chance: random.Random, number: int, log: Path, lock: Path, killed: float) -> Planned:
    size = int(200 * 5000 ** chance.random())
    network = {
        "cniVersion": "1.1.0",
        "name": "load",
        "type": "capture",
        "logFile": str(log),
        "lockFile": str(lock),
        "logFormat": chance.choice(("text", "json")),
        "lockTimeout": 60,
        "logOptions": {"maxSize": 0.5, "maxBackups": 5000},
        "prevResult": {"cniVersion": "1.1.0", "ips": [], "padding": chance.choice("abc,{}") * size},
    }
    env = environ(chance.choice(VERBS), CNI_CONTAINERID=f"c{number}")
    kill_after = chance.uniform(0.0, 0.3) if chance.random() < killed else None
    return Planned(chance.choice(PROBES), env, network, kill_after)


def run(calls: Sequence[Planned], together: int) -> list[int]:
    """Make the calls, so many at a time; return their exit statuses. A wrong answer is an error."""
    with ThreadPoolExecutor(together) as pool:
        return list(pool.map(_run, calls))


def _run(planned: Planned) -> int:
    with subprocess.Popen(
        [BIN / planned.name], env=planned.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            answer, said = process.communicate(json.dumps(planned.network).encode(), timeout=planned.kill_after or 120)
        except subprocess.TimeoutExpired:
            assert planned.kill_after is not None, "it hangs"
            process.kill()
            answer, said = process.communicate()
            return process.wait()
    expected = planned.network["prevResult"] if planned.env["CNI_COMMAND"] == "ADD" else None
    assert (json.loads(answer) if answer else None) == expected
    assert not said or b"removed a torn record" in said, said
    return process.returncode


def check(calls: Sequence[Planned], statuses: Sequence[int], log: Path) -> None:
    """Whole records only; one for every call that exited 0; none, or one, for every call that was killed."""
    assert set(statuses) <= {0, -signal.SIGKILL}
    found: Counter[str] = Counter()
    by_container = {planned.env["CNI_CONTAINERID"]: planned for planned in calls}
    for record in records.of_log(log):
        planned = by_container[record["container"]]
        assert record["probe"] == planned.name
        assert record[planned.what] == planned.recorded
        found[record["container"]] += 1
    for planned, status in zip(calls, statuses, strict=True):
        count = found[planned.env["CNI_CONTAINERID"]]
        assert count == 1 if status == 0 else count <= 1, f"{count} records of {planned.env['CNI_CONTAINERID']}"


def mend(log: Path, lock: Path, calls: list[Planned], statuses: list[int]) -> None:
    """One more call, which clears away what the last killed one may have left."""
    last = _call(random.Random(0), len(calls), log, lock, killed=0)
    calls.append(last)
    statuses.append(_run(last))


def seed() -> int:
    return time.time_ns() % 1_000_000
