from __future__ import annotations

from collections.abc import Sequence

from tests.runtimes import tools
from tests.runtimes.host import Host
from tests.runtimes.observe import observe, steady

POD = ["ip", "-n", "pod"]
CHANGES: list[Sequence[str]] = [
    ["ip", "link", "set", "veth00000001", "mtu", "1400"],
    ["ip", "link", "set", "veth00000001", "down"],
    ["bridge", "link", "set", "dev", "veth00000001", "hairpin", "on"],
    ["ip", "link", "set", "veth00000001", "nomaster"],
    ["ip", "address", "add", "10.1.0.9/24", "dev", "cni0"],
    ["ip", "route", "add", "10.9.0.0/16", "via", "10.1.0.2"],
    ["ip", "rule", "add", "from", "10.1.0.2", "table", "100"],
    ["iptables", "-A", "FORWARD", "-s", "10.1.0.2", "-j", "ACCEPT"],
    ["ip6tables", "-A", "FORWARD", "-s", "fd00::2", "-j", "ACCEPT"],
    ["nft", "add", "table", "inet", "cni_hostport"],
    ["tc", "qdisc", "add", "dev", "veth00000001", "root", "tbf", "rate", "1mbit", "burst", "8kb", "latency", "5ms"],
    ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/cni0/route_localnet"],
    ["sh", "-c", "echo eth0 >/var/lib/cni/10.1.0.2"],
    [*POD, "link", "set", "eth0", "mtu", "1300"],
    [*POD, "link", "set", "eth0", "promisc", "on"],
    [*POD, "route", "add", "default", "via", "10.1.0.1"],
    [*POD, "address", "del", "10.1.0.2/24", "dev", "eth0"],
    [*POD, "-6", "address", "add", "fd00::2/64", "dev", "eth0"],
    [*POD, "-6", "route", "add", "fd01::/64", "dev", "eth0"],
    ["ip", "netns", "exec", "pod", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/log_martians"],
]


def attached(host: Host) -> None:
    """A pod on a bridge, made by hand."""
    for argv in (
        ["ip", "link", "add", "cni0", "type", "bridge"],
        ["ip", "address", "add", "10.1.0.1/24", "dev", "cni0"],
        ["ip", "link", "set", "cni0", "up"],
        ["ip", "netns", "add", "pod"],
        ["ip", "link", "add", "veth00000001", "type", "veth", "peer", "name", "eth0", "netns", "pod"],
        ["ip", "link", "set", "veth00000001", "master", "cni0", "up"],
        [*POD, "address", "add", "10.1.0.2/24", "dev", "eth0"],
        [*POD, "link", "set", "eth0", "up"],
    ):
        host.run(argv)


def test_every_kind_of_change_is_seen() -> None:
    """What a plugin can set changes what is observed, one thing at a time; looking twice does not."""
    tools.need("ip", "tc", "bridge", "nft", "iptables", "unshare", "nsenter")
    with Host() as host:
        attached(host)
        before = steady(observe(host, "pod"))
        assert before == steady(observe(host, "pod"))
        for change in CHANGES:
            host.run(change)
            after = steady(observe(host, "pod"))
            assert before != after, f"not seen: {' '.join(change)}"
            before = after


def test_chance_gets_names_by_order_of_appearance() -> None:
    """The same thing has the same name throughout; what is always the same keeps its own."""
    text = "vethdeadbeef 0a:00:00:00:00:07 veth12345678 vethdeadbeef ff:ff:ff:ff:ff:ff my-pod"
    expected = "VETH1 MAC1 VETH2 VETH1 ff:ff:ff:ff:ff:ff POD"
    assert expected == steady(text, {"my-pod": "POD"})
