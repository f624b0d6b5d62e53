"""cni-capture show against jq over the same large JSON log, in one run: python -m tests.bench.bench_show [--records N]

Prints a table of medians. The log is made in a directory of its own, which is removed. Exit status 1 when a promise is
not kept.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SHOW = [sys.executable, "-m", "cni_capture", "show"]
FASTER, MEMORY, TAIL = 5.0, 150, 0.3  # times jq, MB, seconds
ROUNDS = 3


def run(command: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds that a command took, and the most memory that it had, in MB; it writes to nowhere."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def middle(rounds: Sequence[dict[str, tuple[float, float]]], words: str) -> tuple[float, float]:
    """Medians of the seconds and of the megabytes of one command."""
    seconds, megabytes = zip(*(each[words] for each in rounds), strict=True)
    return statistics.median(seconds), statistics.median(megabytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "cni.log"
        with log.open("wb") as stream:
            make = [sys.executable, "-m", "tests.bench.make_log", "--records", str(arguments.records)]
            subprocess.run(make, stdout=stream, check=True)
        megabytes = log.stat().st_size / 1e6
        run(["cat", log])  # into the page cache, for all alike
        print(f"{arguments.records} records, {megabytes:.0f} MB")
        print(f"{'':32} {'seconds':>8} {'MB/s':>6} {'x jq':>6} {'memory MB':>10}")
        commands: dict[str, list[str | Path]] = {
            "jq -c select(...)": ["jq", "-c", 'select(.env.CNI_COMMAND == "ADD" and .error != null)', log],
            "show --failed -o json": [*SHOW, "--failed", "-o", "json", log],
            "show --stats": [*SHOW, "--stats", log],
        }
        # Interleaved, since what else happens on a machine comes and goes.
        rounds = [{words: run(command) for words, command in commands.items()} for _ in range(ROUNDS)]
        jq, _ = middle(rounds, "jq -c select(...)")
        kept = True
        for words in commands:
            seconds, memory = middle(rounds, words)
            print(f"{words:32} {seconds:8.2f} {megabytes / seconds:6.0f} {jq / seconds:6.1f} {memory:10.0f}")
            kept = kept and memory <= MEMORY and (jq / seconds >= FASTER or words.startswith("jq"))
        seconds, memory = min(run([*SHOW, "-n", "20", log]) for _ in range(5))
        print(f"{'show -n 20, the best of 5':32} {seconds:8.2f} {'':6} {'':6} {memory:10.0f}")
        return 0 if kept and seconds < TAIL else 1


if __name__ == "__main__":
    sys.exit(main())
