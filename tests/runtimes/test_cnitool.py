"""cnitool, the client of the newest libcni, drives chains of real plugins with and without probes.

Each run has a host of its own, a pod's namespace in it and a neighbour outside. Its transcript (every command, exit
code, output, what can be observed afterwards, what traffic passes) must not depend on the probes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes import tools, traffic
from tests.runtimes.host import Host
from tests.runtimes.probes import Entry, around, expected, logged
from tests.runtimes.shown import assert_shown
from tests.runtimes.table import Table
from tests.runtimes.transcript import Transcript, assert_same

CNITOOL = f"cnitool {tools.go_version('cnitool')}"
NETNS = "/run/netns/pod"
CONTAINER = "cnitool-" + hashlib.sha512(NETNS.encode()).hexdigest()[:20]
OWN_PLUGINS = "/run/plugins"
POD_PORT, HOST_PORT = 80, 8080
MAC = "c2:11:22:33:44:55"
# What flanneld writes; IPMASQ is false when flanneld does not masquerade itself, and the plugin is to.
SUBNET_ENV = """\
FLANNEL_NETWORK=10.244.0.0/16
FLANNEL_SUBNET=10.244.7.1/24
FLANNEL_IPV6_NETWORK=fd00:244::/48
FLANNEL_IPV6_SUBNET=fd00:244:0:7::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=false
"""


@dataclass(frozen=True)
class Chain:
    """`gateway` is pinged from the pod; `first` is where the pre goes: 0 but for plugins that mind a prevResult.

    `since` is the oldest spec version that the plugins speak.
    """

    what: str
    plugins: Sequence[Entry]
    gateway: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    prepare: Sequence[str] = ("true",)
    first: int = 0
    ifname: str = "eth0"
    since: str = "0.3.1"


def ipam(subnet: str, *more: str, **keys: Any) -> Entry:
    ranges = [[{"subnet": subnet, **keys}], *([{"subnet": other}] for other in more)]
    routes = [{"dst": "::/0" if ":" in range_[0]["subnet"] else "0.0.0.0/0"} for range_ in ranges]
    return {"type": "host-local", "ranges": ranges, "routes": routes}


BRIDGE: Entry = {
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": True,
    "ipMasq": True,
    "hairpinMode": True,
    "mtu": 1400,
    "ipam": ipam("10.88.0.0/24", "fd00:88::/64"),
}
PORTMAP: Entry = {"type": "portmap", "capabilities": {"portMappings": True}}
PORTS = {"portMappings": [{"hostPort": HOST_PORT, "containerPort": POD_PORT, "protocol": "tcp"}]}
TUNING: Entry = {"type": "tuning", "sysctl": {"net.ipv4.conf.all.log_martians": "1"}, "mac": MAC, "mtu": 1300}
BANDWIDTH: Entry = {"type": "bandwidth"} | {
    f"{way}{what}": 8_000_000 for way in ("ingress", "egress") for what in ("Rate", "Burst")
}

CHAINS = [
    Chain("bridge", [BRIDGE], "10.88.0.1"),
    Chain("ptp", [{"type": "ptp", "ipMasq": True, "mtu": 1400, "ipam": ipam("10.89.0.0/24")}], "10.89.0.1"),
    Chain(
        "macvlan",
        [
            {
                "type": "macvlan",
                "master": traffic.UPLINK,
                "ipam": ipam("192.0.2.0/24", rangeStart="192.0.2.100", gateway=traffic.OUTSIDE_ADDRESS),
            }
        ],
        traffic.OUTSIDE_ADDRESS,
    ),
    Chain("bridge+portmap", [BRIDGE, PORTMAP], "10.88.0.1", PORTS),
    Chain("bridge+tuning", [BRIDGE, TUNING], "10.88.0.1"),
    Chain("bridge+bandwidth", [BRIDGE, BANDWIDTH], "10.88.0.1"),
    Chain(
        "bridge+firewall",
        [BRIDGE, {"type": "firewall", "backend": "iptables"}],
        "10.88.0.1",
        # Nothing is forwarded but what the plugin lets through.
        prepare=("iptables", "-P", "FORWARD", "DROP"),
        since="0.4.0",
    ),
    # loopback with a prevResult leaves lo out of its result.
    Chain(
        "loopback+tuning, loopback without probe",
        [{"type": "loopback"}, {"type": "tuning"}],
        "127.0.0.1",
        first=1,
        ifname="lo",
    ),
]
NFTABLES = Chain("bridge+portmap with nftables", [BRIDGE, {**PORTMAP, "backend": "nftables"}], "10.88.0.1", PORTS)
FLANNEL = Chain(
    "flannel+portmap",
    [{"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}}, PORTMAP],
    "10.244.7.1",
    PORTS,
)


@dataclass(frozen=True)
class Plugins:
    """A set of plugins: name and version, the folders, how to log around them, which of them fail every CHECK."""

    name: str
    folders: Sequence[Path]
    log_format: str
    fail_check: frozenset[str] = frozenset()


def debian() -> Plugins:
    tools.need(str(tools.DEBIAN_PLUGINS / "bridge"))
    name = f"Debian {tools.debian_version('containernetworking-plugins')}"
    # portmap 1.1.1 looks for the rules of IPv4 among those of IPv6: without probes, too, its CHECK always fails.
    return Plugins(name, [tools.DEBIAN_PLUGINS], "text", frozenset({"portmap"}))


def newest() -> Plugins:
    return Plugins(f"reference {tools.go_version('plugins')}", [tools.go_folder("plugins")], "json")


def flannel() -> Plugins:
    base = debian()
    name = f"flannel {tools.go_version('flannel')}, {base.name}"
    return replace(base, name=name, folders=[tools.go_folder("flannel"), *base.folders])


class Lab:
    """A host with a pod's namespace and a neighbour, the one network `net` with these plugins, and a transcript."""

    def __init__(self, host: Host, folders: Sequence[Path], spec: str, entries: Sequence[Entry], chain: Chain) -> None:
        self.host = host
        self.chain = chain
        self.transcript = Transcript(host)
        self.transcript.names[MAC] = "MAC-AS-CONFIGURED"
        self.results: list[Any] = []
        host.write("/etc/cni/net.d/net.conflist", json.dumps({"cniVersion": spec, "name": "net", "plugins": entries}))
        host.write("/run/flannel/subnet.env", SUBNET_ENV)
        host.write(f"{OWN_PLUGINS}/failing", FAILING, mode=0o755)
        path = [OWN_PLUGINS, *map(str, folders), str(tools.PROBES)]
        self.env = {"CNI_PATH": ":".join(path), "CAP_ARGS": json.dumps(chain.capabilities)}
        host.run(["sysctl", "-w", "net.ipv6.conf.default.accept_dad=0"])
        traffic.add_outside(host)
        host.run(["ip", "netns", "add", "pod"])
        host.run(["ip", "netns", "exec", "pod", "sysctl", "-w", "net.ipv6.conf.default.accept_dad=0"])
        host.run(chain.prepare)
        traffic.serve(host, "outside", POD_PORT)
        traffic.serve(host, "pod", POD_PORT)

    def do(self, verb: str) -> None:
        """Run cnitool, and note what it says and what can be seen and reached afterwards."""
        command = [str(tools.go_tool("cnitool")), verb, "net", NETNS, "--ifname", self.chain.ifname]
        done = self.host.run(command, env=self.env, check=False)
        self.transcript.note_command(f"cnitool {verb}", done)
        if done.stdout:
            self.results.append(json.loads(done.stdout))
        if verb in ("add", "del", "gc"):
            self.transcript.look("pod")
        if verb == "add" and done.returncode == 0:
            self.send()

    def send(self) -> None:
        """Ping the gateway, connect to the neighbour outside and, if the chain publishes a port, by it to the pod."""
        assert traffic.ping(self.host, "pod", self.chain.gateway)
        if self.chain.ifname != "lo":
            self.connect("pod", traffic.OUTSIDE_ADDRESS, POD_PORT)
        if self.chain.capabilities:
            self.connect("outside", traffic.HOST_ADDRESS, HOST_PORT)
            self.connect("pod", traffic.HOST_ADDRESS, HOST_PORT)

    def connect(self, netns: str, address: str, port: int) -> None:
        answer = traffic.connect(self.host, netns, address, port)
        assert "hello" in answer, f"from {netns} to {address}:{port}: {answer}"
        self.transcript.note(f"from {netns} to {address}:{port}: {answer}")


