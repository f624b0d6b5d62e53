"""Splicing is bytes in, bytes out: what is ours comes and goes, and nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cni_capture.call import read_config
from cni_capture.conf.conflist import Plugin, chain
from cni_capture.conf.plan import Plan
from cni_capture.conf.probes import splice, unsplice
from cni_capture.conf.wraps import title
from cni_capture.errors import UserError
from cni_capture.standin import read_stand_in
from tests.test_conflist import conflist, types

PLAIN = Plan(settings={"logFormat": "json"})
WHOLE = Plan(wrap_all=True, ipam=True, settings={"logFormat": "json"})
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
    assert ["calico", "capture-pre", "portmap", "capture-post", "bandwidth"] == types(spliced)
    assert ["portMappings"] == chain(spliced)[1].capabilities


def test_each_labels_a_pair_for_every_plugin() -> None:
    """A type that stands twice is numbered, so that a pair is found by its label."""
    data = conflist("bridge", "tuning", "tuning")
    spliced = chain(splice(data, Plan(each=True)))
    labels = [(plugin.type, plugin.config.value("label")) for plugin in spliced if plugin.is_probe]
    names = ["bridge", "tuning", "tuning-2"]
    assert [(probe, name) for name in names for probe in ("capture-pre", "capture-post")] == labels


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
    assert ("x", ["capture-pre", "bridge", "capture-post"]) == (decoded["name"], types(spliced))
    assert (data, True) == unsplice(spliced)


def test_unsplicing_takes_entries_out_that_were_written_by_hand() -> None:
    """However they are laid out."""
    by_hand = b'{"plugins":[ {"type":"capture-pre"} , {"type":"a"},\n\n{"type":"capture-post"},{"type":"b"}]}'
    assert (b'{"plugins":[ {"type":"a"},\n\n{"type":"b"}]}', False) == unsplice(by_hand)


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
        splice(conflist(*types), Plan(around="c"), "x")
    assert (message, hint) == (caught.value.message, caught.value.hint)


WRAPPED = [
    ('{"type":"x"}', '{"type":"capture-wrap","capture":{"type": "x"}}'),
    ('{"type": "x"}', '{"type": "capture-wrap", "capture": {"type": "x"}}'),
    ('{ "type":"x" }', '{ "type":"capture-wrap", "capture":{"type": "x"} }'),
    ('{"type": "x", "a": 1}', '{"type": "capture-wrap", "capture": {"type": "x"}, "a": 1}'),
    ('{"a": 1, "type": "x"}', '{"a": 1, "type": "capture-wrap", "capture": {"type": "x"}}'),
    ('{\n\t"type" : "x",\n\t"a" : 1\n}', '{\n\t"type" : "capture-wrap",\n\t"capture" : {"type": "x"},\n\t"a" : 1\n}'),
    ('{\n  "a": 1,\n  "type": "x"\n}', '{\n  "a": 1,\n  "type": "capture-wrap",\n  "capture": {"type": "x"}\n}'),
    ('{"ty\\u0070e":"\\u0078" ,"a":1}', '{"ty\\u0070e":"capture-wrap" ,"capture":{"type": "\\u0078"},"a":1}'),
    ('{"a": 1,"type": "x"}', '{"a": 1,"type": "capture-wrap","capture": {"type": "x"}}'),
    ('{"type":"y","type":"x"}', '{"type":"y","type":"capture-wrap","capture":{"type": "x"}}'),
]


@pytest.mark.parametrize(("entry", "wrapped"), WRAPPED)
def test_a_wrap_has_the_type_within_and_behind_its_own(entry: str, wrapped: str) -> None:
    """With the white space that the entry has between its members; in `ipam` in the same way."""
    whole = '{{"plugins": [{}]}}'
    plain, expected = whole.format(entry).encode(), whole.format(wrapped).encode()
    assert expected == splice(plain, Plan(wrap=["x"]))
    assert (plain, False) == unsplice(expected)
    whole = '{{"plugins": [{{"type": "bridge", "ipam": {}}}]}}'
    plain, expected = whole.format(entry).encode(), whole.format(wrapped).encode()
    assert expected == splice(plain, Plan(ipam=True))
    assert (plain, False) == unsplice(expected)


IPAM = {"ipam": {"type": "host-local"}}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan(wrap=["portmap"]), "bridge capture-wrap(portmap) ptp"),
        (Plan(wrap=["ptp", "bridge"]), "capture-wrap(bridge) portmap capture-wrap(ptp)"),
        (Plan(wrap_all=True), "capture-wrap(bridge) capture-wrap(portmap) capture-wrap(ptp)"),
        (Plan(wrap=["bridge", "portmap"], ipam=True), "capture-wrap(bridge)+capture-wrap(host-local) WRAP ptp"),
        (Plan(wrap_all=True, ipam=True), "capture-wrap(bridge)+capture-wrap(host-local) WRAP capture-wrap(ptp)+DHCP"),
        (Plan(ipam=True), "bridge+capture-wrap(host-local) portmap ptp+DHCP"),
    ],
)
def test_a_plan_says_what_is_wrapped(plan: Plan, expected: str) -> None:
    """Plugins of some types or all, the IPAM plugins that these call, or just the IPAM plugins of the chain."""
    plugins = [{"type": "bridge", **IPAM}, {"type": "portmap"}, {"type": "ptp", "ipam": {"type": "dhcp"}}]
    spliced = splice(json.dumps({"plugins": plugins}).encode(), plan)
    expected = expected.replace("WRAP", "capture-wrap(portmap)").replace("DHCP", "capture-wrap(dhcp)")
    assert expected == " ".join(map(title, chain(spliced)))


def _labels(data: bytes) -> list[object]:
    """Of the wraps, and of those in their `ipam`."""
    plugins = json.loads(data)["plugins"]
    each = [entry for plugin in plugins for entry in (plugin, plugin.get("ipam", {})) if "capture" in entry]
    return [entry["capture"].get("label") for entry in each]


def test_a_wrap_has_a_label_where_its_name_is_not_its_own() -> None:
    """The plugin's name does for the others; a label that was asked for goes into every one."""
    data = conflist("bridge", "tuning", "tuning", "kube-ovn", "kube-ovn", ipam={"type": "kube-ovn"})
    tuning, kube = ["tuning", "tuning-2"], [f"kube-ovn{number}" for number in ("", *(f"-{n}" for n in range(2, 8)))]
    expected = [None, kube[0], tuning[0], kube[1], tuning[1], *kube[2:]]
    assert expected == _labels(splice(data, Plan(wrap_all=True, ipam=True)))
    assert [None] == _labels(splice(data, Plan(wrap=["bridge"])))
    assert ["x", "x"] == _labels(splice(data, Plan(wrap=["tuning"], settings={"label": "x"})))


