"""`make bench`: print the tables, and with --write put them into the README."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.bench import pods, probes

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="runs of each command (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    options = parser.parse_args()
    lines = [_machine()]
    with tempfile.TemporaryDirectory(prefix="cni-capture-bench.", dir="/tmp") as scratch:
        lines += ["", *probes.rows(Path(scratch), options.rounds)]
        lines += ["", *probes.rows_at_once(Path(scratch), max(5, options.rounds // 10))]
        lines += ["", *pods.rows(Path(scratch), max(1, options.rounds // 25))]
    print("\n".join(lines))
    if options.write:
        text = README.read_text()
        before, rest = text.split(BEGIN)
        README.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}")


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown model")
    return (
        f"Measured on {date.today()}: {os.cpu_count()} cores of {model}, Linux {platform.release().partition('-')[0]}, "
        f"Python {sys.version.split()[0]}."
    )


if __name__ == "__main__":
    main()
