"""Calls of a probe: real processes from the checkout, or its `run` with streams injected."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cni_capture import probe

BIN = Path(__file__).resolve().parents[2] / "bin"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, owners and other users need root")

PREV_RESULT = '{"cniVersion":"1.0.0",  "interfaces":[{"name":"eth0"}], "ips":[{"address":"10.1.2.3/24"}]}'
"""With blanks that a decoder and encoder would lose."""


def config(**keys: Any) -> bytes:
    """A network configuration with `keys` of the probe's own entry, and PREV_RESULT exactly as it stands."""
    entry = json.dumps({"cniVersion": "1.0.0", "name": "net", "type": "capture-pre", **keys})
    return f'{entry[:-1]}, "prevResult": {PREV_RESULT}}}'.encode()


def environ(verb: str = "ADD", **variables: str) -> dict[str, str]:
    attachment = {"CNI_CONTAINERID": "c1", "CNI_NETNS": "/var/run/netns/c1", "CNI_IFNAME": "eth0"}
    return {"PATH": "/usr/bin:/bin", "CNI_COMMAND": verb, "CNI_PATH": "/opt/cni/bin", **attachment, **variables}


@dataclass(frozen=True)
class Answer:
    """What a runtime gets; `status` is negative where a signal ended the process."""

    status: int
    stdout: str
    stderr: str


HEALTHY = Answer(0, PREV_RESULT, "")
"""The answer to ADD with config()."""


def call(
    stdin: bytes, env: Mapping[str, str] | None = None, name: str = "capture-pre", prefix: Sequence[str] = ()
) -> Answer:
    """A call as a process, perhaps run by another command; an error after 30 seconds."""
    command = [*prefix, str(BIN / name)]
    done = subprocess.run(command, input=stdin, env=env or environ(), capture_output=True, timeout=30)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def injected(stdin: bytes, env: Mapping[str, str], name: str = "capture-pre") -> Answer:
    """A call in this process."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    status = probe.run(name, env, io.BytesIO(stdin), stdout, stderr)
    return Answer(status, stdout.getvalue().decode(), stderr.getvalue().decode())


def start(stdin: bytes, env: Mapping[str, str], name: str = "capture-pre") -> subprocess.Popen[bytes]:
    """A call as a process that has got its stdin, up to what a pipe holds, and is at work."""
    process = subprocess.Popen(
        [BIN / name], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    process.stdin.write(stdin)
    process.stdin.close()
    return process


def finish(process: subprocess.Popen[bytes]) -> Answer:
    """The answer of a started process."""
    assert process.stdout
    assert process.stderr
    with process:
        stdout, stderr = process.stdout.read(), process.stderr.read()
    return Answer(process.returncode, stdout.decode(), stderr.decode())