def test_settings_of_a_wrap_stand_in_it() -> None:
    """Behind the type of the plugin, in the order of the plan."""
    plan = Plan(wrap=["bridge"], settings={"logFormat": "json", "redact": ["\u00e4"]})
    spliced = splice(conflist("bridge"), plan).decode()
    assert '"capture": {"type": "bridge", "logFormat": "json", "redact": ["\\u00e4"]}}' in spliced


@pytest.mark.parametrize("text", ['{"name":"x","type":"bridge"}', '\n { "type" : "bridge","name":"x"}\r\n\t'])
def test_a_single_plugin_that_is_wrapped_stays_single(text: str) -> None:
    """A wrap needs no list; the white space around it stays."""
    data = text.encode()
    spliced = splice(data, Plan(wrap_all=True))
    assert text.replace('"bridge"', '"capture-wrap"') == spliced.decode().replace(_capture(spliced), "")
    assert (data, False) == unsplice(spliced)
    assert splice(data, PLAIN) == splice(spliced, PLAIN)


def _capture(data: bytes) -> str:
    """The member `capture` of a single plugin, as it stands there, with the comma and the white space of its place."""
    text = data.decode()
    first = text.index('"capture"')
    last = text.index("}", first) + 1
    return text[first : last + 1] if text[last] == "," else text[text[:first].rindex(",") : last]


def test_a_list_that_was_made_of_a_single_plugin_stays_one_while_it_is_wrapped() -> None:
    """And is the single plugin's configuration again without us."""
    data = b'{"name":"x","type":"bridge"}'
    rewrapped = splice(splice(data, PLAIN), Plan(wrap_all=True))
    assert ["capture-wrap"] == types(rewrapped)
    assert (data, True) == unsplice(rewrapped)


