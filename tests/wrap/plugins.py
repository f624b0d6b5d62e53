"""A plugin run as libcni would run it, and the same plugin behind capture-wrap: what a runtime gets of each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node import BIN, Node

Runtime = Callable[..., "Gone"]
"""Runs a plugin with a network configuration and an environment, and whatever else `subprocess.Popen` takes."""

CONFIG = {"cniVersion": "1.0.0", "name": "net", "mtu": 1400, "zone": ["é", "\u003c"]}


@dataclass(frozen=True)
class Gone:
    """What a runtime gets of a plugin: its exit status (-N: it died of signal N) and its streams."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""


class Plugins:
    """A folder of plugins, and two ways to call them: `plain`, and `wrapped` by the program `wrap`."""

    def __init__(self, node: Node, folder: Path, wrap: Sequence[str | Path] = (BIN / "capture-wrap",)) -> None:
        self.node = node
        self.folder = folder
        self.wrap = wrap
        self.environ = {**node.environ, "CNI_PATH": f"/nowhere:{folder}", "CNI_CONTAINERID": "c1", "CNI_COMMAND": "ADD"}
        folder.mkdir(exist_ok=True)

    def add(self, name: str, script: str, interpreter: str = "/bin/sh", mode: int = 0o755) -> str:
        """Add a plugin; returns its name."""
        (self.folder / name).write_text(f"#!{interpreter}\n{script}\n")
        (self.folder / name).chmod(mode)
        return name

    def start(
        self, plugin: str, wrapped: bool, config: Mapping[str, Any] = CONFIG, **how: Any
    ) -> tuple[subprocess.Popen[bytes], bytes]:
        """Start a plugin, and return it with the stdin that is for it."""
        argv: Sequence[str | Path] = self.wrap if wrapped else [self.folder / plugin]
        entry = (
            {**config, "type": "capture-wrap", "capture": {"type": plugin}} if wrapped else {**config, "type": plugin}
        )
        environ = {**self.environ, **how.pop("env", {})}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(argv, env=environ, **{**pipes, **how}), compact(entry)

    def run(self, plugin: str, wrapped: bool, config: Mapping[str, Any] = CONFIG, **how: Any) -> Gone:
        """Run a plugin to its end."""
        process, stdin = self.start(plugin, wrapped, config, **how)
        stdout, stderr = process.communicate(stdin, timeout=60)
        return Gone(process.returncode, stdout or b"", stderr or b"")

    def plain(self, plugin: str, config: Mapping[str, Any] = CONFIG, **how: Any) -> Gone:
        return self.run(plugin, False, config, **how)

    def wrapped(self, plugin: str, config: Mapping[str, Any] = CONFIG, **how: Any) -> Gone:
        return self.run(plugin, True, config, **how)


def compact(config: Mapping[str, Any]) -> bytes:
    """A configuration as libcni writes it: keys sorted, nothing between the tokens."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def alive(pid: int) -> bool:
    """Whether a process exists, and is more than a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def waiting_bytes(process: subprocess.Popen[bytes]) -> bytes:
    """What a process says next on stdout, as much as comes at once."""
    assert process.stdout
    return os.read(process.stdout.fileno(), 65536)
