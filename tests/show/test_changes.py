"""What the plugins changed, in words and as a diff, and what of it is not so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.reading.records import read_record
from cni_capture.story.changes import contradictions, diff, results, words
from cni_capture.story.operations import Operation, operations
from tests.show.stories import WEB, Story, result

NETNS = "/run/netns/3f9c1a"


def added(before: Any, after: Any, **facts: Any) -> Operation:
    """An ADD into which `before` went, and out of which `after` came."""
    story = Story()
    story.enter("ADD", WEB, before)
    story.leave("ADD", WEB, after, **facts)
    (operation,) = operations(map(read_record, story.lines("json")))
    return operation


def changed(**more: Any) -> list[str]:
    return words(result(), result(**more))


def test_a_result_out_of_nothing_is_all_new() -> None:
    """The first plugin of a chain has no prevResult."""
    assert ["+ip", "+if", "+route"] == words(None, result())


def test_the_same_result_has_no_words() -> None:
    """A chained plugin hands on what it got; libcni may sort it, and drop an empty dns."""
    sorted_keys = json.loads(json.dumps(result(), sort_keys=True))
    del sorted_keys["dns"]
    assert [] == words(result(), sorted_keys)


@pytest.mark.parametrize(
    ("expected", "more"),
    [
        (["+ip", "-ip"], {"ips": [{"interface": 1, "address": "10.1.0.8/24", "gateway": "10.1.0.1"}]}),
        (["ip"], {"ips": [{"interface": 1, "address": "10.1.0.7/24", "gateway": "10.1.0.254"}]}),
        (["-route"], {"routes": []}),
        (["+route"], {"routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12"}]}),
        (["route"], {"routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.2"}]}),
        (["-if"], {"interfaces": result()["interfaces"][1:]}),
        (["mtu"], {"interfaces": [result()["interfaces"][0], {**result()["interfaces"][1], "mtu": 1400}]}),
        (["mac"], {"interfaces": [result()["interfaces"][0], {**result()["interfaces"][1], "mac": "02:00"}]}),
        (["+dns"], {"dns": {"nameservers": ["10.96.0.10"]}}),
        (["cniVersion"], {"cniVersion": "0.4.0"}),
        (["+sdn"], {"sdn": {"vni": 7}}),
    ],
)
def test_each_change_has_its_word(expected: list[str], more: dict[str, Any]) -> None:
    """New, gone and changed are told apart, and a part of an interface is named."""
    assert expected == changed(**more)


def test_results_of_the_first_versions_have_words_as_well() -> None:
    """ip4 and ip6 are addresses with routes."""
    old = {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.7/24", "routes": [{"dst": "0.0.0.0/0"}]}}
    assert ["+ip", "+route"] == words(None, old)


@pytest.mark.parametrize("value", [None, [], "text", {"ips": 5, "interfaces": {}, "routes": [None, 7], "dns": []}])
def test_what_is_no_result_does_no_harm(value: Any) -> None:
    """The log has whatever a plugin printed."""
    assert isinstance(words(value, value), list)
    assert isinstance(words(None, value), list)


def test_results_are_exact_slices() -> None:
    """White space, key order and numbers are those of the runtime."""
    operation = added({"b": 1, "a": 2}, {"a": 1.50})
    assert (b'{"b":1,"a":2}', b'{"a":1.5}') == results(operation)


def test_a_diff_has_every_line_once() -> None:
    """Read from top to bottom it is the new result with what went in between; commas at ends are no difference."""
    expected = [
        (" ", "{"),
        (" ", '  "a": 1,'),
        ("-", '  "b": [],'),
        (" ", '  "c": 1e3,'),
        ("+", '  "d": "x"'),
        (" ", "}"),
    ]
    assert expected == diff(b'{"a":1,"b":[],"c":1e3}', b'{"a":1,"c":1e3,"d":"x"}')


def look(*addresses: str, name: str = "eth0") -> dict[str, Any]:
    return {
        "host": ["lo"],
        "netns": [{"name": "lo", "addresses": ["127.0.0.1/8"]}, {"name": name, "addresses": addresses}],
    }


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([], look("10.1.0.7/24", "fe80::1/64")),
        (["10.1.0.7/24 is in the result, but not on eth0"], look()),
        (["10.1.0.9/24 is on eth0, but not in the result"], look("10.1.0.7/24", "10.1.0.9/24")),
        (["eth0 is in the result, but not in the namespace"], look("10.1.0.7/24", name="net1")),
        ([], {"host": [], "netnsError": "gone"}),
        ([], None),
        ([], {"netns": 5}),
    ],
)
def test_claims_are_held_against_what_was_there(expected: list[str], found: Any) -> None:
    """A result is what a plugin says; the snapshot is what was so. Without one nothing is claimed."""
    assert expected == contradictions(added(None, result(), interfaces=found))


def test_an_ipam_plugin_claims_nothing() -> None:
    """It hands out an address, which its caller has yet to put on the interface."""
    for plugin, expected in (("host-local", []), ("bridge", ["10.1.0.7/24 is in the result, but not on eth0"])):
        story = Story()
        pid = story.wrapped_entry("ADD", WEB, plugin, {"type": "bridge", "ipam": {"type": "host-local"}})
        story.wrapped_exit("ADD", WEB, plugin, pid, {"ips": [{"address": "10.1.0.7/24"}]}, interfaces=look())
        (operation,) = operations(map(read_record, story.lines("json")))
        assert expected == contradictions(operation)


def test_addresses_are_compared_as_addresses() -> None:
    """One address has many spellings."""
    assert [] == contradictions(added(None, result("FD00:0::7/64"), interfaces=look("fd00::7/64")))


def test_interfaces_of_other_networks_are_nobody_s_fault() -> None:
    """With multus several networks share a namespace, and each result knows its own."""
    found = look("10.1.0.7/24")
    found["netns"].append({"name": "net1", "addresses": ["192.168.0.4/24"]})
    assert [] == contradictions(added(None, result(), interfaces=found))
