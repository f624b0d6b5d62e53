"""A large log, as a busy node would write it: python -m tests.bench.make_log [--records N] [--format json|text] > LOG

About 1 KB a record. Pods come and go; one ADD in two hundred fails and is cleaned up. The same arguments make the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from cni_capture.call import quote
from cni_capture.record import LINES, Record

START = 1_796_062_992_000_000_000  # nanoseconds since the epoch: 2026-11-30
ALIVE = 200
FAILURES = 1 / 200
VERSION = "1.0.0"
NETWORK = "k8s-pod-network"

PLUGINS = {
    "type": "calico",
    "log_level": "info",
    "log_file_path": "/var/log/calico/cni/cni.log",
    "datastore_type": "kubernetes",
    "nodename": "worker-1",
    "mtu": 1450,
    "ipam": {"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "false"},
    "policy": {"type": "k8s"},
    "kubernetes": {"kubeconfig": "/etc/cni/net.d/calico-kubeconfig"},
}


class Pod:
    def __init__(self, chance: random.Random, number: int) -> None:
        self.id = f"{chance.getrandbits(256):064x}"
        self.netns = f"/var/run/netns/cni-{chance.getrandbits(32):08x}-9d4e-4f1c-b1a0-{chance.getrandbits(48):012x}"
        namespace = chance.choice(("default", "kube-system", "shop", "monitoring"))
        name = f"{chance.choice(('web', 'api', 'worker', 'cache'))}-{chance.getrandbits(36):09x}-{number % 90000:05d}"
        self.args = (
            f"IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};"
            f"K8S_POD_INFRA_CONTAINER_ID={self.id};K8S_POD_UID={chance.getrandbits(64):016x}-4c1c"
        )
        address = f"10.244.{number // 250 % 250}.{number % 250 + 2}"
        self.result: dict[str, Any] = {
            "cniVersion": VERSION,
            "interfaces": [
                {"name": f"cali{self.id[:11]}", "mac": "ee:ee:ee:ee:ee:ee"},
                {
                    "name": "eth0",
                    "mac": f"0a:58:0a:f4:{number // 250 % 250:02x}:{number % 250:02x}",
                    "sandbox": self.netns,
                },
            ],
            "ips": [{"interface": 1, "address": f"{address}/32", "gateway": "169.254.1.1"}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}],
            "dns": {},
        }
        self.alive = False


class Node:
    """A clock, a runtime and its pods; `records` never ends."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.pid = 4000
        self.number = 0

    def records(self) -> Iterator[Record]:
        pods: list[Pod] = []
        while True:
            if len(pods) < ALIVE or self.chance.random() < 0.5:
                self.number += 1
                pod = Pod(self.chance, self.number)
                fails = self.chance.random() < FAILURES
                yield self._record("capture-pre", "ADD", "entry", pod, "input", None)
                if not fails:
                    yield self._record("capture-post", "ADD", "exit", pod, "output", pod.result)
                    pods.append(pod)
                    continue
                result = None  # a failed ADD is cleaned up without one
            else:
                pod = pods.pop(self.chance.randrange(len(pods)))
                result = pod.result
            yield self._record("capture-post", "DEL", "entry", pod, "input", result)
            yield self._record("capture-pre", "DEL", "exit", pod, "input", result)

    def _record(self, probe: str, verb: str, side: str, pod: Pod, what: str, result: dict[str, Any] | None) -> Record:
        self.now += int(self.chance.lognormvariate(17, 1)) if side == "exit" else self.chance.randrange(500_000_000)
        self.pid += 1
        environ = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": pod.id,
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": pod.netns,
            "CNI_ARGS": pod.args,
            "CNI_PATH": "/opt/cni/bin",
        }
        facts = {
            "side": f'"{side}"',
            "monotonic": f"{(self.now - START) / 1e9 + 86400:.6f}",
            "ppid": "1187",
            "parent": '"containerd"',
            "network": quote(NETWORK),
            "cniVersion": f'"{VERSION}"',
        }
        body: dict[str, Any] | None = result
        if what == "input":
            body = {"cniVersion": VERSION, "name": NETWORK, **PLUGINS, "type": probe}
            if result:
                body["prevResult"] = result
        return Record(
            probe,
            self.pid % 4_000_000,
            self.now,
            environ,
            facts,
            what,
            json.dumps(body, separators=(",", ":")).encode(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--format", choices=sorted(LINES), default="json")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    line = LINES[arguments.format]
    for record in islice(Node(arguments.seed).records(), arguments.records):
        sys.stdout.buffer.writelines(line(record))


if __name__ == "__main__":
    main()
