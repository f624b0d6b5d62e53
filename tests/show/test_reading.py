"""Lines of the log become records: both formats say the same, nothing is lost, no bytes do harm."""

from __future__ import annotations

import json
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cni_capture.call import quote
from cni_capture.reading.logfmt import as_json
from cni_capture.reading.records import Damage, facts, lines, read_record, records, variables
from cni_capture.record import Record, json_line, quoted, text_line
from tests.show.stories import full, minimal

TEXT = st.text(st.characters(exclude_characters="\0"), max_size=30)
# As Python reads an environment that is not UTF-8.
ENVIRONMENT = TEXT.map(lambda text: text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
NAMES = st.one_of(st.sampled_from(["CNI_IFNAME", "CNI_ARGS", "TRACEPARENT"]), ENVIRONMENT.map("CNI_{}".format))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=10,
)
FACTS = st.dictionaries(
    st.sampled_from(["network", "label", "error", "interfaces", "redacted", "later"]), JSON.map(json.dumps), max_size=4
)
BODIES = st.one_of(
    st.binary(max_size=60).map(quoted),
    st.dictionaries(TEXT, JSON, max_size=4).map(
        lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    ),
)


def whole(batches: list[bytes]) -> bytes:
    return b"".join(batches)


@st.composite
def made(draw: st.DrawFn) -> Record:
    """A record that a probe could make."""
    environ = draw(st.dictionaries(NAMES.filter(lambda name: "=" not in name), ENVIRONMENT, max_size=4))
    named = [name for name in ("CNI_COMMAND", "CNI_CONTAINERID") if draw(st.booleans())]
    ordered = {name: draw(ENVIRONMENT) for name in named}
    told = {"side": draw(st.sampled_from(['"entry"', '"exit"'])), "monotonic": "12.500000", **draw(FACTS)}
    told["network"] = quote(draw(ENVIRONMENT))
    body = draw(BODIES)
    return Record("capture-pre", 4242, 1_796_040_224_118_000_000, {**ordered, **environ}, told, "input", body)


@given(made())
def test_a_text_record_is_read_as_the_json_record_that_says_the_same(record: Record) -> None:
    """The two formats lose nothing, so that one can be made of the other, to the byte."""
    assert whole(json_line(record))[:-1] == as_json(whole(text_line(record))[:-1])


@given(made())
def test_whatever_a_probe_writes_is_read(record: Record) -> None:
    """Variables, facts and the body come back as they were, from either format."""
    record.facts.pop("label", None)  # whose values, in this test, are of any type
    record.facts.pop("error", None)
    for line in (json_line(record), text_line(record)):
        read = read_record(whole(line))
        assert record.body == read.body
        assert dict(record.environ) == variables(read)
        assert record.facts == {key: facts(read)[key].decode() for key in record.facts}


@given(st.lists(st.binary(max_size=200), max_size=5))
@example([b'{"v":1}', b"{" * 100_000, b"[" * 100_000, b'{"v":1,"time":"9999-99-99T99:99:99Z"}'])
@example([b"2026-11-30T12:03:44.118000Z capture-pre[1] " + b"a={" * 5000 + b"CNI_COMMAND=,CNI_CONTAINERID=,input={}"])
def test_no_bytes_are_too_strange_to_be_read_over(garbage: list[bytes]) -> None:
    """Damaged lines are counted and numbered, and the good ones around them are kept."""
    good = minimal().lines("json")
    log = b"\n".join([*garbage, b""]).join([b"", *good])
    damage = Damage()
    read = [record.line for record in records(lines([log]), damage)]
    damaged = [line for line in log.split(b"\n") if line and line + b"\n" not in good]
    assert (good, len(damaged)) == (read, damage.count)


@given(st.data())
def test_a_log_with_any_bytes_changed_gives_no_error(data: st.DataObject) -> None:
    """Bits rot, disks fill up: what is left of a record is a record or damage, and nothing else."""
    log = bytearray(b"".join(chain.from_iterable(zip(full().lines("json"), full().lines("text"), strict=True))))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(log) - 1))
        log[at : at + data.draw(st.integers(0, 50))] = data.draw(st.binary(max_size=10))
    for record in records(lines([bytes(log)]), Damage()):
        assert record.env is not None


@given(st.lists(st.integers(1, 3000), max_size=20))
def test_where_a_chunk_ends_makes_no_difference(sizes: list[int]) -> None:
    """Lines are put together from chunks of any size, as a pipe or a growing file gives them."""
    log = b"".join(full().lines("text"))
    rest, chunks = log, []
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]
    assert full().lines("text") == list(chain.from_iterable(lines([*chunks, rest])))


def test_the_last_line_may_lack_its_line_feed() -> None:
    """A record that is whole counts, wherever the file ends."""
    good = minimal().lines("json")
    damage = Damage()
    assert good == [record.line for record in records(lines([b"".join(good)[:-1]]), damage)]
    assert damage.count == 0


@pytest.mark.parametrize(
    "body", [b'"\\udc80\\ud800"', b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}", b'{"a":1e400000}']
)
def test_json_that_is_hard_to_hold_is_kept_as_it_is(body: bytes) -> None:
    """Lone surrogates, deep nesting and huge numbers are JSON, and a plugin may have been sent them."""
    environ = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c"}
    line = whole(json_line(Record("capture-pre", 1, 10**18, environ, {"side": '"entry"'}, "input", body)))
    (record,) = records(lines([line]), Damage())
    assert (line, body) == (record.line, record.body)


def test_a_variable_whose_name_is_no_text_does_not_hide_the_others() -> None:
    """The runtime's environment is not ours to choose: of the record nothing is lost."""
    environ = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c", "CNI_\udcff": "\udcff"}
    record = Record("capture-pre", 1, 10**18, environ, {"side": '"entry"'}, "input", b"{}")
    for line in (json_line(record), text_line(record)):
        read = read_record(whole(line))
        assert ("ADD", "c", environ) == (read.env.command, read.env.container, variables(read))


def test_damage_is_told_in_few_words() -> None:
    """The first ten damaged lines have numbers, the rest are counted."""
    damage = Damage()
    assert list(records(lines([b"x\n" * 12]), damage)) == []
    assert damage.words() == "damaged lines left out: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"
