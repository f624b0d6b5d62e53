"""Where a probe would change what others do, splice says so, why, and what to do instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.conf.objections import Objection, objections, objections_to_present
from cni_capture.conf.plan import Plan
from cni_capture.conf.probes import splice
from tests.test_conflist import conflist

PAIR = Plan()
ALL = Plan(wrap_all=True)
FORCE = "; --force does it all the same"
CILIUM = "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode"


@pytest.mark.parametrize(
    ("types", "reason", "instead"),
    [
        (
            ["cilium-cni", "portmap"],
            CILIUM,
            "wrap it: --wrap cilium-cni, or put the probes around a later plugin: --around portmap",
        ),
        (["cilium-cni"], CILIUM, "wrap it: --wrap cilium-cni"),
        (
            ["ipvlan"],
            "behind a probe ipvlan without a master fails: it looks for one in the probe's result",
            "name its master in the conflist, or wrap it: --wrap ipvlan",
        ),
        (["loopback"], "behind a probe loopback leaves lo out of its result", "wrap it: --wrap loopback"),
        *(
            (
                [name, "bridge"],
                f"{name} is first in its chain and rightly fails; behind a probe it would silently succeed",
                f"put the plugin that makes the interface in front of {name}",
            )
            for name in ("portmap", "tuning", "bandwidth", "firewall", "sbr", "vrf")
        ),
    ],
)
def test_where_no_probe_may_stand_first_the_reason_is_told(types: list[str], reason: str, instead: str) -> None:
    """For a pre in front of the whole chain, of every plugin and of the first, and where one stands already."""
    data = conflist(*types)
    expected = [Objection(reason, instead + FORCE)]
    for plan in (PAIR, Plan(each=True), Plan(around=types[0])):
        assert expected == objections(data, plan)
        assert expected == objections(splice(data, PAIR), plan)
        assert expected == objections_to_present(splice(data, plan))


def test_nothing_speaks_against_a_probe_behind_the_first_plugin() -> None:
    """Nor against one in front of a plugin that ignores what comes before it, an ipvlan with a master among them."""
    calico = conflist("calico", "bandwidth")
    for data, plan in (
        (conflist("cilium-cni", "portmap"), Plan(around="portmap")),
        (calico, PAIR),
        (conflist("ipvlan", master="eth0"), PAIR),
    ):
        assert ([], []) == (objections(data, plan), objections_to_present(splice(data, plan)))


@pytest.mark.parametrize("kind", ["cilium-cni", "ipvlan", "loopback", "portmap", "calico", "azure-vnet", "antrea"])
def test_nothing_speaks_against_a_wrap_in_first_place(kind: str) -> None:
    """The plugin gets what it would have got without us, and looks for no type of its own."""
    data = conflist(kind, "bandwidth", ipam={"type": "x"})
    for plan in (ALL, Plan(wrap=[kind])):
        assert ([], []) == (objections(data, plan), objections_to_present(splice(data, plan)))


def _podman(**keys: Any) -> bytes:
    bridge = {"type": "bridge", "bridge": "cni-podman1", "ipam": {"type": "host-local"}}
    return json.dumps({"name": "x", "plugins": [bridge, {"type": "portmap", **keys}]}).encode()


NOT_FOUND = "podman would no longer find the network's driver, subnets and bridge, and give subnets and bridge "
NO_SUBNETS = "podman would no longer find the network's subnets, and give the subnets "


@pytest.mark.parametrize(
    ("plan", "reason", "instead"),
    [
        (
            PAIR,
            "podman takes a network's driver, subnets and bridge from the first plugin, and would not find them",
            "put the probes around a later plugin: --around portmap",
        ),
        (Plan(wrap=["bridge"]), f"{NOT_FOUND}to the next network as well", "wrap a later plugin: --wrap portmap"),
        (ALL, f"{NOT_FOUND}to the next network as well", "wrap a later plugin: --wrap portmap"),
        (Plan(ipam=True), f"{NO_SUBNETS}to the next network as well", "wrap a later plugin: --wrap portmap"),
    ],
)
def test_a_network_of_podmans_keeps_its_first_plugin_first(plan: Plan, reason: str, instead: str) -> None:
    """podman finds the driver, the subnets and the bridge of a network nowhere else, and would give them out again."""
    expected = [Objection(reason, instead + FORCE)]
    assert expected == objections(_podman(), plan)
    assert expected == objections_to_present(splice(_podman(), plan))


def test_the_later_plugins_of_a_network_of_podmans_may_be_wrapped() -> None:
    """Nobody but libcni looks at their types."""
    data = _podman(ipam={"type": "x"}, bridge="cni-podman2")
    for plan in (Plan(around="portmap"), Plan(wrap=["portmap"]), Plan(wrap=["portmap"], ipam=True)):
        assert ([], []) == (objections(data, plan), objections_to_present(splice(data, plan)))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            "calico",
            "calico looks at the type of its IPAM plugin: a pod's own addresses and pools need calico-ipam, and "
            "usePodCidr needs host-local",
        ),
        (
            "azure-vnet",
            "azure-vnet looks at the type of its IPAM plugin, and hands on no keys that it does not know",
        ),
        (
            "antrea",
            "antrea looks at the type of its IPAM plugin, and refuses every pod with one that it does not know",
        ),
    ],
)
def test_who_looks_at_the_type_of_its_ipam_plugin_keeps_it(kind: str, reason: str) -> None:
    """Itself it can be wrapped, with the same insight into all that it is asked."""
    data = conflist(kind, "bandwidth", ipam={"type": "x"})
    expected = [Objection(reason, f"wrap it itself, without --ipam: --wrap {kind}{FORCE}")]
    for plan in (Plan(wrap=[kind], ipam=True), Plan(ipam=True), Plan(wrap_all=True, ipam=True)):
        assert expected == objections(data, plan)
        assert expected == objections_to_present(splice(data, plan))


def test_who_looks_for_its_own_type_in_the_file_is_not_wrapped() -> None:
    """Istio's installer keeps its plugin in the chain, and knows it by nothing else."""
    data = conflist("calico", "istio-cni")
    reason = "Istio's installer would not find istio-cni in the file, and put in a second one"
    expected = [Objection(reason, f"put probes around it: --around istio-cni{FORCE}")]
    for plan in (ALL, Plan(wrap=["istio-cni"])):
        assert expected == objections(data, plan)
        assert expected == objections_to_present(splice(data, plan))
    assert [] == objections(data, Plan(wrap=["calico"]))
