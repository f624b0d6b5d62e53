"""What can be seen of an attachment: in its network namespace, on its host, and in the files of the plugins.

A text, made to be compared whole with that of another run: observe() leaves out what the kernel adds in its own time
(IPv6 link-local addresses and the routes of addresses, states of timers, of duplicate address detection and of
carriers), steady() puts placeholders, numbered by appearance, for what chance decides (MACs, names of veths, IDs).
Nothing that a plugin decides is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.runtimes.host import Host

_KERNELS_OWN = {
    "operstate",
    "tentative",
    "optimistic",
    "dadfailed",
    "topology_change",
    "topology_change_ack",
    # The number of the peer's namespace; that of a former one is free again only when the kernel has cleaned up.
    "link_netnsid",
    # Made of MACs, in another spelling; the MACs themselves are compared.
    "bridge_id",
    "root_id",
    "designated_bridge",
    "designated_root",
    "topology_change_detected",
    "state",
}
_KERNELS_OWN_FLAGS = {"LOWER_UP", "NO-CARRIER", "linkdown"}
_CHANCE = {
    "MAC": r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b",
    "VETH": r"\bveth[0-9a-f]{8}\b",
    # Names that plugins make of the container ID: chains of bridge's masquerading and of portmap, bandwidth's devices.
    "CHAIN": r"\bCNI-(?:DN-|SN-)?[0-9a-f]{20,24}\b",
    "IFB": r"\bbwp[0-9a-f]{12}\b",
    # Names that podman and containerd give to network namespaces.
    "NETNS": r"\b(?:netns|cni)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
}
_FIXED_MACS = ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:00")
_SETTINGS = [f"/proc/sys/net/{part}" for part in ("ipv4/ip_forward", "ipv4/conf", "ipv6/conf")]
_IPTABLES_OWN = {"filter", "nat", "mangle", "raw", "security"}


def observe(host: Host, netns: str) -> str:
    """All that is to be seen on the host and in its namespace /run/netns/`netns`; for steady()."""
    parts: list[str] = []

    def section(title: str, lines: Iterable[str]) -> None:
        parts.append("\n".join([f"== {title}", *lines]))

    for where, prefix in (("namespace", ["ip", "netns", "exec", netns]), ("host", [])):
        links = _ask(host, [*prefix, "ip", "-j", "-d", "addr"])
        section(f"{where}: links and addresses", (_line(_without_link_local(link)) for link in links))
        routes = _ask(host, [*prefix, "ip", "-j", "route", "show", "table", "all"])
        section(f"{where}: routes", (_line(route) for route in routes if not _is_kernels_ipv6(route)))
        section(f"{where}: rules", map(_line, _ask(host, [*prefix, "ip", "-j", "rule"])))
        queues = _ask(host, [*prefix, "tc", "-j", "qdisc"])
        section(f"{where}: queues", map(_line, queues))
        for queue in queues:
            if queue["kind"] == "ingress":
                filters = [*prefix, "tc", "-j", "filter", "show", "dev", queue["dev"], "ingress"]
                section(f"{where}: filters of {queue['dev']}", map(_line, _ask(host, filters)))
        section(f"{where}: bridge ports", map(_line, _ask(host, [*prefix, "bridge", "-j", "-d", "link"])))
        # Not sysctl, which takes ten times as long; some files can only be written, hence no check.
        settings = host.run([*prefix, "grep", "-rs", "", *_SETTINGS], check=False).stdout
        section(f"{where}: settings", _by_link(settings.splitlines(), links))
        for program in ("iptables-save", "ip6tables-save"):
            section(f"{where}: {program}", _packet_filter(host.run([*prefix, program]).stdout))
        section(f"{where}: nft", _nft(host, prefix))
    section("files", _files(host))
    return "\n".join(parts)


def steady(text: str, names: Mapping[str, str] | None = None) -> str:
    """A transcript without what chance decided; `names` maps more of that, such as IDs, to what to call it."""
    for chance, name in (names or {}).items():
        text = text.replace(chance, name)
    for kind, pattern in _CHANCE.items():
        text = _numbered(kind, pattern, text)
    return text


def _numbered(kind: str, pattern: str, text: str) -> str:
    found = dict.fromkeys(re.findall(pattern, text))
    numbers = {word: f"{kind}{number}" for number, word in enumerate((w for w in found if w not in _FIXED_MACS), 1)}
    return re.sub(pattern, lambda match: numbers.get(match[0], match[0]), text)


def _ask(host: Host, argv: list[str]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(host.run(argv).stdout or "[]")
    return answer


def _line(value: dict[str, Any]) -> str:
    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(inner) for key, inner in value.items() if not _is_kernels_own(key)}
        if isinstance(value, list):
            return [kept(inner) for inner in value if not (isinstance(inner, str) and inner in _KERNELS_OWN_FLAGS)]
        return value

    return json.dumps(kept(value))


def _is_kernels_own(key: str) -> bool:
    return key in _KERNELS_OWN or key.endswith("_timer")


def _without_link_local(link: dict[str, Any]) -> dict[str, Any]:
    addresses = [address for address in link["addr_info"] if not address["local"].startswith("fe80:")]
    return {**link, "addr_info": addresses}


def _is_kernels_ipv6(route: dict[str, Any]) -> bool:
    return route.get("protocol") == "kernel" and ":" in route["dst"]


def _by_link(settings: Iterable[str], links: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings (/proc/sys/net/ipv4/conf/LINK/...) of each link where it stands, as its name may be chance."""
    place = {link["ifname"]: number for number, link in enumerate(links)}
    return sorted(settings, key=lambda line: place.get(line.split("/")[6] if "/conf/" in line else "", -1))


