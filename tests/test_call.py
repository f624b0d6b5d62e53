"""A CNI call is read leniently from environment and stdin, and what is wrong with it is said in the spec's terms."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cni_capture.call import CNIError, read_config, read_verb
from tests import jsontext

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")


def _error_of_verb(environ: dict[str, str]) -> tuple[int, str, str]:
    with pytest.raises(CNIError) as caught:
        read_verb(environ)
    return caught.value.code, caught.value.msg, caught.value.details


def _error_of_config(stdin: bytes) -> tuple[int, str, str]:
    with pytest.raises(CNIError) as caught:
        read_config(stdin)
    return caught.value.code, caught.value.msg, caught.value.details


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_known_and_needs_no_more_than_a_container(verb: str) -> None:
    """No variable but CNI_COMMAND, and for an attachment CNI_CONTAINERID, is asked for."""
    assert verb == read_verb({"CNI_COMMAND": verb, "CNI_CONTAINERID": "x"})


@pytest.mark.parametrize("verb", ["GC", "STATUS", "VERSION"])
def test_what_is_about_no_attachment_needs_no_container(verb: str) -> None:
    """GC, STATUS and VERSION pass without a container."""
    assert verb == read_verb({"CNI_COMMAND": verb})


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "required env variables [CNI_COMMAND] missing"),
        ({"CNI_COMMAND": ""}, "required env variables [CNI_COMMAND] missing"),
        ({"CNI_COMMAND": "ADD"}, "required env variables [CNI_CONTAINERID] missing"),
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": ""}, "required env variables [CNI_CONTAINERID] missing"),
        ({"CNI_COMMAND": "CHECK"}, "required env variables [CNI_CONTAINERID] missing"),
        ({"CNI_COMMAND": "add", "CNI_CONTAINERID": "x"}, "unknown CNI_COMMAND: add"),
        ({"CNI_COMMAND": "UPDATE"}, "unknown CNI_COMMAND: UPDATE"),
    ],
)
def test_a_bad_environment_is_error_4(environ: dict[str, str], message: str) -> None:
    """No or unknown CNI_COMMAND, and no container for an attachment, is the spec's code 4 in the skeleton's words."""
    assert (4, message, "") == _error_of_verb(environ)


@pytest.mark.parametrize(
    ("stdin", "details"),
    [
        (b"", "'{' expected at character 0"),
        (b" \n", "'{' expected at character 2"),
        (b"[]", "'{' expected at character 0"),
        (b"null", "'{' expected at character 0"),
        (b"\xef\xbb\xbf{}", "'{' expected at character 0"),
        (b"{", "key expected at character 1"),
        (b"{'a': 1}", "key expected at character 1"),
        (b'{"a" 1}', "':' expected at character 5"),
        (b'{"a": }', "value expected at character 6"),
        (b'{"a": 1,}', "key expected at character 8"),
        (b'{"a": 01}', "',' or '}' expected at character 7"),
        (b'{"a": 1 "b": 2}', "',' or '}' expected at character 8"),
        (b'{"a": 1', "',' or '}' expected at character 7"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": [-Infinity]}', "-Infinity is not JSON"),
        (b'{"a": "\n"}', "Invalid control character at: line 1 column 8 (char 7)"),
        (b"{} {}", "more text after the object, at character 3"),
        (b'{"a": "\\x"}', "Invalid \\escape: line 1 column 8 (char 7)"),
    ],
)
def test_what_is_not_one_json_object_is_error_6(stdin: bytes, details: str) -> None:
    """Code 6 with details that say where the reading stopped."""
    assert (6, "network configuration is not a JSON object", details) == _error_of_config(stdin)


def test_what_is_not_utf_8_is_error_6() -> None:
    """JSON is UTF-8 and nothing else."""
    details = "'utf-8' codec can't decode byte 0xff in position 6: invalid start byte"
    assert (6, "network configuration is not UTF-8", details) == _error_of_config(b'{"a":"\xff"}')


@given(
    members=st.lists(st.tuples(jsontext.strings, jsontext.BLANKS, jsontext.values), max_size=4), after=jsontext.BLANKS
)
@settings(max_examples=200, deadline=None)
def test_every_top_level_value_is_had_back_exactly_as_it_was_spelled(
    members: list[tuple[str, str, str]], after: str
) -> None:
    """White space, numbers of any size, escapes, keys that stand twice: of each key the last, to the character."""
    text = after + "{" + ",".join(f"{b}{key}{b}:{b}{value}{b}" for key, b, value in members) + "}" + after
    config = read_config(text.encode())
    expected = {json.loads(key): value for key, _, value in members}
    assert expected == {key: config.raw(key) for key in config.spans}


@given(text=st.one_of(jsontext.objects, st.text('{}[]",:\\ \n0-1eE.atrueflsn"', max_size=20)))
@example(text="{" * 20)
@settings(max_examples=300, deadline=None)
def test_the_same_texts_are_json_as_for_the_standard_library(text: str) -> None:
    """What json.loads takes for an object is a configuration, and nothing else is."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        expected = set(value) if isinstance(value, dict) else None
    except ValueError:
        expected = None
    try:
        found = set(read_config(text.encode()).spans)
    except CNIError:
        found = None
    assert expected == found


def _refuse(name: str) -> Any:
    raise ValueError(name)


def test_a_value_is_decoded_and_null_is_as_good_as_absent() -> None:
    """Settings are read with value(): null is None, and what Python cannot hold is bytes, which no setting takes."""
    digits, nested = "9" * 5000, "[" * 100_000 + "]" * 100_000
    text = f'{{"a": null, "b": [1, {{"c": 2.5}}], "d": {digits}, "e": {nested}, "f": "\\u00e9"}}'
    config = read_config(text.encode())
    assert [None, None, [1, {"c": 2.5}], digits.encode(), nested.encode(), "é"] == [
        config.value(key) for key in ("a", "x", *"bdef")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cniVersion": "0.4.0"}', '"0.4.0"'),
        ('{"cniVersion": "9.9.9-beta"}', '"9.9.9-beta"'),
        ("{}", '"0.1.0"'),
        ('{"cniVersion": null}', '"0.1.0"'),
        ('{"cniVersion": ""}', '"0.1.0"'),
        ('{"cniVersion": 1}', '"0.1.0"'),
    ],
)
def test_the_version_of_a_configuration_is_what_it_says_or_the_first(text: str, expected: str) -> None:
    """A version of the future passes as it is; none, or none that can be one, is 0.1.0."""
    assert expected == read_config(text.encode()).cni_version


def test_the_undocumented_c_scanner_is_not_needed() -> None:
    """Without the module _json the same configurations are read, the same are refused, and deep ones are read too."""
    script = r"""
import sys
sys.modules["_json"] = None
from cni_capture.call import CNIError, quote, read_config
deep = '{"a": ' + "[" * 5000 + "]" * 5000 + "}"
for text in ['{"a": 1e400, "b" : [1, {"c": "\\u00e9"}], "a": -0.0 }', '{"a": NaN}', '{"a": }', deep]:
    try:
        config = read_config(text.encode())
        print(len(text) if text is deep else config.text, config.raw("a")[:4], config.value("b"))
    except CNIError as error:
        print(error.code, error.details)
print(quote("\x1b\u00e9\udc80"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
    expected = r"""
{"a": 1e400, "b" : [1, {"c": "\u00e9"}], "a": -0.0 } -0.0 [1, {'c': 'é'}]
6 NaN is not JSON
6 value expected at character 6
10007 [[[[ None
"\u001b\u00e9\udc80"
"""
    assert (expected.lstrip(), "") == (done.stdout, done.stderr)