def test_wraps_made_by_hand_are_replaced_and_taken_out() -> None:
    """Wherever `capture` stands, whatever it says besides, and with pairs around them."""
    by_hand = (
        b'{"plugins":[{"type":"capture-pre"},{"capture":{"label":"x","type":"a"},"k":1,"type":"capture-wrap",'
        b'"ipam":{"type":"capture-wrap" , "capture":{"type":"b"}}},{"type":"capture-post"}]}'
    )
    plain = b'{"plugins":[{"k":1,"type":"a","ipam":{"type":"b" }}]}'
    assert (plain, False) == unsplice(by_hand)
    assert splice(plain, WHOLE) == splice(by_hand, WHOLE)
    assert splice(plain, PLAIN) == splice(by_hand, PLAIN)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"type":"capture-wrap"}', ': no object "capture" that names the plugin to stand in for'),
        ('{"type":"capture-wrap","capture":{}}', ': "capture" has no "type" of a plugin to stand in for'),
        ('{"Type":"capture-wrap","capture":{"type":"a"}}', ': "Type" in it, and not "type"'),
        ('{"type":"a","ipam":{"type":"capture-wrap"}}', ': no object "capture" that names the plugin to stand in for'),
        ('{"type":"a","IPAM":{"type":"capture-wrap","capture":{"type":"b"}}}', ': "IPAM" in it, and not "ipam"'),
    ],
)
def test_a_wrap_that_names_no_plugin_cannot_be_taken_out(entry: str, message: str) -> None:
    """It is for a person to say what it was."""
    data = f'{{"plugins": [{{"type": "a"}}, {entry}]}}'.encode()
    for work in (lambda: unsplice(data, "x"), lambda: splice(data, PLAIN, "x"), lambda: splice(data, WHOLE, "x")):
        with pytest.raises(UserError) as caught:
            work()
        assert (f"x, plugin 2{message}", True) == (caught.value.message, bool(caught.value.hint))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"type":"a","capture":1}', 'x, plugin 1: it has a key "capture" of its own'),
        ('{"type":"a","ipam":{"type":"b","captur\\u0065":1}}', 'x, plugin 1, ipam: it has a key "capture" of its own'),
        ('{"Type":"a"}', 'x, plugin 1: "Type" in it, and not "type"'),
        ('{"type":"a","TYPE":"a"}', 'x, plugin 1: "TYPE" in it, and not "type"'),
        ('{"type":"a","ipam":{"TYPE":"b"}}', 'x, plugin 1, ipam: "TYPE" in it, and not "type"'),
        ('{"type":"a","Ipam":{"type":"b"}}', 'x, plugin 1: "Ipam" in it, and not "ipam"'),
    ],
)
def test_an_entry_that_leaves_no_room_for_a_wrap_is_refused(entry: str, message: str) -> None:
    """Our key is taken, or capture-wrap would look for its own type in vain."""
    with pytest.raises(UserError) as caught:
        splice(f'{{"plugins": [{entry}, {json.dumps({"type": "b", **IPAM})}]}}'.encode(), WHOLE, "x")
    assert (message, True) == (caught.value.message, bool(caught.value.hint))


@pytest.mark.parametrize(
    ("plan", "message", "hint"),
    [
        (Plan(wrap=["c"]), "x: no plugin of type c", "its plugins are: bridge, portmap"),
        (Plan(wrap=["bridge", "c"]), "x: no plugin of type c", "its plugins are: bridge, portmap"),
        (
            Plan(wrap=["host-local"]),
            "x: no plugin of type host-local",
            "host-local is the IPAM plugin of bridge: --ipam wraps it",
        ),
        (Plan(wrap=["portmap"], ipam=True), "x: no IPAM plugin of portmap", "only bridge calls one"),
    ],
)
def test_a_plan_must_find_what_it_names(plan: Plan, message: str, hint: str) -> None:
    """Else it is said what there is."""
    data = json.dumps({"plugins": [{"type": "bridge", **IPAM}, {"type": "portmap"}]}).encode()
    with pytest.raises(UserError) as caught:
        splice(data, plan, "x")
    assert (message, hint) == (caught.value.message, caught.value.hint)


def test_ipam_must_be_somewhere() -> None:
    """A chain without any IPAM plugin has none to be wrapped."""
    for ipam in ({}, {"type": ""}, None, "host-local"):
        with pytest.raises(UserError) as caught:
            splice(conflist("bridge", ipam=ipam), Plan(ipam=True), "x")
        expected = ("x: no IPAM plugin of bridge", "without --ipam the plugins can be wrapped")
        assert expected == (caught.value.message, caught.value.hint)


def test_what_has_no_plugin_is_left_to_a_person() -> None:
    """Nothing but probes in it: there is nothing to put anything around."""
    with pytest.raises(UserError, match="x: nothing but probes in it"):
        splice(b'{"plugins": [{"type": "capture-pre"}]}', PLAIN, "x")


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


