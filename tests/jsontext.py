"""JSON as text, in every spelling that the grammar allows (RFC 8259), for tests that count bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

BLANKS = st.text(" \t\r\n", max_size=2)
_DIGITS = st.integers(min_value=0).map(str)
_ESCAPES = ["\\n", "\\/", "\\u003c", "\\uD83D\\uDE00", "\\ud800", '\\"', "\\\\", "é", "\x7f", "\u2028", " "]


def _joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


numbers = _joined(
    st.sampled_from(["", "-"]),
    _DIGITS,
    st.one_of(st.just(""), _DIGITS.map(".".__add__)),
    st.one_of(st.just(""), _joined(st.sampled_from(["e", "E", "e+", "E-"]), _DIGITS)),
)
strings = st.lists(
    st.one_of(
        st.sampled_from(_ESCAPES),
        st.characters(exclude_categories=["Cs"]).map(lambda character: json.dumps(character)[1:-1]),
    ),
    max_size=4,
).map(lambda pieces: f'"{"".join(pieces)}"')


def _between(marks: str, items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def bracket(blanks: str, content: Sequence[str]) -> str:
        return marks[0] + blanks + f"{blanks},".join(content) + blanks + marks[1]

    return st.builds(bracket, BLANKS, st.lists(items, max_size=3))


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    value = _joined(BLANKS, inner)
    return st.one_of(_between("[]", value), _between("{}", _joined(BLANKS, strings, BLANKS, st.just(":"), value)))


values = st.recursive(st.one_of(numbers, strings, st.sampled_from(["true", "false"])), _containers, max_leaves=6)
objects = _between("{}", _joined(BLANKS, strings, BLANKS, st.just(":"), BLANKS, values))