# What cnitool is told, and what the probes see of it. Its gc knows of no valid attachment: first it deletes all.
STEPS = {
    "0.3.1": ("add check del del", "ADD DEL DEL"),  # libcni refuses CHECK before any plugin runs
    "0.4.0": ("add check del del", "ADD CHECK DEL DEL"),
    "1.0.0": ("add check del del", "ADD CHECK DEL DEL"),
    "1.1.0": ("status add check del del add gc", "STATUS ADD CHECK DEL DEL ADD DEL GC"),
}
CASES = [
    (which, chain, spec)
    for which, chains, specs in (
        (debian, CHAINS, ("0.3.1", "0.4.0", "1.0.0")),
        (newest, [*CHAINS, NFTABLES], STEPS),
        (flannel, [FLANNEL], ("0.3.1", "0.4.0")),
    )
    for chain in chains
    for spec in specs
    if spec >= chain.since
]


@pytest.mark.parametrize(
    ("which", "chain", "spec"), CASES, ids=[f"{case[0].__name__}-{case[1].what}-{case[2]}" for case in CASES]
)
def test_a_chain_does_the_same_with_probes(which: Callable[[], Plugins], chain: Chain, spec: str, table: Table) -> None:
    """Results, links, routes, rules, files, traffic and exit codes are the same, and each call is recorded."""
    plugins = which()
    steps, verbs = STEPS[spec]
    if "CHECK" in verbs and plugins.fail_check & {entry["type"] for entry in chain.plugins}:
        verbs = verbs.replace("CHECK", "CHECK!")
        chain = replace(chain, what=f"{chain.what} (CHECK fails)")
    compare(plugins, chain, spec, steps, verbs, table)


