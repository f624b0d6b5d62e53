"""cni-capture show against jq over the same large JSON log, in one run: python -m tests.bench.bench_show [--records N]

Prints a table. The log is made in a directory of its own, which is removed. Exit status 1 when a promise is not kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SHOW = [sys.executable, "-m", "cni_capture", "show"]
FASTER, MEMORY, TAIL = 5.0, 150, 0.3  # times jq, MB, seconds


def run(command: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds that a command took, and the most memory that it had, in MB; it writes to nowhere."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - began, usage.ru_maxrss / 1024


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
        jq, memory = run(["jq", "-c", 'select(.env.CNI_COMMAND == "ADD" and .error != null)', log])
        print(f"{'jq -c select(...)':32} {jq:8.2f} {megabytes / jq:6.0f} {1:6.1f} {memory:10.0f}")
        kept = True
        for options in (["--failed", "-o", "json"], ["--stats"]):
            seconds, memory = run([*SHOW, *options, log])
            words = f"show {' '.join(options)}"
            print(f"{words:32} {seconds:8.2f} {megabytes / seconds:6.0f} {jq / seconds:6.1f} {memory:10.0f}")
            kept = kept and jq / seconds >= FASTER and memory <= MEMORY
        seconds, memory = min(run([*SHOW, "-n", "20", log]) for _ in range(5))
        print(f"{'show -n 20, the best of 5':32} {seconds:8.2f} {'':6} {'':6} {memory:10.0f}")
        return 0 if kept and seconds < TAIL else 1


if __name__ == "__main__":
    sys.exit(main())
