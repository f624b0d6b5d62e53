"""One record is one line in either format, and nothing is lost in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cni_capture.record import LINES, Record, timestamp
from cni_capture.settings import SECRET_KEYS
from tests.decoder import Decoded, decode
from tests.node import Answer, Node

# What a process can have in its environment, decoded as the probes decode it: anything but NUL, UTF-8 or not.
VALUES = st.binary().map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
NAMES = VALUES.map(lambda name: "CNI_" + name.replace("=", ""))
# Strings that would read as something else, were they written bare.
TRAPS = ["", "true", "false", "null", "12", "1e5", "-inf", "nan", "1_0", "a b", "a=b", '"', "[", "{", "\\", "\x7f"]
STRINGS = st.one_of(st.text(), st.sampled_from(TRAPS))
FACTS = st.dictionaries(
    st.sampled_from(["network", "label", "ppid", "error", "interfaces"]),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), STRINGS),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=3)),
        max_leaves=5,
    ),
)
BLANKS = st.text(" \t\r\n", max_size=3)
OBJECTS = st.builds(
    lambda value, blanks: blanks.join(["", "{", '"value"', ":", json.dumps(value, ensure_ascii=False), "}", ""]),
    st.text(st.characters(exclude_categories=["Cs"])),
    BLANKS,
)
EXAMPLE: dict[str, Any] = {
    "probe": "capture-pre",
    "pid": 4242,
    "nanoseconds": 1_796_064_028_123_456_789,
    "environ": {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "280718f6",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "K8S_POD_NAME=web",
        "CNI_NETNS": "",
    },
    "facts": {"side": '"entry"', "ppid": "17", "network": '"k8s-pod-network"', "label": '"12"'},
    "what": "input",
    "body": b'{\n  "name": "k8s-pod-network",\r\n  "cniVersion":"0.3.1"}',
}


def _line(log_format: str, **fields: Any) -> bytes:
    fields = {**EXAMPLE, **fields}
    fields["facts"] = dict(fields["facts"])
    return b"".join(LINES[log_format](Record(**fields)))


def test_a_text_record_is_a_header_the_facts_and_the_message_that_users_grep_for() -> None:
    """Format version 1, text: this very line, for ever."""
    assert (
        b"2026-11-30T18:40:28.123456Z capture-pre[4242] CNI_IFNAME=eth0 "
        b'CNI_ARGS="K8S_POD_NAME=web" CNI_NETNS="" side=entry ppid=17 network=k8s-pod-network label="12" '
        b"newlines=[1,31] returns=[30] CNI_COMMAND=ADD,CNI_CONTAINERID=280718f6,"
        b'input={   "name": "k8s-pod-network",    "cniVersion":"0.3.1"}\n'
    ) == _line("text")


def test_a_json_record_is_one_object_with_the_same_facts() -> None:
    """Format version 1, JSON: this very line, for ever."""
    assert (
        b'{"v":1,"time":"2026-11-30T18:40:28.123456Z","probe":"capture-pre","pid":4242,"env":{"CNI_COMMAND":"ADD",'
        b'"CNI_CONTAINERID":"280718f6","CNI_IFNAME":"eth0","CNI_ARGS":"K8S_POD_NAME=web","CNI_NETNS":""},'
        b'"side":"entry","ppid":17,"network":"k8s-pod-network","label":"12","newlines":[1,31],"returns":[30],'
        b'"input":{   "name": "k8s-pod-network",    "cniVersion":"0.3.1"}}\n'
    ) == _line("json")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x"}, b" CNI_COMMAND=DEL,CNI_CONTAINERID=x,output={}\n"),
        ({"CNI_COMMAND": "GC"}, b" CNI_COMMAND=GC,CNI_CONTAINERID=,output={}\n"),
        ({"CNI_COMMAND": "GC", "CNI_CONTAINERID": ""}, b' CNI_COMMAND=GC,CNI_CONTAINERID="",output={}\n'),
        ({"CNI_COMMAND": "A B", "CNI_CONTAINERID": "a=b"}, b' CNI_COMMAND="A B",CNI_CONTAINERID="a=b",output={}\n'),
        ({"CNI_CONTAINERID": "a,b"}, b' CNI_COMMAND=,CNI_CONTAINERID="a,b",output={}\n'),
    ],
)
def test_the_message_stands_at_the_end_and_tells_empty_from_absent(environ: dict[str, str], message: bytes) -> None:
    """`CNI_COMMAND=<verb>,CNI_CONTAINERID=<id>,output=<json>` ends a text line, whatever the variables are."""
    line = _line("text", environ=environ, what="output", body=b"{}")
    assert message == line[-len(message) :]


@pytest.mark.parametrize("log_format", list(LINES))
@given(
    environ=st.dictionaries(st.one_of(st.sampled_from(["CNI_COMMAND", "CNI_CONTAINERID"]), NAMES), VALUES, max_size=4),
    facts=FACTS,
    body=OBJECTS,
)
@settings(max_examples=150, deadline=None)
def test_a_record_of_anything_is_one_line_that_says_all_of_it(
    log_format: str, environ: dict[str, str], facts: dict[str, object], body: str
) -> None:
    """Any variables, any facts and any JSON object come back out of the line as they went in."""
    fields: dict[str, Any] = {
        "environ": environ,
        "facts": {key: json.dumps(value) for key, value in facts.items()},
        "body": body.encode(),
    }
    line = _line(log_format, **fields)
    expected = Decoded("2026-11-30T18:40:28.123456Z", "capture-pre", 4242, environ, facts, "input", body.encode())
    assert (expected, [len(line) - 1]) == (decode(line[:-1]), [at for at, byte in enumerate(line) if byte == 0x0A])


@pytest.mark.parametrize("log_format", list(LINES))
@pytest.mark.parametrize("value", TRAPS)
def test_a_string_reads_as_a_string(log_format: str, value: str) -> None:
    """A label or a variable that looks like a number, a constant or the beginning of a value is none of these."""
    environ = {"CNI_COMMAND": value, "CNI_CONTAINERID": value, "CNI_X": value}
    decoded = decode(_line(log_format, environ=environ, facts={"label": json.dumps(value)})[:-1])
    assert (environ, {"label": value}) == (decoded.env, {"label": decoded.facts["label"]})


@pytest.mark.parametrize("log_format", list(LINES))
@given(
    stdin=st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))),
    command=VALUES,
    container=VALUES,
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stdin_that_is_no_configuration_is_in_the_log_to_the_byte(
    node: Node, log_format: str, stdin: bytes, command: str, container: str
) -> None:
    """Whatever a wrong call had on its stdin and in its variables can be had back from its record."""
    assume(not any(name in stdin.decode(errors="replace").casefold() for name in SECRET_KEYS))
    assume(command not in ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"))
    environ = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_CAPTURE_LOG_FORMAT": log_format}
    assert (1, b"") == (lambda answer: (answer.code, answer.stderr))(node.call("capture-pre", environ, stdin))
    (record,) = node.records()
    node.log.unlink()
    assert ({**node.environ, **environ}, "input", stdin) == (record.env, record.what, record.body)


@pytest.mark.parametrize("log_format", list(LINES))
@given(label=st.text(), network=st.text(), indent=st.sampled_from([None, 0, 1, "\t", "\r\n"]))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_configuration_and_its_label_are_in_the_log_to_the_byte(
    node: Node, log_format: str, label: str, network: str, indent: int | str | None
) -> None:
    """Whatever the label, the name and the line breaks of a configuration, its record gives them back."""
    config = {"name": network, "label": label, "redact": False, "logFormat": log_format}
    stdin = json.dumps(config, indent=indent).encode()
    assert Answer() == node.call("capture-pre", {"CNI_COMMAND": "GC"}, stdin)
    (record,) = node.records()
    node.log.unlink()
    assert (network, label, stdin) == (record.facts["network"], record.facts.get("label", ""), record.body)


@pytest.mark.parametrize("log_format", list(LINES))
def test_ten_thousand_line_breaks_become_a_string_instead_of_a_list_of_offsets(node: Node, log_format: str) -> None:
    """A configuration with very many line breaks is one line as well, and is there to the byte."""
    stdin = b"{" + b"\r\n" * 10_000 + b"}"
    environ = {"CNI_COMMAND": "STATUS", "CNI_CAPTURE_LOG_FORMAT": log_format}
    assert Answer() == node.call("capture-pre", environ, stdin)
    (line,) = node.lines()
    assert (stdin, False) == (decode(line).body, b"newlines" in line)


def test_both_formats_carry_the_same_facts(node: Node) -> None:
    """The same call in text and in JSON differs in its times and its format alone."""
    stdin = b'{"cniVersion": "1.1.0", "name": "net", "label": "outer", "prevResult": {"password": 1,\n "ips": []}}'
    environ = {"CNI_CONTAINERID": "x", "CNI_NETNS": "/a b", "CNI_ARGS": "A=1;B=\udcff", "TRACEPARENT": "00-1-2-01"}
    for log_format in LINES:
        node.environ["CNI_CAPTURE_LOG_FORMAT"] = log_format
        for probe, verb in (
            ("capture-pre", "ADD"),
            ("capture-post", "ADD"),
            ("capture-pre", "NO"),
            ("capture-post", ""),
        ):
            node.call(probe, {**environ, "CNI_COMMAND": verb}, stdin)
    same = [_without_times(record) for record in node.records()]
    assert same[:4] == same[4:]


def _without_times(record: Decoded) -> Decoded:
    env = {name: value for name, value in record.env.items() if name != "CNI_CAPTURE_LOG_FORMAT"}
    facts = {name: value for name, value in record.facts.items() if name != "monotonic"}
    return replace(record, time="", env=env, facts=facts)


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (951_825_599_999_999_999, "2000-02-29T11:59:59.999999Z"),
        (4_102_444_800_000_001_000, "2100-01-01T00:00:00.000001Z"),
    ],
)
def test_a_time_is_written_in_utc_to_the_microsecond(nanoseconds: int, expected: str) -> None:
    """RFC 3339 with six digits and Z, also before 1970, on a leap day and past 2038."""
    assert expected == timestamp(nanoseconds)


@pytest.mark.parametrize("log_format", list(LINES))
def test_a_large_body_is_not_copied(log_format: str) -> None:
    """What was captured goes to the file as the very object that it came in."""
    body = b'{"a": "' + b"x" * 1_000_000 + b'"}'
    assert body is LINES[log_format](Record(**{**EXAMPLE, "facts": {}, "body": body}))[1]


@pytest.mark.parametrize("log_format", list(LINES))
def test_no_variable_can_move_the_cursor_of_who_reads_the_log(node: Node, log_format: str) -> None:
    """Control characters and terminal escapes in variables are escaped: the line is printable ASCII."""
    environ = {"CNI_COMMAND": "GC", "CNI_X": "\x1b[2J\n\x9b\u2028\x7f", "CNI_CAPTURE_LOG_FORMAT": log_format}
    assert Answer() == node.call("capture-pre", environ)
    (line,) = node.lines()
    assert (1, True) == (line.count(rb'"\u001b[2J\n\u009b\u2028\u007f"'), line.isascii())
