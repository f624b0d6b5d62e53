"""Where a probe would do harm, why, and what to do instead.

A pair in first place gives its neighbour a prevResult where that had none. A wrap changes the `type` of an entry, and
harms where somebody other than the runtime reads that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cni_capture.conf.conflist import PRE, Plugin, chain, member
from cni_capture.conf.plan import Plan, Target, stretches, targets
from cni_capture.conf.probes import plugins_without_ours
from cni_capture.conf.wraps import unwrap

_MUST_BE_CHAINED = ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf")
# Plugins that look at the type of their IPAM plugin: projectcalico/calico, cni-plugin/internal/pkg/utils/utils.go and
# pkg/k8s/k8s.go; Azure/azure-container-networking, cni/network/network.go and cni/netconfig.go (Serialize);
# antrea-io/antrea, pkg/agent/cniserver/server.go and ipam/ipam_service.go.
_LOOK_AT_IPAM = {
    "calico": "calico looks at the type of its IPAM plugin: a pod's own addresses and pools need calico-ipam, and "
    "usePodCidr needs host-local",
    "azure-vnet": "azure-vnet looks at the type of its IPAM plugin, and hands on no keys that it does not know",
    "antrea": "antrea looks at the type of its IPAM plugin, and refuses every pod with one that it does not know",
}


class Objection(NamedTuple):
    """Why a probe must not stand where the plan puts it, and what to do instead."""

    reason: str
    instead: str


def objections(data: bytes, plan: Plan, where: str = "conflist") -> list[Objection]:
    """What speaks against putting probes where a plan wants them. Raises UserError."""
    plugins = plugins_without_ours(data, where)
    if plan.wraps:
        return list(_to_wraps(plugins, targets(plugins, plan, where)))
    return list(_to_first(plugins)) if any(each.first == 0 for each in stretches(plugins, plan, where)) else []


def objections_to_present(data: bytes, where: str = "conflist") -> list[Objection]:
    """What speaks against the probes where they are. Raises UserError."""
    plugins = plugins_without_ours(data, where)
    entries = chain(data, where)
    wrapped = []
    for at, (_, settings, ipam_settings) in enumerate(unwrap(entry) for entry in entries if not entry.is_probe):
        wrapped += [Target(at, False)] if settings else []
        wrapped += [Target(at, True)] if ipam_settings else []
    return [*(_to_first(plugins) if entries[0].type == PRE else ()), *_to_wraps(plugins, wrapped)]


def _to_first(plugins: Sequence[Plugin]) -> Iterator[Objection]:
    """What speaks against a probe in front of the first plugin."""
    first = plugins[0]
    later = [f"put the probes around a later plugin: --around {plugin.type}" for plugin in plugins[1:2]]
    wrap = f"wrap it: --wrap {first.type}"
    if first.type == "cilium-cni":
        yield _objection(
            "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode", wrap, *later
        )
    elif first.type == "ipvlan" and not member(first.config, "master"):
        yield _objection(
            "behind a probe ipvlan without a master fails: it looks for one in the probe's result",
            "name its master in the conflist",
            wrap,
            *later,
        )
    elif first.type == "loopback":
        yield _objection("behind a probe loopback leaves lo out of its result", wrap, *later)
    elif first.type in _MUST_BE_CHAINED:
        yield _objection(
            f"{first.type} is first in its chain and rightly fails; behind a probe it would silently succeed",
            f"put the plugin that makes the interface in front of {first.type}",
        )
    elif _is_of_podman(first):
        yield _objection(
            "podman takes a network's driver, subnets and bridge from the first plugin, and would not find them", *later
        )


def _to_wraps(plugins: Sequence[Plugin], wrapped: Sequence[Target]) -> Iterator[Objection]:
    for at, is_ipam, _ in wrapped:
        plugin = plugins[at]
        if at == 0 and _is_of_podman(plugin):
            # containers/common, libnetwork/cni/cni_conversion.go; seen on podman 4.3.1.
            what = "subnets" if is_ipam else "driver, subnets and bridge"
            given = "the subnets" if is_ipam else "subnets and bridge"
            yield _objection(
                f"podman would no longer find the network's {what}, and give {given} to the next network as well",
                *(f"wrap a later plugin: --wrap {plugin.type}" for plugin in plugins[1:2]),
            )
        elif is_ipam and plugin.type in _LOOK_AT_IPAM:
            yield _objection(_LOOK_AT_IPAM[plugin.type], f"wrap it itself, without --ipam: --wrap {plugin.type}")
        elif not is_ipam and plugin.type == "istio-cni":  # istio/istio, cni/pkg/install/install.go
            yield _objection(
                "Istio's installer would not find istio-cni in the file, and put in a second one",
                "put probes around it: --around istio-cni",
            )


def _is_of_podman(first: Plugin) -> bool:
    """Whether it makes the bridge of a network that podman has created: that is how podman names it."""
    return str(member(first.config, "bridge")).startswith("cni-podman")


def _objection(reason: str, *instead: str) -> Objection:
    """An objection with one way out or several, of which the last is force."""
    return Objection(reason, "; ".join(filter(None, (", or ".join(instead), "--force does it all the same"))))
