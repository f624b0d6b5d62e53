"""Splicing is bytes in, bytes out: our entries come and go, and nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cni_capture.conf.conflist import Objection, Plan, chain, has_probes, objections, splice, unsplice
from cni_capture.errors import UserError

PLAIN = Plan(settings={"logFormat": "json"})
CALICO = b"""{
  "name": "k8s-pod-network",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "calico",
      "mtu": 0
    },
    {"type": "portmap", "capabilities": {"portMappings": true, "other": false}},
    {
      "type": "bandwidth",
      "capabilities": {"bandwidth": true}
    }
  ]
}
"""


def _types(data: bytes) -> list[str]:
    return [plugin.type for plugin in chain(data)]


def _conflist(*types: str, **keys: Any) -> bytes:
    plugins = [{"type": name, **keys} for name in types]
    return json.dumps({"cniVersion": "1.0.0", "name": "x", "plugins": plugins}).encode()


def test_the_pre_comes_first_and_the_post_last() -> None:
    """Each in a line of its own, indented as its neighbour; the pre declares what the plugins behind it declare."""
    first, last = b'    {\n      "type": "calico",', b'"bandwidth": true}\n    }'
    capabilities = b'"capabilities": {"portMappings": true, "bandwidth": true}'
    pre = b'    {"type": "capture-pre", "logFormat": "json", %b},\n' % capabilities
    post = b',\n    {"type": "capture-post", "logFormat": "json"}'
    expected = CALICO.replace(first, pre + first).replace(last, last + post)
    assert expected == splice(CALICO, PLAIN)


def test_around_encloses_one_plugin() -> None:
    """The pre in front of it has its capabilities and no others."""
    spliced = splice(CALICO, Plan(around="portmap"))
    assert ["calico", "capture-pre", "portmap", "capture-post", "bandwidth"] == _types(spliced)
    assert ["portMappings"] == chain(spliced)[1].capabilities


def test_each_labels_a_pair_for_every_plugin() -> None:
    """A type that stands twice is numbered, so that a pair is found by its label."""
    data = _conflist("bridge", "tuning", "tuning")
    spliced = chain(splice(data, Plan(each=True)))
    labels = [(plugin.type, plugin.config.value("label")) for plugin in spliced if plugin.is_ours]
    names = ["bridge", "tuning", "tuning-2"]
    assert [(probe, name) for name in names for probe in ("capture-pre", "capture-post")] == labels


def test_members_are_found_as_go_finds_them() -> None:
    """By their exact name first, else in any case (encoding/json, Unmarshal); of two the last one counts."""
    plugins = '{"Type": "a"}, {"type": "b", "TYPE": "x"}, {"TYPE": "x", "type": "c"}, {"type": "x", "type": "d"}'
    assert ["a", "b", "c", "d"] == _types(f'{{"plugins": [{plugins}]}}'.encode())


def test_splicing_again_replaces_our_entries() -> None:
    """The result is that of the last splice alone; the same splice again changes nothing."""
    once = splice(CALICO, PLAIN)
    assert once == splice(splice(CALICO, Plan(each=True, settings={"interfaces": True})), PLAIN)
    assert once == splice(once, PLAIN)


@pytest.mark.parametrize("text", ['{"name":"x","type":"bridge"}', '\n { "type" : "bridge","name":"x"}\r\n\t'])
def test_a_single_plugin_becomes_a_list_and_is_itself_again(text: str) -> None:
    """With its name and version for those of the list; its own text, white space included, is the one element."""
    data = text.encode()
    spliced = splice(data, PLAIN)
    decoded = json.loads(spliced)
    assert ("x", ["capture-pre", "bridge", "capture-post"]) == (decoded["name"], _types(spliced))
    assert (data, True) == unsplice(spliced)


def test_unsplicing_takes_entries_out_that_were_written_by_hand() -> None:
    """However they are laid out."""
    by_hand = b'{"plugins":[ {"type":"capture-pre"} , {"type":"a"},\n\n{"type":"capture-post"},{"type":"b"}]}'
    assert (b'{"plugins":[ {"type":"a"},\n\n{"type":"b"}]}', False) == unsplice(by_hand)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"plugins": [{"type": "a"}] // mine\n}', "x: network configuration is not a JSON object: "),
        (b'{"plugins": [{"type": "\xff"}]}', "x: network configuration is not UTF-8: "),
        (b"[]", "x: network configuration is not a JSON object: "),
        (b'{"name": "x"}', "x: no list of plugins"),
        (b'{"plugins": {}}', "x: no list of plugins"),
        (b'{"plugins": []}', "x: no plugins"),
        (b'{"plugins": [1]}', "x, plugin 1: network configuration is not a JSON object: "),
        (b'{"plugins": [{"type": "a"}, {"name": "a"}]}', "x, plugin 2: no type"),
        (b'{"plugins": [{"type": "capture-pre"}]}', "x: nothing but probes in it"),
        (b'{"plugins": [{"a": ' + b"[" * 9000 + b"]" * 9000 + b"}]}", "x: nested too deep"),
    ],
)
def test_what_is_no_conflist_is_refused(data: bytes, message: str) -> None:
    """With the name of the file and what is wrong."""
    with pytest.raises(UserError) as caught:
        splice(data, PLAIN, "x")
    assert caught.value.message.startswith(message)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("types", "message", "hint"),
    [
        (["a", "b"], "x: no plugin of type c", "its plugins are: a, b"),
        (["a", "c", "c"], "x: 2 plugins of type c", "--each puts a pair of probes around every plugin"),
    ],
)
def test_around_must_name_one_plugin(types: list[str], message: str, hint: str) -> None:
    """Else it is said which there are."""
    with pytest.raises(UserError) as caught:
        splice(_conflist(*types), Plan(around="c"), "x")
    assert (message, hint) == (caught.value.message, caught.value.hint)


@pytest.mark.parametrize(
    ("types", "reason", "instead"),
    [
        (
            ["cilium-cni", "portmap"],
            "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode",
            "put the probes around a later plugin: --around portmap; --force does it all the same",
        ),
        (
            ["cilium-cni"],
            "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode",
            "--force does it all the same",
        ),
        (
            ["ipvlan"],
            "behind a probe ipvlan without a master fails: it looks for one in the probe's result",
            "name its master in the conflist; --force does it all the same",
        ),
        (["loopback"], "behind a probe loopback leaves lo out of its result", "--force does it all the same"),
        *(
            (
                [name, "bridge"],
                f"{name} is first in its chain and rightly fails; behind a probe it would silently succeed",
                f"put the plugin that makes the interface in front of {name}; --force does it all the same",
            )
            for name in ("portmap", "tuning", "bandwidth", "firewall", "sbr", "vrf")
        ),
    ],
)
def test_where_no_probe_may_stand_first_the_reason_is_told(types: list[str], reason: str, instead: str) -> None:
    """For a pre in front of the whole chain, of every plugin and of the first, and where one stands already."""
    data = _conflist(*types)
    expected = [Objection(reason, instead)]
    for plan in (Plan(), Plan(each=True), Plan(around=types[0])):
        assert expected == objections(data, plan)
        assert expected == objections(splice(data, PLAIN), plan)


def test_nothing_speaks_against_a_probe_behind_the_first_plugin() -> None:
    """Nor against one in front of a plugin that ignores what comes before it, an ipvlan with a master among them."""
    assert [] == objections(_conflist("cilium-cni", "portmap"), Plan(around="portmap"))
    assert [] == objections(CALICO, PLAIN)
    assert [] == objections(_conflist("ipvlan", master="eth0"), PLAIN)


def test_a_network_of_podmans_keeps_its_first_plugin_first() -> None:
    """podman finds the driver, the subnets and the bridge of a network nowhere else, and would give them out again."""
    data = _conflist("bridge", "portmap", bridge="cni-podman1")
    reason = "podman takes a network's driver, subnets and bridge from the first plugin, and would not find them"
    instead = "put the probes around a later plugin: --around portmap; --force does it all the same"
    assert [Objection(reason, instead)] == objections(data, PLAIN)
    assert [] == objections(data, Plan(around="portmap"))


def test_probes_are_found_where_nothing_can_be_parsed() -> None:
    """A file that is broken and mentions them has them, for all we know."""
    expected = [True, False, True, False]
    files = [splice(CALICO, PLAIN), CALICO, b'{"plugins": [{"type": "capture-pre"', b"{"]
    assert expected == [has_probes(data) for data in files]


def test_a_wrap_is_a_probe_that_splice_leaves_alone() -> None:
    """As a plugin or as the IPAM of one it counts for those who ask before they remove it, and stays where it is."""
    data = _conflist("bridge", "portmap", ipam={"type": "capture-wrap", "capture": {"type": "host-local"}})
    assert has_probes(data)
    assert has_probes(_conflist("capture-wrap", capture={"type": "bridge"}))
    assert (data, False) == unsplice(splice(data, PLAIN))


BLANKS = st.sampled_from(["", " ", "\n", "\n    ", "\t", "\r\n", " \n\n "])
# Drawing these anew for each of a thousand conflists would take a minute.
VALUES = st.sampled_from(
    [
        *(
            '"]},{"',
            '"\\"}"',
            '"\u7db2\u8def"',
            '"\\u7db2\\ud83d"',
            '"// no comment"',
            '""',
            "1e400",
            "-0.0",
            "null",
            "true",
        ),
        *("12345678901234567890", "[]", "{}", "[ [ ] ,{}]", '{"type":"capture-pre"}', '[{"type": "capture-post"}]'),
        *('{"plugins": [1,\n2]}', '{"a":1, "a" :2}', '{"ipam":{"ranges":[[{"subnet":"10.0.0.0/8"}]]}}'),
    ]
)
TYPES = st.sampled_from(["bridge", "tuning", "caf\u00e9", "\\u0062ridge"])


def _object(blanks: Sequence[str], members: Sequence[str]) -> str:
    """Members with white space around each, and around the braces."""
    a, b, c, d = blanks
    return f"{{{a}{f'{b},{c}'.join(members)}{d}}}"


def _plugin(blanks: Sequence[str], values: Sequence[str], kind: str, key: str, overruled: bool, capable: bool) -> str:
    """An entry in any layout, with members that nobody knows, a `type` that stands twice or is spelled in escapes."""
    colon = f"{blanks[0]}:{blanks[1]}"
    members = [f'"k{number}"{colon}{value}' for number, value in enumerate(values)]
    members += [f'"type"{colon}"overruled"'] * overruled + [f'"{key}"{colon}"{kind}"']
    members += ['"capabilities": {"mac": true, "ips": false}'] * capable
    return _object(blanks, members)


FOUR_BLANKS = st.tuples(BLANKS, BLANKS, BLANKS, BLANKS)
SOME_VALUES = st.lists(VALUES, max_size=2)
PLUGINS = st.builds(
    _plugin,
    FOUR_BLANKS,
    SOME_VALUES,
    TYPES,
    st.sampled_from(["type", "ty\\u0070e"]),
    st.booleans(),
    st.booleans(),
)


def _conflist_text(
    blanks: Sequence[str], plugins: Sequence[str], values: Sequence[str], overruled: bool, twice: bool
) -> bytes:
    a, b, c, d = blanks
    members = [f'"x{number}"{a}:{b}{value}' for number, value in enumerate(values)]
    members += ['"name": "\u7db2\u8def"', '"cniVersion":"1.0.0"']
    members += ['"plugins": [{"type": "overruled"}]'] * overruled
    members.append(f'"plugins"{c}:{d}[{c}{f"{b},{a}".join(plugins)}{d}]')
    members += ['"name": "again"'] * twice
    return f"{d}{_object(blanks, members)}{a}".encode()


CONFLISTS = st.builds(
    _conflist_text,
    FOUR_BLANKS,
    st.lists(PLUGINS, min_size=1, max_size=4),
    SOME_VALUES,
    st.booleans(),
    st.booleans(),
)
"""As nobody would lay them out, with keys that stand twice and members that nobody knows."""


@st.composite
def plans(draw: st.DrawFn, data: bytes) -> Plan:
    types = _types(data)
    single = [name for name in types if types.count(name) == 1]
    around = draw(st.sampled_from([*single, ""]))
    return Plan(around, not around and draw(st.booleans()), {"label": draw(st.sampled_from(["", "\u00e4", "]},{"]))})


class Pairs(list[tuple[str, Any]]):
    """An object, with the members that stand twice."""


def _without_ours(data: bytes) -> list[tuple[str, Any]]:
    ours = ("capture-pre", "capture-post")
    members = json.loads(data, object_pairs_hook=Pairs)
    return [
        (key, [plugin for plugin in value if dict(plugin)["type"] not in ours] if key == "plugins" else value)
        for key, value in members
    ]


@given(data=st.data())
@settings(max_examples=1000, deadline=None)
def test_splice_then_unsplice_is_the_identity(data: st.DataObject) -> None:
    """A thousand conflists: the bytes come back, and in between only our entries were new."""
    before = data.draw(CONFLISTS)
    plan = data.draw(plans(before))
    spliced = splice(before, plan)
    assert (before, False) == unsplice(spliced)
    assert json.loads(before, object_pairs_hook=Pairs) == _without_ours(spliced)
    assert _types(before) == [plugin.type for plugin in chain(spliced) if not plugin.is_ours]
    assert spliced == splice(spliced, plan)
    assert splice(before, PLAIN) == splice(spliced, PLAIN)


@given(text=PLUGINS, blanks=st.tuples(BLANKS, BLANKS))
@settings(max_examples=200, deadline=None)
def test_any_single_plugin_comes_back(text: str, blanks: tuple[str, str]) -> None:
    """The white space around it as well."""
    data = f"{blanks[0]}{text}{blanks[1]}".encode()
    assert (data, True) == unsplice(splice(data, PLAIN))
