"""The ADD of a chain out of the records of its wrapped plugins: whole, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.errors import UserError
from cni_capture.reading.records import read_record
from cni_capture.replay.chains import Chain, chain_of
from cni_capture.story.operations import Operation, operations
from tests.show.stories import NETWORK, VERSION, Story, result

WEB = "web-0123456789"
POD: dict[str, Any] = {"pod": "shop/web"}
BRIDGED, TUNED = result("10.1.0.7/24"), {**result("10.1.0.7/24"), "dns": {"domain": "tuned"}}
IPAM = {"cniVersion": VERSION, "ips": [{"address": "10.1.0.7/24"}]}


def config(plugin: str, previous: Any = None, **more: Any) -> dict[str, Any]:
    """What libcni hands to a plugin, in its order."""
    there = {"prevResult": previous} if previous else {}
    return {"cniVersion": VERSION, "name": NETWORK, **more, **there, "type": plugin}


def call(story: Story, plugin: str, given: Any, said: Any, verb: str = "ADD", **more: Any) -> None:
    pid = story.wrapped_entry(verb, WEB, plugin, given, **POD)
    story.wrapped_exit(verb, WEB, plugin, pid, said, **POD, **more)


def add(story: Story, mtu: int = 1400) -> None:
    """ADD over bridge, which calls host-local, and tuning."""
    bridge = config("bridge", mtu=mtu, capabilities={"ips": True}, runtimeConfig={"ips": ["10.1.0.7"]})
    pid = story.wrapped_entry("ADD", WEB, "bridge", bridge, **POD)
    call(story, "host-local", bridge, IPAM)
    story.wrapped_exit("ADD", WEB, "bridge", pid, BRIDGED, **POD)
    call(story, "tuning", config("tuning", BRIDGED, runtimeConfig={"mac": "0a::1"}), TUNED)


def read(story: Story) -> list[Operation]:
    return list(operations(map(read_record, story.lines("json"))))


def made(story: Story, number: int = 0) -> Chain:
    """The chain of the operation of that number."""
    found = read(story)
    return chain_of(found[number], found)


def test_a_conflist_is_made_of_what_the_plugins_got() -> None:
    """Their own entries, in the order of the chain, without what libcni had put in; IPAM is called by its plugin."""
    story = Story()
    add(story)
    chain = made(story)
    plugins = [{"type": "bridge", "mtu": 1400, "capabilities": {"ips": True}}, {"type": "tuning"}]
    expected = json.dumps({"cniVersion": VERSION, "name": NETWORK, "plugins": plugins}, indent=2)
    assert json.loads(expected) == json.loads(chain.conflist)
    assert expected.replace(" ", "").replace("\n", "") == chain.conflist.replace(" ", "").replace("\n", "")
    assert ["/opt/cni/bin"] == chain.paths
    assert [BRIDGED, TUNED] == [json.loads(answer.stdout) for answer in chain.answers if answer]
    assert "ADD of bridge+tuning for shop/web on podnet at 2026-11-30T12:03:44.119000Z" == chain.call.title


def test_the_attachment_is_that_of_the_calls() -> None:
    """Container, namespace, interface, CNI_ARGS, and the capability arguments of all plugins."""
    story = Story()
    add(story)
    attachment = made(story).attachment
    assert (WEB, f"/run/netns/{WEB[:6]}", "eth0") == (attachment.container_id, attachment.netns, attachment.ifname)
    args = (("IgnoreUnknown", "1"), ("K8S_POD_NAMESPACE", "shop"), ("K8S_POD_NAME", "web"))
    assert (args, {"ips": ["10.1.0.7"], "mac": "0a::1"}) == (attachment.args, attachment.capability_args)


@pytest.mark.parametrize("number", range(3))
def test_any_call_of_an_add_stands_for_the_whole(number: int) -> None:
    """The call of an IPAM plugin as well."""
    story = Story()
    add(story)
    assert "ADD of bridge+tuning" in made(story, number).call.title


def test_each_add_is_one_of_its_own() -> None:
    """Of a container that was added, deleted, added, and added again without a DEL."""
    story = Story()
    add(story, mtu=1)
    call(story, "tuning", config("tuning"), b"", "DEL")
    call(story, "bridge", config("bridge"), b"", "DEL")
    add(story, mtu=2)
    add(story, mtu=3)
    assert [1, 2, 3] == [json.loads(made(story, at).conflist)["plugins"][0]["mtu"] for at in (0, 5, 8)]


def test_a_del_ends_an_add() -> None:
    """Also where something else is spliced since, and again before the next ADD."""
    story = Story()
    call(story, "bridge", config("bridge"), BRIDGED)
    story.enter("DEL", WEB, BRIDGED)
    story.leave("DEL", WEB, BRIDGED)
    call(story, "ptp", config("ptp", BRIDGED), BRIDGED)
    assert "ADD of bridge for" in made(story).call.title


def test_the_chain_ends_with_the_plugin_that_failed() -> None:
    """Those behind it were not called."""
    story = Story()
    call(story, "bridge", config("bridge"), BRIDGED)
    call(story, "tuning", config("tuning", BRIDGED), {"code": 7, "msg": "no"}, exitStatus=1)
    answers = made(story).answers
    assert ["", "exit status 1"] == [answer.failure for answer in answers if answer]


def test_a_plugin_that_hung_has_no_answer() -> None:
    """It is the last one."""
    story = Story()
    call(story, "bridge", config("bridge"), BRIDGED)
    story.wrapped_entry("ADD", WEB, "tuning", config("tuning", BRIDGED), **POD)
    assert [False, True] == [answer is None for answer in made(story).answers]


@pytest.mark.parametrize(
    ("expected", "plugins"),
    [
        ("between the beginning and tuning", [("tuning", BRIDGED, TUNED)]),
        ("between bridge and sbr", [("bridge", None, BRIDGED), ("sbr", TUNED, TUNED)]),
    ],
)
def test_a_chain_with_a_hole_is_refused(expected: str, plugins: list[tuple[str, Any, Any]]) -> None:
    """What a plugin got tells that another one was at work before it."""
    story = Story()
    for plugin, previous, said in plugins:
        call(story, plugin, config(plugin, previous), said)
    with pytest.raises(UserError, match=f"{expected} the result has changed: a plugin there is not in the log"):
        made(story)


def test_a_probe_in_first_place_makes_no_hole() -> None:
    """It answers with a version and nothing else."""
    story = Story()
    call(story, "bridge", config("bridge", {"cniVersion": VERSION, "dns": {}}), BRIDGED)
    assert "bridge" in made(story).call.title


def test_a_chain_of_pairs_is_refused() -> None:
    """What the plugins got is not in the log."""
    story = Story()
    story.enter("ADD", WEB)
    story.leave("ADD", WEB, BRIDGED)
    with pytest.raises(UserError, match="no plugin of this chain was wrapped"):
        made(story)
