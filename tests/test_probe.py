"""Both probes, with streams injected: what a runtime gets back, and what the log says of it."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, example, given, settings

from cni_capture import probe as hot_floor
from tests import jsontext
from tests.node import PROBES, Answer, Node, Sink

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", "2.7.0-alpha")
CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "280718f6"}
SUPPORTED = (
    b'{"cniVersion": "1.1.0", "supportedVersions": ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'
)


@pytest.mark.parametrize("probe", PROBES)
@given(result=jsontext.values, before=jsontext.BLANKS, after=jsontext.BLANKS)
@example(result='{"ips" : [ ],"big":123456789012345678901234567890e+7,"ips":{"\\u003c":"<"}}', before="\n", after=" ")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_add_is_answered_with_the_exact_bytes_of_prevresult(
    node: Node, probe: str, result: str, before: str, after: str
) -> None:
    """White space, spelling of numbers, order of keys, keys that stand twice, escapes: all kept."""
    stdin = f'{{"prevResult":{before}{result}{after},"name":"net"}}'.encode()
    assert Answer(0, result.encode()) == node.call(probe, CALL, stdin)


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("result", ["", ',"prevResult":null', ', "prevResult" : null '])
@pytest.mark.parametrize("version", VERSIONS)
def test_add_without_prevresult_is_answered_with_the_version_of_the_configuration(
    node: Node, probe: str, result: str, version: str
) -> None:
    """First in a chain there is no prevResult; some writers say null. Versions of the future pass."""
    stdin = f'{{"cniVersion":"{version}"{result}}}'.encode()
    assert Answer(0, f'{{"cniVersion": "{version}"}}'.encode()) == node.call(probe, CALL, stdin)


@pytest.mark.parametrize("probe", PROBES)
def test_add_without_any_version_is_of_the_first(node: Node, probe: str) -> None:
    """A configuration without cniVersion is of 0.1.0."""
    assert Answer(0, b'{"cniVersion": "0.1.0"}') == node.call(probe, CALL, b'{"name":"net"}')


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("verb", ["CHECK", "DEL", "GC", "STATUS"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_other_verbs_succeed_and_print_nothing(node: Node, probe: str, verb: str, version: str) -> None:
    """With and without a prevResult, in every version."""
    call = {"CNI_COMMAND": verb, "CNI_CONTAINERID": "x"}
    configs = (f'{{"cniVersion":"{version}"}}', f'{{"cniVersion":"{version}","prevResult":{{"ips":[]}}}}')
    assert [Answer()] * 2 == [node.call(probe, call, config.encode()) for config in configs]


@pytest.mark.parametrize("probe", PROBES)
def test_version_is_answered_without_reading_and_without_recording(node: Node, probe: str) -> None:
    """VERSION names 0.1.0 to 1.1.0 whatever is, or is not, on stdin."""

    class Untouchable:
        def read(self) -> bytes:
            raise AssertionError("VERSION read its stdin")

    stdout, stderr = bytearray(), bytearray()
    environ = {**node.environ, "CNI_COMMAND": "VERSION"}
    code = hot_floor.run(probe, environ, Untouchable(), Sink(stdout), Sink(stderr))
    assert (Answer(0, SUPPORTED), []) == (Answer(code, bytes(stdout), bytes(stderr)), node.records())


WRONG = [
    ({}, b"{}", "0.1.0", 4, "required env variables [CNI_COMMAND] missing", ""),
    (
        {"CNI_COMMAND": "ADD"},
        b'{"cniVersion":"0.4.0"}',
        "0.4.0",
        4,
        "required env variables [CNI_CONTAINERID] missing",
        "",
    ),
    ({"CNI_COMMAND": 'a"b'}, b'{"cniVersion":"1.0.0"}', "1.0.0", 4, 'unknown CNI_COMMAND: a"b', ""),
    (
        CALL,
        b'{"name":\xff}',
        "1.1.0",
        6,
        "network configuration is not UTF-8",
        "'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
    ),
    (
        {"CNI_COMMAND": "STATUS"},
        b"[1, 2]",
        "1.1.0",
        6,
        "network configuration is not a JSON object",
        "'{' expected at character 0",
    ),
    ({"CNI_COMMAND": "NO"}, b"no json", "1.1.0", 4, "unknown CNI_COMMAND: NO", ""),
]


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize(("environ", "stdin", "version", "code", "msg", "details"), WRONG)
def test_a_wrong_call_gets_an_error_object_and_is_recorded_with_what_was_wrong(
    node: Node, probe: str, environ: dict[str, str], stdin: bytes, version: str, code: int, msg: str, details: str
) -> None:
    """Exit status 1, the spec's code, words and details; the record has the same, and stdin to the byte."""
    answer = node.call(probe, environ, stdin)
    error = {"code": code, "msg": msg} | ({"details": details} if details else {})
    assert (1, {"cniVersion": version} | error, b"") == (answer.code, json.loads(answer.stdout), answer.stderr)
    assert [(probe, error, "input", stdin)] == [
        (record.probe, record.facts["error"], record.what, record.body) for record in node.records()
    ]


@pytest.mark.parametrize("probe", PROBES)
def test_an_unreadable_stdin_is_an_io_failure(node: Node, probe: str) -> None:
    """Code 5, recorded as a call with nothing on its stdin."""

    class Broken:
        def read(self) -> bytes:
            raise OSError(5, "Input/output error")

    stdout, stderr = bytearray(), bytearray()
    code = hot_floor.run(probe, {**node.environ, **CALL}, Broken(), Sink(stdout), Sink(stderr))
    error = {
        "code": 5,
        "msg": "network configuration could not be read",
        "details": "[Errno 5] Input/output error",
    }
    assert (1, {"cniVersion": "1.1.0", **error}, b"") == (code, json.loads(stdout), bytes(stderr))
    assert [(error, b"")] == [(record.facts["error"], record.body) for record in node.records()]