def _plugin(
    blanks: Sequence[str], values: Sequence[str], kind: str, key: str, overruled: bool, capable: bool, ipam: str
) -> str:
    """An entry in any layout, with members that nobody knows, a `type` that stands twice or is spelled in escapes."""
    colon = f"{blanks[0]}:{blanks[1]}"
    members = [f'"k{number}"{colon}{value}' for number, value in enumerate(values)]
    members += [f'"type"{colon}"overruled"'] * overruled + [f'"{key}"{colon}"{kind}"']
    members += ['"capabilities": {"mac": true, "ips": false}'] * capable
    members += [f'"ipam"{colon}{ipam}'] if ipam else []
    return _object(blanks, members)


FOUR_BLANKS = st.tuples(BLANKS, BLANKS, BLANKS, BLANKS)
SOME_VALUES = st.lists(VALUES, max_size=2)
KEYS = st.sampled_from(["type", "ty\\u0070e"])
IPAMS = st.builds(_plugin, FOUR_BLANKS, SOME_VALUES, TYPES, KEYS, st.booleans(), st.booleans(), st.just(""))
PLUGINS = st.builds(
    _plugin,
    FOUR_BLANKS,
    SOME_VALUES,
    TYPES,
    KEYS,
    st.booleans(),
    st.booleans(),
    st.one_of(st.sampled_from(["", "{}", "null"]), IPAMS),
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
    """Any plan that the conflist has plugins for."""
    plugins = chain(data)
    names = [plugin.type for plugin in plugins]
    keys = {"label": draw(st.sampled_from(["", "\u00e4", "]},{"]))} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        around = draw(st.sampled_from([*(name for name in names if names.count(name) == 1), ""]))
        return Plan(around, not around and draw(st.booleans()), settings=keys)
    wrap = draw(st.lists(st.sampled_from(names), unique=True))
    has_ipam = any(plugin.ipam_type for plugin in plugins if not wrap or plugin.type in wrap)
    ipam = has_ipam and draw(st.booleans())
    return Plan(wrap=wrap, wrap_all=not wrap and (not ipam or draw(st.booleans())), ipam=ipam, settings=keys)


class Pairs(list[tuple[str, Any]]):
    """An object, with the members that stand twice."""


def _unwrapped(entry: Pairs) -> Pairs:
    """An entry without the wraps in it, done on the decoded JSON."""
    members = [(key, _unwrapped(value) if key == "ipam" and value else value) for key, value in entry]
    last = max((at for at, (key, _) in enumerate(members) if key == "type"), default=-1)
    if last >= 0 and members[last][1] == "capture-wrap":
        key, capture = members.pop(last + 1)
        assert "capture" == key
        members[last] = ("type", dict(capture)["type"])
    return Pairs(members)


def _without_ours(data: bytes) -> list[tuple[str, Any]]:
    ours = ("capture-pre", "capture-post")
    members = json.loads(data, object_pairs_hook=Pairs)
    return [
        (
            key,
            [_unwrapped(plugin) for plugin in value if dict(plugin)["type"] not in ours] if key == "plugins" else value,
        )
        for key, value in members
    ]


def _handed_on(plugin: Plugin) -> str:
    """What the real plugin gets of an entry, as capture-wrap itself sees to it, and its IPAM plugin of that."""
    config = plugin.config
    for _ in range((plugin.type == "capture-wrap") + (plugin.ipam_type == "capture-wrap")):
        config = read_config(read_stand_in(config).config.encode())
    return config.text


@given(data=st.data())
@settings(max_examples=1000, deadline=None)
def test_splice_then_unsplice_is_the_identity(data: st.DataObject) -> None:
    """A thousand conflists: the bytes come back, in between only ours was new, and each plugin gets what it got."""
    before = data.draw(CONFLISTS)
    plan = data.draw(plans(before))
    spliced = splice(before, plan)
    assert (before, False) == unsplice(spliced)
    assert json.loads(before, object_pairs_hook=Pairs) == _without_ours(spliced)
    entries = [plugin for plugin in chain(spliced) if not plugin.is_probe]
    assert [plugin.config.text for plugin in chain(before)] == [_handed_on(plugin) for plugin in entries]
    assert spliced == splice(spliced, plan)
    assert splice(before, PLAIN) == splice(spliced, PLAIN)


@given(data=st.data(), text=PLUGINS, blanks=st.tuples(BLANKS, BLANKS))
@settings(max_examples=300, deadline=None)
def test_any_single_plugin_comes_back(data: st.DataObject, text: str, blanks: tuple[str, str]) -> None:
    """The white space around it as well; as a list where it was a pair's, as itself where it was wrapped."""
    before = f"{blanks[0]}{text}{blanks[1]}".encode()
    plan = data.draw(plans(before))
    spliced = splice(before, plan)
    assert (before, not plan.wraps) == unsplice(spliced)
    assert spliced == splice(spliced, plan)
