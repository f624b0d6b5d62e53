"""What a probe costs: one call of each kind against the bare start of the same interpreter, then 64 at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from _pytest.outcomes import Skipped

from cni_capture import launchers
from tests.bench.processes import Command, at_once, medians
from tests.runtimes.tools import go_tool

CHECKOUT = Path(__file__).resolve().parents[2]
AT_ONCE = 64
NOOP = "`noop` of containernetworking/cni, in Go"
WRAPPED = "the same, wrapped by the installed capture-wrap"

CONFIG = {
    "cniVersion": "1.0.0",
    "name": "k8s-pod-network",
    "type": "capture-post",
    "prevResult": {
        "cniVersion": "1.0.0",
        "interfaces": [
            {"name": "cni0", "mac": "8a:70:91:ec:3e:43"},
            {"name": "veth62b383af", "mac": "f2:e2:f3:87:92:97"},
            {"name": "eth0", "mac": "a2:ca:49:76:3a:a0", "sandbox": "/var/run/netns/cni-6c1de75d"},
        ],
        "ips": [{"interface": 2, "address": "10.80.0.3/16", "gateway": "10.80.0.1"}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {},
    },
}
CALL = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "ec9d20d367fef831e15a0fe869f58365951108cdae1bd6137a15ac49b3310962",
    "CNI_IFNAME": "eth0",
    "CNI_NETNS": "/var/run/netns/cni-f7ae5e20-0d65-9011-5add-db460f79db89",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-5d9c",
    "CNI_PATH": "/opt/cni/bin",
}


def rows(scratch: Path, rounds: int) -> Iterator[str]:
    """The lines of a Markdown table: one call of each kind, as milliseconds and as a ratio to the bare interpreter."""
    commands = _commands(scratch)
    with _namespace() as netns:
        if netns:
            commands = [
                Command(c.name, c.argv, {**c.environ, "CNI_NETNS": netns}, c.stdin) if "interfaces" in c.name else c
                for c in commands
            ]
        found = medians(commands, rounds)
    bare = found["bare interpreter, `python -I -S -c pass`"]
    yield "| one call, median of interleaved runs | ms | ratio to bare |"
    yield "| --- | ---: | ---: |"
    for name, seconds in found.items():
        yield f"| {name} | {seconds * 1000:.2f} | {seconds / bare:.2f} |"
    if WRAPPED in found:
        added = found[WRAPPED] - found[NOOP]
        yield f"| what capture-wrap adds to the plugin | {added * 1000:.2f} | {added / bare:.2f} |"


def rows_at_once(scratch: Path, rounds: int) -> Iterator[str]:
    """The lines of a Markdown table: 64 calls at once on one lock."""
    commands = {command.name: command for command in _commands(scratch)}
    names = ["installed probe, text", "the original way"]
    best: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            best[name].append(at_once(commands[name], AT_ONCE))
    yield f"| {AT_ONCE} calls at once, median of {rounds} | records per second | slowest call, ms |"
    yield "| --- | ---: | ---: |"
    for name, times in best.items():
        middle = len(times) // 2
        total, slowest = (sorted(column)[middle] for column in zip(*times, strict=True))
        yield f"| {name} | {AT_ONCE / total:.0f} | {slowest * 1000:.0f} |"


def _commands(scratch: Path) -> list[Command]:
    interpreter = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    installed = scratch / "bin" / "capture-post"
    if not installed.exists():
        launchers.install(scratch / "prefix", scratch / "bin")
    settings = {"logFile": str(scratch / "cni.log"), "lockFile": str(scratch / "cni.lock")}
    text = _stdin(scratch / "text.json", settings)
    as_json = _stdin(scratch / "json.json", {**settings, "logFormat": "json"})
    interfaces = _stdin(scratch / "interfaces.json", {**settings, "interfaces": True})
    original = {
        **CALL,
        "BENCH_LOG": str(scratch / "original.log"),
        "BENCH_LOCK": str(scratch / "original.lock"),
        "PYTHONPATH": str(next((scratch / "prefix" / "probes").iterdir())),  # netifaces, without a venv around it
    }
    checkout = [interpreter, "-IS", str(CHECKOUT / "bin" / "capture-post")]
    commands = [
        Command("bare interpreter, `python -I -S -c pass`", [interpreter, "-I", "-S", "-c", "pass"], CALL, text),
        Command("installed probe, text", [str(installed)], CALL, text),
        Command("installed probe, JSON", [str(installed)], CALL, as_json),
        Command("installed probe, with `interfaces` of host and namespace", [str(installed)], CALL, interfaces),
        Command("probe from the checkout, text", checkout, CALL, text),
        Command("the original way", [interpreter, str(CHECKOUT / "tests/bench/original.py")], original, text),
    ]
    try:
        noop = go_tool("noop")
        recorder = _build_recorder(scratch)
    except (Exception, Skipped) as why:
        print(f"left out, the Go programs: {why}", file=sys.stderr)
    else:
        told = scratch / "noop.json"
        told.write_text(json.dumps({"ReportResult": json.dumps(CONFIG["prevResult"])}))
        answering = {**CALL, "CNI_ARGS": f"DEBUG={told}", "CNI_PATH": str(noop.parent)}
        wrapped = _stdin(scratch / "wrapped.json", {"type": "capture-wrap", "capture": {"type": "noop", **settings}})
        recorded = _stdin(scratch / "recorder.json", {"cniOutput": str(scratch / "recorder.log")})
        commands += [
            Command("a recorder in Go, as `debug` of containernetworking/cni", [str(recorder)], CALL, recorded),
            Command(NOOP, [str(noop)], answering, text),
            Command(WRAPPED, [str(installed.with_name("capture-wrap"))], answering, wrapped),
        ]
    return commands


def _build_recorder(scratch: Path) -> Path:
    program = scratch / "recorder"
    if not program.exists():
        source = CHECKOUT / "tests/bench/recorder"
        environ = {**os.environ, "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-o", program, "."], cwd=source, env=environ, check=True)
    return program


def _stdin(path: Path, settings: Mapping[str, object]) -> Path:
    path.write_text(json.dumps({**CONFIG, **settings}, separators=(",", ":")))
    return path


@contextmanager
def _namespace() -> Iterator[str]:
    """A network namespace to look into, as root; else none, and the probe looks into its own."""
    if os.geteuid() != 0:
        yield "/proc/self/ns/net"
        return
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up; echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin
    assert holder.stdout
    try:
        holder.stdout.readline()
        yield f"/proc/{holder.pid}/ns/net"
    finally:
        holder.stdin.close()
        holder.wait()
