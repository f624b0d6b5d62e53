"""Results that break the CNI specification of their version get a warning that names the rule and its section."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cni_capture.story.lint import SHAPES, lint, schema
from tests.show.stories import result

OLD = 'spec 0.3.1, section "Result"'
NEW = 'spec 1.0.0, section 5, "Success"'


def warnings(value: Any, version: str = "1.0.0") -> list[str]:
    return list(lint(json.dumps(value).encode(), version))


def old(**ip: Any) -> dict[str, Any]:
    return {"cniVersion": "0.3.1", "ips": [{"version": "4", "address": "10.1.0.7/24", **ip}]}


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("1.0.0", result()),
        ("1.1.0", {**result(), "cniVersion": "1.1.0", "routes": [{"dst": "::/0", "mtu": 1400, "table": 7}]}),
        ("0.3.1", old(gateway="10.1.0.1")),
        ("0.2.0", {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.7/24"}, "ip6": {"ip": "fd00::7/64"}}),
        ("1.0.0", {"cniVersion": "1.0.0"}),
        ("1.0.0", {"cniVersion": "1.0.0", "ips": None, "unknown": {"key": 1}}),
        ("9.0.0", {"cniVersion": "9.0.0", "ips": "of the future"}),
    ],
)
def test_a_good_result_has_no_warning(version: str, value: Any) -> None:
    """Of any version; unknown keys are allowed, and Go reads null as nothing."""
    assert [] == warnings(value, version)


@pytest.mark.parametrize(
    ("expected", "version", "value"),
    [
        ([f"a result says its cniVersion ({NEW})"], "1.0.0", {"ips": []}),
        (
            [f"a result has the cniVersion of the configuration, 0.3.1 (at cniVersion; {OLD})"],
            "0.3.1",
            {"cniVersion": "1.0.0"},
        ),
        (
            [f"`interface` is an index into `interfaces`, and 1 is out of range (at ips[0].interface; {NEW})"],
            "1.0.0",
            result(interfaces=[{"name": "eth0"}]),
        ),
        (
            [f"`interface` is an index into `interfaces`, from 0 (at ips[0].interface; {NEW})"],
            "1.0.0",
            result(ips=[{"address": "10.1.0.7/24", "interface": -1}]),
        ),
        ([f"an address has a prefix length (CIDR notation) (at ips[0].address; {NEW})"], "1.0.0", result("10.1.0.7")),
        (
            [f"10.1.0.7/33 is not an IP address with its prefix length (at ips[0].address; {NEW})"],
            "1.0.0",
            result("10.1.0.7/33"),
        ),
        (
            [f"an address has no `version` since 1.0.0 (at ips[0].version; {NEW})"],
            "1.0.0",
            result(ips=[{"address": "10.1.0.7/24", "version": "4"}]),
        ),
        ([f'an address says its `version`, "4" or "6" (at ips[0].version; {OLD})'], "0.3.1", old(version="5")),
        (
            [f'an address says its `version`, "4" or "6" (at ips[0]; {OLD})'],
            "0.3.1",
            {"cniVersion": "0.3.1", "ips": [{"address": "10.1.0.7/24"}]},
        ),
        ([f"`version` 6 is not that of the address (at ips[0].version; {OLD})"], "0.3.1", old(version="6")),
        (
            [f"a gateway is an IP address without prefix length (at ips[0].gateway; {OLD})"],
            "0.3.1",
            old(gateway="10.1.0.1/24"),
        ),
        (
            [f"an interface has a name (at interfaces[0]; {NEW})"],
            "1.0.0",
            result(interfaces=[{"mac": "02:00"}], ips=[]),
        ),
        (
            [f"an address has a prefix length (CIDR notation) (at routes[0].dst; {NEW})"],
            "1.0.0",
            result(routes=[{"dst": "default"}]),
        ),
        (
            ['an address has a prefix length (CIDR notation) (at ip4.ip; spec 0.2.0, section "Result")'],
            "0.2.0",
            {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.7"}},
        ),
        (
            [f"{{}} is not of type 'array' (at ips; {NEW})", f"5 is not of type 'array' (at routes; {NEW})"],
            "1.0.0",
            result(ips={}, routes=5),
        ),
    ],
)
def test_each_rule_has_its_warning(expected: list[str], version: str, value: Any) -> None:
    """The rule, where in the result, and where in the specification."""
    assert expected == warnings(value, version)


def test_what_is_no_object_is_not_judged() -> None:
    """The verdict is another's to give."""
    assert [[], [], []] == [list(lint(raw, "1.0.0")) for raw in (b"[]", b'"text"', b"[" * 50_000)]


ITEM_KEYS = st.sampled_from(["version", "address", "interface", "name", "dst", "gw", "ip"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["4", "10.1.0.7/24", "10.1.0.7", "eth0", ""]),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(
            st.sampled_from(["version", "address", "interface", "name", "dst", "gw", "ip"]), children, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["interfaces", "ips", "routes", "dns", "ip4", "ip6", "sandbox"])


@given(st.sampled_from(sorted(SHAPES)), st.dictionaries(KEYS, VALUES, max_size=3))
def test_the_quick_look_and_the_schema_are_of_one_mind(version: str, value: dict[str, Any]) -> None:
    """What the types let pass the JSON Schema made of them lets pass, and what they refuse it has a reason for."""
    value = {"cniVersion": version, **value}
    try:
        msgspec.convert(value, SHAPES[version])
    except msgspec.ValidationError:
        assert not Draft202012Validator(schema(version)).is_valid(value)
        assert warnings(value, version)
    else:
        assert Draft202012Validator(schema(version)).is_valid(value)


@pytest.mark.parametrize("version", sorted(SHAPES))
def test_every_schema_is_one(version: str) -> None:
    """The schema of each version is valid JSON Schema."""
    Draft202012Validator.check_schema(schema(version))