def _packet_filter(saved: str) -> list[str]:
    """Chains in the order in which rules lead to them, not by name, which may be chance.

    Without the comments, which bear the time, and the counters of the built-in chains.
    """
    lines: list[str] = []
    for table in re.findall(r"^\*.*?^COMMIT$", saved, re.MULTILINE | re.DOTALL):
        head, *body, end = table.splitlines()
        chains: dict[str, list[str]] = {}
        for line in body:
            if line.startswith(":"):
                chains[line[1:].split()[0]] = [re.sub(r" \[\d+:\d+\]$", "", line)]
            else:
                chains[line.split()[1]].append(line)
        order = [name for name in chains if not re.fullmatch(_CHANCE["CHAIN"], name)]
        for name in order:  # grows on the way
            targets = [match[1] for line in chains[name] if (match := re.search(r" -[jg] (\S+)", line))]
            order += [target for target in dict.fromkeys(targets) if target in chains and target not in order]
        order += [name for name in chains if name not in order]
        lines += [head, *(line for name in order for line in chains[name]), end]
    return lines


def _nft(host: Host, prefix: list[str]) -> list[str]:
    """The tables that iptables-save does not show."""
    lines: list[str] = []
    for entry in json.loads(host.run([*prefix, "nft", "-j", "list", "tables"]).stdout)["nftables"]:
        table = entry.get("table", {"name": "filter"})
        if table["name"] not in _IPTABLES_OWN:
            shown = host.run([*prefix, "nft", "--stateless", "list", "table", table["family"], table["name"]])
            lines += shown.stdout.splitlines()
    return lines


def _files(host: Host) -> list[str]:
    """What plugins and libcni keep below /var/lib/cni; of libcni's cache not the config, which probes are part of."""
    lines = []
    top = host.path("/var/lib/cni")
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        text = path.read_text()
        if path.parent.name == "results":
            cached = {key: value for key, value in json.loads(text).items() if key != "config"}
            text = json.dumps(cached | {"cniArgs": sorted(cached.get("cniArgs") or [])})  # containerd shuffles them
        lines.append(f"{path.relative_to(top)}: {text}")
    return lines
