"""A node to call probes on: its log and lock file, and what a call is answered with."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cni_capture import probe as hot_floor
from tests.decoder import Decoded, decode

BIN = Path(__file__).resolve().parents[1] / "bin"
PROBES = ("capture-pre", "capture-post")
PROGRAMS = (*PROBES, "capture-wrap")


@dataclass(frozen=True)
class Answer:
    """What a runtime gets from a plugin."""

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""


class Stdin:
    """A stream that is read once, to its end."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self) -> bytes:
        return self.content


class Node:
    """A log and its lock file in `folder`, named to the probes by the environment."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "cni.log"
        self.lock = folder / "cni.lock"
        self.environ = {"CNI_CAPTURE_LOG_FILE": str(self.log), "CNI_CAPTURE_LOCK_FILE": str(self.lock)}

    def call(self, probe: str, environ: Mapping[str, str], stdin: bytes = b"{}") -> Answer:
        """Call `probe` in this process, with the environment of the node and `environ`."""
        stdout, stderr = bytearray(), bytearray()
        code = hot_floor.run(probe, {**self.environ, **environ}, Stdin(stdin), Sink(stdout), Sink(stderr))
        return Answer(code, bytes(stdout), bytes(stderr))

    def execute(self, argv: Sequence[str | Path], environ: Mapping[str, str], stdin: bytes | int = b"{}") -> Answer:
        """Execute `argv` as a runtime would, with the environment of the node and `environ`, and nothing else.

        `stdin` is what is on it, or the descriptor that it is.
        """
        whole = {**self.environ, **environ}
        if isinstance(stdin, bytes):
            done = subprocess.run(argv, env=whole, capture_output=True, timeout=20, input=stdin)
        else:
            done = subprocess.run(argv, env=whole, capture_output=True, timeout=20, stdin=stdin)
        return Answer(done.returncode, done.stdout, done.stderr)

    def lines(self) -> list[bytes]:
        """The lines of the log, each whole."""
        if not self.log.exists():
            return []
        content = self.log.read_bytes()
        assert content[-1:] == b"\n", "the last line of the log is torn"
        return content[:-1].split(b"\n")

    def records(self) -> list[Decoded]:
        """What the log says."""
        return [decode(line) for line in self.lines()]


class Sink:
    """A stream into `content`."""

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def write(self, data: bytes, /) -> object:
        self.content += data
        return len(data)