@pytest.mark.parametrize("probe", PROBES)
def test_everything_else_passes(node: Node, probe: str) -> None:
    """Names that the spec forbids, no netns, an unknown key, a version that is none: not ours to judge."""
    calls = [
        {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "../../x y\udcff"},
        {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x", "CNI_NETNS": "", "CNI_IFNAME": "far too long for Linux"},
    ]
    stdin = b'{"cniVersion": 3, "name": ["?"], "type": null, "new": {}, "prevResult": "?"}'
    assert [Answer(0, b'"?"')] * 2 == [node.call(probe, call, stdin) for call in calls]


ENTRY, EXIT = "entry", "exit"
STDIN = b'{"cniVersion":"1.1.0","name":"net","prevResult": {"ips": []}}'
RESULT = b'{"ips": []}'


@pytest.mark.parametrize(
    ("verb", "pre", "post"),
    [
        ("ADD", (ENTRY, "input", STDIN), (EXIT, "output", RESULT)),
        ("CHECK", (ENTRY, "input", STDIN), (EXIT, "input", STDIN)),
        ("DEL", (EXIT, "input", STDIN), (ENTRY, "input", STDIN)),
        ("GC", (ENTRY, "input", STDIN), (EXIT, "input", STDIN)),
        ("STATUS", (ENTRY, "input", STDIN), (EXIT, "input", STDIN)),
    ],
)
def test_each_probe_records_what_it_saw_on_its_side(
    node: Node, verb: str, pre: tuple[str, str, bytes], post: tuple[str, str, bytes]
) -> None:
    """DEL runs the list backward, so there the pre is the exit; what came out of an ADD is an output."""
    for probe in PROBES:
        node.call(probe, {**CALL, "CNI_COMMAND": verb}, STDIN)
    assert [("capture-pre", *pre), ("capture-post", *post)] == [
        (record.probe, record.facts["side"], record.what, record.body) for record in node.records()
    ]


def test_a_record_says_all_that_is_known_of_the_call_and_nothing_of_the_rest(node: Node) -> None:
    """Every CNI_* variable and TRACEPARENT, process, parent, network, version, label; no other variable."""
    call = {**CALL, "PATH": "/bin", "CNI_NEW": "1", "CNI_ARGS": "A=1", "TRACEPARENT": "00-1-2-01", "MY_CNI_X": "no"}
    node.call("capture-post", call, b'{"cniVersion":"1.0.0","name":"net","label":"outer"}')
    (record,) = node.records()
    with open(f"/proc/{os.getppid()}/comm") as file:
        parent = file.read().rstrip("\n")
    assert record.facts.pop("monotonic") > 0
    assert {
        "side": "exit",
        "ppid": os.getppid(),
        "parent": parent,
        "network": "net",
        "cniVersion": "1.0.0",
        "label": "outer",
    } == record.facts
    variables = {**CALL, "CNI_NEW": "1", "CNI_ARGS": "A=1", "TRACEPARENT": "00-1-2-01", **node.environ}
    assert (os.getpid(), "output", variables) == (record.pid, record.what, record.env)


@pytest.mark.parametrize("probe", PROBES)
def test_a_message_is_there_for_who_greps(node: Node, probe: str) -> None:
    """A text line ends in exactly CNI_COMMAND=<verb>,CNI_CONTAINERID=<id>,input=<json> or output=<json>."""
    node.call(probe, CALL, STDIN)
    message = {"capture-pre": b"input=" + STDIN, "capture-post": b"output=" + RESULT}[probe]
    assert [b"CNI_COMMAND=ADD,CNI_CONTAINERID=280718f6," + message] == [
        line[line.index(b" CNI_COMMAND=") + 1 :] for line in node.lines()
    ]


@pytest.mark.parametrize("probe", PROBES)
def test_trouble_with_the_log_is_one_line_on_stderr_and_the_same_reply(node: Node, probe: str) -> None:
    """A log that cannot be and a setting that is none are complained of in one line; the runtime gets its answer."""
    call = {**CALL, "CNI_CAPTURE_LOG_FORMAT": "ya\nml", "CNI_CAPTURE_LOG_FILE": f"{node.log.parent}/no/cni.log"}
    words = (
        f'{probe}: CNI_CAPTURE_LOG_FORMAT: \'ya\\\\nml\' is neither "text" nor "json"; ignored; '
        f"not recorded: {node.log.parent}/no/cni.log: No such file or directory; hint: cni-capture doctor\n"
    )
    assert Answer(0, RESULT, words.encode()) == node.call(probe, call, STDIN)


@pytest.mark.parametrize("probe", PROBES)
def test_a_bad_setting_costs_a_line_and_not_the_record(node: Node, probe: str) -> None:
    """The default stands in for it, and the record is written."""
    call = {"CNI_COMMAND": "GC", "CNI_CAPTURE_LOCK_TIMEOUT": "soon"}
    words = "CNI_CAPTURE_LOCK_TIMEOUT: 'soon' is not a number of seconds from 0 to 60; ignored"
    assert Answer(0, b"", f"{probe}: {words}; hint: cni-capture doctor\n".encode()) == node.call(probe, call)
    assert [probe] == [record.probe for record in node.records()]
