"""What `cni-capture show` makes of the log of a run, held against the log as it stands there.

The expectation is made of the raw lines with regular expressions, not with the project's own reader.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass

from tests.runtimes.host import CHECKOUT, Host
from tests.runtimes.probes import LOG

_ROW = re.compile(r"^\d\d:\S+ +(?P<id>\S+) +(?P<verb>\S+) +(?P<pod>\S+) +(?P<ifname>\S+) +\S+ (?P<result>.*)$")


@dataclass(frozen=True)
class Told:
    """A row of `show`, less times: container and pod (`-` and the network in brackets where there are none).

    A hop stands before its verdict, with a colon: the label, the wrapped plugin, or both.
    """

    container: str
    verb: str
    pod: str
    ifname: str
    verdict: str


def assert_shown(host: Host, log_file: str = LOG) -> None:
    """`cni-capture show` tells each operation of the log, in order, with pod, verdict and address, and nothing else."""
    log = host.path(log_file)
    if not log.exists():
        return
    shown = subprocess.run(
        [CHECKOUT / ".venv/bin/cni-capture", "show", "--color", "never", log],
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [match for match in map(_ROW.match, shown.splitlines()) if match]
    operations = _operations(log.read_text().splitlines())
    assert [told for told, _ in operations] == [
        Told(row["id"], row["verb"], row["pod"], row["ifname"], _verdict(row["result"])) for row in rows
    ]
    for (_, addresses), row in zip(operations, rows, strict=True):
        assert set(addresses) <= set(row["result"].split()), row["result"]


def _operations(lines: list[str]) -> list[tuple[Told, list[str]]]:
    """What is to be told: for each entry whether its exit came, and the addresses in what came out.

    The exit of a wrapped plugin is that of the same process, and says how it ended.
    """
    operations: list[tuple[Told, list[str]]] = []
    open_: dict[tuple[str, ...], int] = {}
    for line in lines:
        verb, container, ifname = (_variable(line, name) for name in ("COMMAND", "CONTAINERID", "IFNAME"))
        network, label, plugin = (_fact(line, name) for name in ("network", "label", "plugin"))
        words = [label, plugin] if label != plugin else [label]
        hop = f"{' '.join(filter(None, words))}: " if label or plugin else ""
        attachment = (network, container, ifname, hop, _pid(line) if plugin else "")
        if _fact(line, "side") == "entry":
            names = [_argument(line, "K8S_POD_NAMESPACE"), _argument(line, "K8S_POD_NAME")]
            pod = "/".join(filter(None, names)) or f"[{network}]"
            open_[attachment] = len(operations)
            verdict = "no end seen" if plugin else "no exit seen"
            operations.append((Told(container[:12] or "-", verb, pod, ifname or "-", f"{hop}{verdict}"), []))
        else:
            told, _ = operations[open_[attachment]]
            verdict = "failed" if plugin and _has_failed(line) else "ok"
            told = Told(told.container, told.verb, told.pod, told.ifname, f"{hop}{verdict}")
            operations[open_.pop(attachment)] = (told, _addresses(line) if (verb, verdict) == ("ADD", "ok") else [])
    return operations


def _has_failed(line: str) -> bool:
    """Whether a wrapped plugin ended with another status than 0, by a signal, or could not be run."""
    ended = re.search(r'"exitStatus":(\d+)| exitStatus=(\d+)', line)
    return ended is None or (ended[1] or ended[2]) != "0"


def _pid(line: str) -> str:
    match = re.search(r'"pid":(\d+)|^\S+ \S+\[(\d+)\]', line)
    return (match[1] or match[2]) if match else ""


def _verdict(result: str) -> str:
    match = re.match(r"([\w -]+: )?(ok|failed|no exit seen|no end seen)\b", result)
    return match[0] if match else result


def _variable(line: str, name: str) -> str:
    match = re.search(rf'"CNI_{name}":"([^"]*)"|CNI_{name}=([^ ,]*)', line)
    return (match[1] or match[2] or "").strip('"') if match else ""


def _fact(line: str, name: str) -> str:
    match = re.search(rf'"{name}":"([^"]*)"| {name}=(\S*)', line)
    return (match[1] or match[2]) if match else ""


def _argument(line: str, name: str) -> str:
    match = re.search(rf'{name}=([^;"]*)', line)
    return match[1] if match else ""


def _addresses(line: str) -> list[str]:
    output = re.split(r'"output":|,output=', line)[1]
    result = json.JSONDecoder().raw_decode(output)[0]
    return [ip["address"] for ip in result.get("ips", [])][:1]
