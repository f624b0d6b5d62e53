"""What the real plugin gets: byte for byte what the runtime would have sent it, had nothing stood in for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni_capture.call import CNIError, read_config
from cni_capture.standin import read_stand_in, settings_of
from tests import jsontext
from tests.wrap.plugins import compact

KEYS = st.text(max_size=8).filter(lambda key: key not in ("type", "capture", "ipam"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
SETTINGS = {"type": "bridge", "label": "x", "logOptions": {"maxSize": 1}}


def stand_in(text: str | bytes) -> tuple[str, str, str]:
    """The plugin, its configuration and our settings."""
    found = read_stand_in(read_config(text.encode() if isinstance(text, str) else text))
    return found.type, found.config, found.settings.text


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_plugin_gets_what_libcni_would_have_sent_it(others: dict[str, Any]) -> None:
    """Of libcni's sorted and compact JSON just our key is missing, and the type is the plugin's own."""
    wrapped = compact({**others, "type": "capture-wrap", "capture": SETTINGS})
    config = compact({**others, "type": "bridge"}).decode()
    assert ("bridge", config, json.dumps(SETTINGS, sort_keys=True, separators=(",", ":"))) == stand_in(wrapped)


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.dictionaries(KEYS, VALUES, max_size=5))
def test_an_ipam_plugin_gets_what_its_caller_would_have_sent_it(
    others: dict[str, Any], ipam_others: dict[str, Any]
) -> None:
    """The whole entry of the caller, with its own type; only within `ipam` is anything put right."""
    ipam = {**ipam_others, "type": "capture-wrap", "capture": {"type": "host-local"}}
    wrapped = compact({**others, "type": "bridge", "ipam": ipam})
    config = compact({**others, "type": "bridge", "ipam": {**ipam_others, "type": "host-local"}}).decode()
    assert ("host-local", config, '{"type":"host-local"}') == stand_in(wrapped)


def test_a_wrapped_ipam_plugin_of_a_wrapped_plugin_is_not_touched_yet() -> None:
    """The outer stand-in puts right what is its own; the inner one is called by the real plugin."""
    ipam = {"type": "capture-wrap", "capture": {"type": "host-local"}}
    outer = compact({"type": "capture-wrap", "capture": {"type": "bridge"}, "ipam": ipam})
    inner = compact({"type": "bridge", "ipam": ipam}).decode()
    assert ("bridge", inner, '{"type":"bridge"}') == stand_in(outer)
    expected = '{"ipam":{"type":"host-local"},"type":"bridge"}'
    assert ("host-local", expected, '{"type":"host-local"}') == stand_in(inner)


@given(jsontext.objects, jsontext.BLANKS, jsontext.BLANKS, st.permutations(["type", "capture", "others"]))
def test_nothing_else_in_the_entry_is_touched(value: str, one: str, two: str, order: list[str]) -> None:
    """Written by hand, in any order, with any blanks: numbers, escapes and blanks elsewhere stay as they are."""
    members = {
        "type": f'"type"{one}:{two}"capture-wrap"',
        "capture": f'"capture"{two}:{one}{{"type":"br\\u0069dge"}}',
        "others": f'"a"{one}:{value}{two},"b":1e0',
    }
    plugin, config, _ = stand_in("{" + f"{one},{two}".join(members[name] for name in order) + "}")
    kept = [members[name].replace('"capture-wrap"', '"br\\u0069dge"') for name in order if name != "capture"]
    assert ("bridge", json.loads("{" + ",".join(kept) + "}")) == (plugin, json.loads(config))
    assert all(member in config for member in kept)


@pytest.mark.parametrize(
    ("wrapped", "expected"),
    [
        ('{"capture":{"type":"x"},"type":"capture-wrap"}', '{"type":"x"}'),
        ('{"type":"capture-wrap","capture":{"type":"x"}}', '{"type":"x"}'),
        ('{"type": "capture-wrap" ,\n "capture" : {"type": "x"}\n}', '{"type": "x" \n}'),
        ('{ "capture" : {"type": "x"} ,\n "type": "capture-wrap"}', '{ "type": "x"}'),
        ('{"a":{"capture":1},"captur\\u0065":{"type":"x"},"type":"capture-wrap"}', '{"a":{"capture":1},"type":"x"}'),
    ],
)
def test_our_key_goes_with_one_comma(wrapped: str, expected: str) -> None:
    """First, last, in the middle, however it is spelled."""
    assert expected == stand_in(wrapped)[1]


HINT = 'hint: to stand in for a bridge, {"type": "capture-wrap", "capture": {"type": "bridge"}, ...}'
MISTAKES = [
    ('{"type":"capture-wrap"}', 'no object "capture" that names the plugin to stand in for'),
    ('{"type":"capture-wrap","capture":null}', 'no object "capture" that names the plugin to stand in for'),
    ('{"type":"capture-wrap","capture":"bridge"}', 'no object "capture" that names the plugin to stand in for'),
    ('{"type":"capture-wrap","capture":{}}', '"capture" has no "type" of a plugin to stand in for'),
    ('{"type":"capture-wrap","capture":{"type":""}}', '"capture" has no "type" of a plugin to stand in for'),
    ('{"type":"capture-wrap","capture":{"type":7}}', '"capture" has no "type" of a plugin to stand in for'),
    (
        '{"type":"capture-wrap","capture":{"type":"capture-wrap"}}',
        '"capture" has no "type" of a plugin to stand in for',
    ),
    ('{"ipam":{"type":"capture-wrap"}}', 'no object "capture" that names the plugin to stand in for'),
    ('{"type":"bridge","ipam":[]}', "neither the type of the plugin nor that of its ipam is capture-wrap"),
    ("{}", "neither the type of the plugin nor that of its ipam is capture-wrap"),
]


@pytest.mark.parametrize(("config", "msg"), MISTAKES)
def test_a_mistake_in_the_entry_is_a_cni_error_with_a_hint(config: str, msg: str) -> None:
    """Code 7, what is wrong, and in the details what would be right."""
    with pytest.raises(CNIError) as caught:
        stand_in(config)
    assert (7, msg, HINT) == (caught.value.code, caught.value.msg, caught.value.details)


def test_settings_are_found_where_no_plugin_is() -> None:
    """So that the mistake gets into the log that was meant."""
    found = [
        settings_of(read_config(text))
        for text in (b'{"capture":{"label":"x"}}', b'{"ipam":{"capture":{"label":"y"}}}', b'{"ipam":1}', b"{}")
    ]
    assert ['{"label":"x"}', '{"label":"y"}', None, None] == [each.text if each else None for each in found]
