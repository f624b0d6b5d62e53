"""The examples, with the real plugins that they name.

Calico's and Cilium's need a cluster: tests/test_examples.py plays them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes import tools
from tests.runtimes.host import CHECKOUT, Host
from tests.runtimes.shown import assert_shown

NET_D = CHECKOUT / "examples/net.d"
SUBNET_ENV = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.7.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
PORTS = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}


@pytest.mark.parametrize(
    ("conflist", "address"),
    [
        ("10-flannel", "10.244.7."),
        ("20-bridge-portmap", "10.88.0."),
        ("30-macvlan-tuning", "192.0.2.77/24"),
        ("40-bridge-wrapped", "10.90.0."),
        ("87-podman", "10.88.0."),
    ],
)
def test_an_example_attaches_a_container_and_records_it(conflist: str, address: str) -> None:
    """ADD gives an address, DEL takes it back, and the default log has what each probe saw, and nothing else."""
    tools.need("ip", "iptables", str(tools.DEBIAN_PLUGINS / "bridge"))
    folders: list[Path] = [tools.PROBES, tools.DEBIAN_PLUGINS]
    if conflist == "10-flannel":
        folders.append(tools.go_folder("flannel"))
    with Host() as host:
        host.write("/run/flannel/subnet.env", SUBNET_ENV)
        host.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0-peer"])
        host.run(["ip", "link", "set", "eth0", "up"])
        host.run(["mkdir", "-p", "/run/netns"])
        command = [f"{CHECKOUT}/.venv/bin/cni-capture", "run"]
        options = ["--path", ":".join(map(str, folders)), f"{NET_D}/{conflist}.conflist"]
        added = host.run([*command, "add", "--new-netns", "--capability-args", json.dumps(PORTS), *options])
        host.run([*command, "del", *options])
        log = host.read("/tmp/cni.log")
        assert_shown(host, "/tmp/cni.log")

    result = json.loads(added.stdout)
    assert result["ips"][0]["address"].startswith(address)
    entries = json.loads((NET_D / f"{conflist}.conflist").read_text())["plugins"]
    calls = [_calls(entry) for entry in entries]
    on_add, on_del = [[seen for call in order for seen in call] for order in (calls, reversed(calls))]
    records = [_record(line) for line in log.splitlines()]
    assert [*on_add, *on_del] == [(record["probe"], record["label"] or record["plugin"]) for record in records]
    # An empty dns is written by plugins and dropped by libcni.
    assert {"dns": {}, **result} == {"dns": {}, **records[len(on_add) - 1]["output"]}


def _calls(entry: dict[str, Any]) -> list[tuple[str, str | None]]:
    """What is recorded of one entry for each verb: probe, and label or wrapped plugin."""
    if entry["type"] in ("capture-pre", "capture-post"):
        return [(entry["type"], entry.get("label"))]
    ends = [("capture-wrap", entry["capture"]["type"])] if entry["type"] == "capture-wrap" else []
    inner = _calls(entry["ipam"]) if "ipam" in entry else []
    return [*ends, *inner, *ends]


def _record(line: str) -> dict[str, Any]:
    if line.startswith("{"):
        record: dict[str, Any] = json.loads(line)
        return {"label": None, "plugin": None, "output": None, **record}
    label = line.partition(" label=")[2].partition(" ")[0] or None
    output = line.partition(",output=")[2]
    return {
        "probe": line.split()[1].partition("[")[0],
        "label": label,
        "plugin": None,
        "output": json.loads(output) if output else None,
    }
