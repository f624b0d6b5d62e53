"""Every member of a JSON text is found at any depth, with its exact place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cni_capture import walk
from tests import jsontext


def members(text: str) -> list[tuple[int, str, int, int]]:
    """All members; nothing is dull."""
    return list(walk.members(text, lambda depth, piece: False))


class Pairs(list[tuple[str, Any]]):
    """An object, decoded with the keys that stand twice."""


def _recursively(value: object, depth: int) -> list[tuple[int, str, object]]:
    """The members of a decoded text, each when its value ends: what a parser with a stack would say."""
    found = []
    if isinstance(value, Pairs):
        for key, inner in value:
            found += [*_recursively(inner, depth + 1), (depth + 1, key, inner)]
    elif isinstance(value, list):
        for inner in value:
            found += _recursively(inner, depth + 1)
    return found


@given(text=jsontext.objects)
@settings(max_examples=200, deadline=None)
def test_a_walk_finds_the_members_that_a_parser_finds_each_at_its_place(text: str) -> None:
    """Depth, key, value and order are those of the standard library's parser, objects in arrays included."""
    found = [(depth, key, json.loads(text[a:b], object_pairs_hook=Pairs)) for depth, key, a, b in members(text)]
    assert _recursively(json.loads(text, object_pairs_hook=Pairs), 0) == found


@given(text=jsontext.objects, depth=st.integers(0, 3), piece=st.integers(2, 40))
@example(text='{"a":[1,[2,{"b":3}],"],",{"b":[4,5]}],"b":"},","c":{}}', depth=1, piece=9)
@settings(max_examples=200, deadline=None)
def test_what_is_dull_is_left_out_and_all_else_is_found(text: str, depth: int, piece: int) -> None:
    """Skipping the dull in pieces of any size loses no member that is not dull."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_PIECE", piece)
        found = list(walk.members(text, lambda here, _: here > depth))
    assert [member for member in members(text) if member[0] <= depth] == [m for m in found if m[0] <= depth]


@given(text=jsontext.objects)
@settings(max_examples=100, deadline=None)
def test_an_outline_is_the_places_of_the_top_level_values(text: str) -> None:
    """Of a key that stands twice it is the last."""
    assert {key: (start, end) for depth, key, start, end in members(text) if depth == 1} == walk.outline(text)


def test_places_are_exact() -> None:
    """A member is the text of its value, without the white space around it."""
    text = ' {"a" : [ {"b":1 } , 2 ] ,\n"c":{} }\n'
    expected = [(3, "b", "1"), (1, "a", '[ {"b":1 } , 2 ]'), (1, "c", "{}")]
    assert expected == [(depth, key, text[start:end]) for depth, key, start, end in members(text)]


def test_no_depth_is_too_deep() -> None:
    """A hundred thousand levels are walked without recursion."""
    depth = 100_000
    text = '{"a":' * depth + "1" + "}" * depth
    assert list(range(depth, 0, -1)) == [member[0] for member in members(text)]


@given(text=st.text('{}[]",:\\ 0-1a', max_size=20), piece=st.integers(2, 40))
@settings(max_examples=300, deadline=None)
def test_what_is_no_object_is_refused(text: str, piece: int) -> None:
    """A walk ends well exactly where the text is one JSON object, whether all of it is dull or nothing."""
    try:
        expected = isinstance(json.loads(text), dict)
    except ValueError:
        expected = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_PIECE", piece)
        assert [expected] * 2 == [_is_walked(text, dull) for dull in (True, False)]


def _is_walked(text: str, dull: bool) -> bool:
    try:
        list(walk.members(text, lambda depth, piece: dull))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "'{' expected at character 0"),
        ('{"a": [1 2]}', "',' or ']' expected at character 9"),
        ('{"a": {"b": }}', "value expected at character 12"),
        ('{"a": [1}', "',' or ']' expected at character 8"),
        ('{"a": {1: 2}}', "key expected at character 7"),
        ('{"a": {"b"}}', "':' expected at character 10"),
        ("{}}", "more text after the object, at character 2"),
        ("{", "key expected at character 1"),
    ],
)
def test_a_refusal_says_where(text: str, message: str) -> None:
    """The first thing that is not JSON is named with its place."""
    with pytest.raises(ValueError, match=r".") as caught:
        members(text)
    assert message == str(caught.value)
