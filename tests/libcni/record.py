"""Writes answers.jsonl anew, from a real cnitool: `python -m tests.libcni.record /path/to/cnitool` (as root).

Made with release 1.3.0: `GOBIN=$PWD go install github.com/containernetworking/cni/cnitool@v1.3.0`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.libcni.engines import cnitool
from tests.libcni.scenarios import Bench, scenarios

ANSWERS = Path(__file__).with_name("answers.jsonl")


def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as root, ANSWERS.open("w") as file:
        bench = Bench(Path(root), Path(root) / "cache")
        for scenario in scenarios():
            print(json.dumps(bench.play(scenario, cnitool(Path(program)))), file=file)


if __name__ == "__main__":
    main(sys.argv[1])
