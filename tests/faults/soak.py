"""Load and hostile calls at random, for as long as asked. Run as a program: it prints what it tried, and a summary.

    python -m tests.faults.soak [SECONDS [SEED]]        600 seconds and a seed of its own, unless told

Ends with status 1 at the first broken promise, and says how to see it again.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults import hostile, load
from tests.faults.test_hostile import SEEDS, check_injected, check_process


def under_load(chance: random.Random, folder: Path) -> Counter[str]:
    """Some hundred concurrent calls, some of them killed."""
    log, lock = folder / "cni.log", folder / "cni.lock"
    calls = load.plan(chance, chance.randrange(50, 400), log, lock, killed=chance.choice((0, 0.1, 0.25, 0.5)))
    statuses = load.run(calls, together=chance.choice((2, 16, 64)))
    load.mend(log, lock, calls, statuses)
    load.check(calls, statuses, log)
    killed = sum(status != 0 for status in statuses)
    return Counter({"calls under load": len(calls), "calls killed": killed})


def injected(chance: random.Random, folder: Path) -> Counter[str]:
    """Thousands of hostile calls in this process."""
    for _ in range(5000):
        made = hostile.mutated(chance.choice(SEEDS), chance)
        check_injected(made, folder / "cni.log", folder / "cni.lock")
    return Counter({"hostile calls": 5000})


def as_processes(chance: random.Random, folder: Path) -> Counter[str]:
    """Some hundred hostile calls as processes."""
    log = folder / "cni.log"
    for _ in range(200):
        log.unlink(missing_ok=True)
        made = hostile.possible(hostile.mutated(chance.choice(SEEDS), chance))
        check_process(made, log, folder / "cni.lock")
    return Counter({"hostile processes": 200})


def soak(seconds: float, seed: int) -> int:
    """Rounds of one kind or another until the time is up; the exit status."""
    begin = time.monotonic()
    total: Counter[str] = Counter()
    while time.monotonic() < begin + seconds:
        round_ = random.Random(seed).choice((under_load, injected, as_processes))
        with tempfile.TemporaryDirectory(prefix="cni-capture-soak-") as folder:
            try:
                did = round_(random.Random(seed), Path(folder))
            except AssertionError as error:
                print(f"seed {seed}: {round_.__name__}: BROKEN: {error}")
                print(f"to see it again: python -m tests.faults.soak 1 {seed}")
                return 1
        print(f"{time.monotonic() - begin:6.0f} s  seed {seed}: {round_.__name__}, {_listed(did)}: well", flush=True)
        total += did
        seed += 1
    print(f"\nin {time.monotonic() - begin:.0f} s: {_listed(total)}; no promise broken")
    return 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(soak(float(given[0]) if given else 600, int(given[1]) if len(given) > 1 else load.seed()))
