"""The real command, as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
MAIN = [sys.executable, "-m", "cni_capture", "show"]
ENVIRON = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "80",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}


def show(*arguments: str | Path, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run `cni-capture show` and wait for it, 80 columns wide unless COLUMNS says otherwise."""
    command = [*MAIN, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env={**ENVIRON, **environ}, timeout=60)