FAILURES = ("error object", "stderr only", "killed", "nonsense")
FAILING = r"""#!/usr/bin/python3 -IS
import json, os, sys
config = json.load(sys.stdin)
if os.environ["CNI_COMMAND"] == config["when"]:
    how = config["how"]
    if how == "error object":
        print(json.dumps({"cniVersion": config["cniVersion"], "code": 103, "msg": "no luck", "details": "on <port> 7"}))
    if how == "stderr only":
        print("no luck at all", file=sys.stderr)
    if how == "killed":
        os.kill(os.getpid(), 9)
    if how == "nonsense":
        print("no luck, no JSON")
    sys.exit(1)
if "ADD" == os.environ["CNI_COMMAND"]:
    print(json.dumps(config["prevResult"]))
"""
FAILING_STEPS = {
    "ADD": ("add del", "ADD! DEL"),
    "CHECK": ("add check del", "ADD CHECK! DEL"),
    "DEL": ("add del del", "ADD DEL! DEL!"),
    "STATUS": ("status add del", "STATUS! ADD DEL"),
    "GC": ("add gc", "ADD DEL GC"),  # libcni goes on with the next plugin
}


@pytest.mark.parametrize(
    ("when", "how", "spec"),
    [
        *((when, how, "1.1.0") for when in ("ADD", "CHECK", "DEL") for how in FAILURES),
        *((when, "error object", "1.1.0") for when in ("STATUS", "GC")),
        *((when, "error object", "0.3.1") for when in ("ADD", "DEL")),
    ],
)
def test_a_failing_plugin_fails_the_same_with_probes(when: str, how: str, spec: str, table: Table) -> None:
    """In the middle of a chain, whatever way it fails in: the same words, exit code and remains."""
    failing = {"type": "failing", "when": when, "how": how}
    what = f"plugin fails: {how}"
    chain = Chain(what, [BRIDGE, failing, TUNING], "10.88.0.1")
    steps, verbs = FAILING_STEPS[when]
    compare(newest(), chain, spec, steps, verbs, table)


def test_a_missing_plugin_is_missed_the_same_with_probes(table: Table) -> None:
    """The same words, exit code and remains when the second plugin is not there, and so for its DEL."""
    chain = Chain("plugin fails: missing", [BRIDGE, {"type": "missing"}, TUNING], "10.88.0.1")
    compare(newest(), chain, "1.1.0", "add del", "ADD! DEL!", table)


def compare(plugins: Plugins, chain: Chain, spec: str, steps: str, verbs: str, table: Table) -> None:
    """Run without and with probes, compare all of it, and what the log holds with `verbs`, for probes.expected()."""
    tools.need("ip", "bridge", "tc", "nft", "iptables", "ping", "unshare", "nsenter")
    transcripts: list[Transcript] = []
    for entries in (chain.plugins, around(chain.plugins, plugins.log_format, chain.first)):
        with Host() as host:
            lab = Lab(host, plugins.folders, spec, entries, chain)
            for verb in steps.split():
                lab.do(verb)
            transcripts.append(lab.transcript)
            records = logged(host)
            assert_shown(host)
    assert_same(*transcripts)
    assert expected(verbs, CONTAINER, "net") == [seen for seen, _ in records]
    assert lab.results == [body for seen, body in records if seen.what == "output"]
    for seen, body in records:
        if seen.what == "input":
            assert (seen.probe, seen.network, spec) == (body["type"], body["name"], body["cniVersion"])
            if seen.verb in ("CHECK", "DEL") and "prevResult" in body:
                assert body["prevResult"] in lab.results
    seen_verbs = verbs.replace("!", "")
    table.add(CNITOOL, plugins=plugins.name, spec=spec, verbs=seen_verbs, what=chain.what, records=len(records))
