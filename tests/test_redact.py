"""Credentials stay out of the log, and only out of the log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cni_capture.redact import cut, redact
from tests.node import Answer, Node

REDACTED = '"[redacted]"'
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["password", "PassWord", "Token", "name", "passwords"]), inner, max_size=3),
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password": "x", "name": "y"}', f'{{"password": {REDACTED}, "name": "y"}}'),
        ('{ "a" : [ { "Password" : 17.0e1 } ] }', f'{{ "a" : [ {{ "Password" : {REDACTED} }} ] }}'),
        (r'{"pass\u0077ord":{"a":["deep"]}}', rf'{{"pass\u0077ord":{REDACTED}}}'),
        ('{"password":{"password":1},"password":null}', f'{{"password":{REDACTED},"password":{REDACTED}}}'),
        (r'{"a":1,"pass\u0077ord":2,"b":3}', rf'{{"a":1,"pass\u0077ord":{REDACTED},"b":3}}'),
        ('{"passwords": 1, "a": "password"}', '{"passwords": 1, "a": "password"}'),
    ],
)
def test_the_value_of_a_named_key_is_replaced_and_nothing_else(text: str, expected: str) -> None:
    """Any depth, type, case and spelling of the key; every other character stays."""
    assert expected == redact(text, ("password",))[0]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        names = ("password", "token")
        return {key: "[redacted]" if key.casefold() in names else _without(inner) for key, inner in value.items()}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


@given(document=st.dictionaries(st.text(max_size=3), DOCUMENTS, max_size=3))
@settings(max_examples=150, deadline=None)
def test_no_secret_at_any_depth_is_left(document: dict[str, Any]) -> None:
    """What is left of any document is the document with the values of those keys replaced."""
    assert _without(document) == json.loads(redact(json.dumps(document), ("password", "token"))[0])


def test_what_is_no_json_is_cut_at_the_first_name() -> None:
    """Where nobody can say where a value ends, nothing behind the name is kept."""
    assert (b'{"a": "TOKEN[redacted]', ["token"]) == cut(b'{"a": "TOKEN": "x", "psk": 1', ("psk", "token"))
    assert (b'{"a": 1', []) == cut(b'{"a": 1', ("psk", "token"))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_has_no_secret_and_the_runtime_has_it_still(node: Node, log_format: str) -> None:
    """The record names what was taken out of it; the reply is prevResult as it came."""
    result = '{"token": "s3cr\\u0065t", "ips": []}'
    stdin = f'{{"K8S_AUTH_TOKEN": "s3cret", "prevResult": {result}, "logFormat": "{log_format}"}}'.encode()
    call = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}
    assert [Answer(0, result.encode())] * 2 == [
        node.call(probe, call, stdin) for probe in ("capture-pre", "capture-post")
    ]
    assert [
        (
            f'{{"K8S_AUTH_TOKEN": {REDACTED}, "prevResult": {{"token": {REDACTED}, "ips": []}}, '
            f'"logFormat": "{log_format}"}}'.encode(),
            ["K8S_AUTH_TOKEN", "token"],
        ),
        (f'{{"token": {REDACTED}, "ips": []}}'.encode(), ["token"]),
    ] == [(record.body, record.facts["redacted"]) for record in node.records()]


def test_a_wrong_call_leaves_no_secret_either(node: Node) -> None:
    """A configuration that is cut off in the middle is kept up to the first key that is a secret's."""
    node.call("capture-pre", {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}, b'{"name": "n", "password": "s3cr')
    assert [(b'{"name": "n", "password[redacted]', ["password"])] == [
        (record.body, record.facts["redacted"]) for record in node.records()
    ]


def test_a_key_that_is_spelled_with_escapes_is_found_in_the_log(node: Node) -> None:
    """JSON has more than one way to write a name."""
    node.call("capture-pre", {"CNI_COMMAND": "GC"}, rb'{"p\u0061ssword": "s3cret"}')
    assert [rb'{"p\u0061ssword": "[redacted]"}'] == [record.body for record in node.records()]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('["Zone"]', f'"password":{REDACTED},"zone":{REDACTED}'),
        ("[]", f'"password":{REDACTED},"zone":2'),
        ("false", '"password":1,"zone":2'),
    ],
)
def test_names_are_added_to_the_usual_ones_and_false_is_none(node: Node, setting: str, expected: str) -> None:
    """`redact` in the entry: a list adds to the usual names, false takes out nothing."""
    node.call("capture-pre", {"CNI_COMMAND": "GC"}, f'{{"password":1,"zone":2,"redact":{setting}}}'.encode())
    assert [f'{{{expected},"redact":{setting}}}'.encode()] == [record.body for record in node.records()]
