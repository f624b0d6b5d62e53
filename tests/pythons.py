"""The Pythons of this machine that the probes promise to run under."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SYSTEM = "/usr/bin/python3"
# Where pyenv and uv keep theirs, out of the PATH.
_KEPT = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
_NETIFACES = """\
import socket

AF_LINK, AF_INET, AF_INET6 = socket.AF_PACKET, socket.AF_INET, socket.AF_INET6


def interfaces():
    return [name for _, name in socket.if_nameindex()]


def ifaddresses(name):
    return {}
"""


def pythons() -> list[str]:
    """The system's Python, and one of each other version, 3.10 to 3.14, that this machine has.

    With ONE_PYTHON in the environment the system's alone, for `make check`, which is to be quick.
    """
    if os.environ.get("ONE_PYTHON"):
        return [SYSTEM]
    folders = [str(folder) for pattern in _KEPT for folder in Path.home().glob(pattern)]
    # pyenv puts shims in the PATH, of which some have nothing behind them.
    folders += [folder for folder in os.get_exec_path() if not folder.endswith("/shims")]
    found = {}
    for minor in range(10, 15):
        command = shutil.which(f"python3.{minor}", path=os.pathsep.join(folders))
        if command:
            found[f"python3.{minor}"] = os.path.realpath(command)
    found[os.path.basename(os.path.realpath(SYSTEM))] = SYSTEM
    return sorted(found.values())


def install(python: str, folder: Path) -> Path:
    """Install the probes below `folder` by `python`; return the plugin directory.

    Only the Python of these tests is sure to have netifaces. Another one is given a stand-in with the names of
    interfaces and no addresses, from the standard library.
    """
    python = sys.executable if os.path.samefile(python, os.path.realpath(sys.executable)) else python
    paths = [CHECKOUT]
    if python != sys.executable:
        (folder / "stand-in").mkdir(parents=True)
        (folder / "stand-in" / "netifaces.py").write_text(_NETIFACES)
        (folder / "stand-in" / "_netifaces.py").touch()
        paths.append(folder / "stand-in")
    prefix, cni_bin = folder / "prefix", folder / "bin"
    script = "import sys, pathlib, cni_capture.launchers as them; them.install(*map(pathlib.Path, sys.argv[1:]))"
    subprocess.run(
        [python, "-B", "-c", script, prefix, cni_bin],
        env={"PYTHONPATH": os.pathsep.join(map(str, paths))},
        check=True,
        timeout=60,
    )
    return cni_bin
