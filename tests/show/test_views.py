"""Whatever a log holds, every view of it is text that a terminal can be given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cni_capture.reading.records import read_record
from cni_capture.record import Record, json_line, quoted
from cni_capture.story.filters import Filter
from cni_capture.story.operations import Operation, operations
from cni_capture.story.views.detail import detail
from cni_capture.story.views.pair import pair
from cni_capture.story.views.records import as_message, for_terminal
from cni_capture.story.views.short import Short
from cni_capture.story.views.stats import Stats
from cni_capture.story.views.terminal import printable
from cni_capture.story.views.words import outcome
from tests.show.stories import Story

WORDS = st.sampled_from(["", "eth0", "10.1.0.7/24", "fd00::1", "1.0.0", "0.4.0", "\x1b[2J", "\ud800", "\x9b", "4"])
KEYS = st.sampled_from(
    [
        "prevResult",
        "cniVersion",
        "interfaces",
        "ips",
        "routes",
        "dns",
        "ip4",
        "address",
        "interface",
        "name",
        "sandbox",
        "netns",
        "addresses",
        "code",
        "msg",
        "details",
        "version",
        "dst",
        "gateway",
        "gw",
        "host",
        "ip",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | WORDS | st.just(10**400),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=4),
    max_leaves=15,
)
# What capture-wrap adds, right and wrong: how the plugin ended, and whatever it printed.
PIECES = [
    *(
        b"{",
        b"}",
        b'{"cniVersion": "1.0.0"}',
        b'"msg": "\x9b"',
        b'{"code": 7, "msg": "\x1b[2J"}',
        b"[redacted]",
        b"null",
    ),
    *(b"\xff", b"\n", b"\t\x1b", b" ", b"\x00", "é\u202e".encode(), b"panic: x\n", b"[" * 300, b"x" * 1000),
]
STDOUT = st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
WRAPPED = st.fixed_dictionaries(
    {"plugin": WORDS},
    optional={
        "exitStatus": st.integers(0, 2),
        "signal": st.sampled_from(["SIGKILL", "SIGRTMIN+2", "SIGRTMIN+x", "\x1b", ""]),
        "milliseconds": st.floats(0, 1e9),
        "stderr": (STDOUT | st.just(b"line\n" * 50)).map(lambda said: said.decode("utf-8", "surrogateescape")) | VALUES,
        "stderrBytes": st.integers(-1, 10**6) | VALUES,
        "redacted": st.lists(KEYS) | VALUES,
        "newlines": st.lists(st.integers(-1, 100)) | VALUES,
        "path": WORDS,
    },
)


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Records of few containers, so that many of them pair, and of any content."""
    found = []
    for number in range(draw(st.integers(1, 8))):
        environ = {"CNI_COMMAND": draw(st.sampled_from(["ADD", "DEL", "CHECK", "STATUS", "\x1b"]))}
        environ |= draw(st.dictionaries(st.sampled_from(["CNI_CONTAINERID", "CNI_IFNAME"]), WORDS, max_size=2))
        environ |= draw(st.dictionaries(st.just("CNI_CAPTURE_REPLAY"), WORDS))
        environ |= {"CNI_ARGS": f"K8S_POD_NAME={draw(WORDS)};K8S_POD_NAMESPACE={draw(WORDS)};{draw(WORDS)}"}
        facts: dict[str, Any] = {"side": draw(st.sampled_from(["entry", "exit"]))}
        facts |= draw(st.dictionaries(st.sampled_from(["error", "interfaces", "ppid", "parent", "later"]), VALUES))
        facts |= draw(st.dictionaries(st.sampled_from(["network", "cniVersion", "label"]), WORDS))
        probe = draw(st.sampled_from(["capture-pre", "capture-post", "capture-wrap"]))
        what = draw(st.sampled_from(["input", "output"]))
        if draw(st.booleans()):
            facts |= draw(WRAPPED)
            what = "input" if facts["side"] == "entry" else "output"
        told = {key: json.dumps(value) for key, value in facts.items()}
        time = 1_796_040_224_118_000_000 + number * draw(st.integers(-(10**9), 10**12))
        body = draw(VALUES.map(lambda value: json.dumps(value).encode()) | STDOUT.map(quoted))
        pid = draw(st.integers(0, number))
        found.append(b"".join(json_line(Record(probe, pid, time, environ, told, what, body))))
    return found


@settings(max_examples=100, deadline=None)
@given(logs())
def test_no_view_stumbles_over_what_is_in_a_log(lines: list[bytes]) -> None:
    """No error, and nothing that a terminal would obey."""
    found = list(operations(map(read_record, lines)))
    short, stats = Short(80, False), Stats()
    stats.add(found)
    wanted = Filter(changed=True, pod="eth", slower_than=1)
    shown = [*stats.table(80, False), *stats.lines(), *detail(found, found, False)]
    rows = [row for operation in found for row in short.rows(operation)]
    for operation in found:
        wanted(operation)
        shown += pair(operation, False)
        shown += [for_terminal(as_message(record))[:-1].decode() for record in operation.records]
    assert shown + rows == [printable(line) for line in shown + rows]
    assert max(map(len, rows)) <= 80
    assert sum(len(operation.records) for operation in found) == len(lines)


def of_wrapped(stdout: bytes, stderr: bytes = b"", **ended: Any) -> Operation:
    """One plugin behind capture-wrap."""
    story = Story()
    pid = story.wrapped_entry("ADD", "c", "bridge")
    story.wrapped_exit("ADD", "c", "bridge", pid, stdout, stderr, **ended)
    (operation,) = operations(map(read_record, story.lines("json")))
    return operation


def below(title: str, operation: Operation) -> list[str]:
    """The lines of the detail view from the one with this title on, without the indentation that all have."""
    lines = [line[4:] for line in detail([operation], [operation], False)]
    return lines[[line.startswith(title) for line in lines].index(True) : -1]


@pytest.mark.parametrize("ended", [{"exitStatus": 0}, {"exitStatus": 1}, {"signal": "SIGKILL"}])
def test_much_that_a_plugin_says_is_shown_in_few_lines(ended: dict[str, Any]) -> None:
    """Ten megabytes of stdout that are no JSON, in lines or in one, and 64 KB of stderr, cut and counted."""
    for stdout, stderr in ((b"x" * 10_000_000, b"y" * 65_536), (b"x\n" * 5_000_000, b"y\n" * 32_768)):
        operation = of_wrapped(stdout, stderr, **ended)
        lines = [*detail([operation], [operation], False), *Short(80, False).rows(operation)]
        assert len(lines) < 50
        assert max(map(len, lines)) < 500
        assert [line for line in lines if "10,000,000 bytes" in line]
        assert [line for line in lines if "65,536 bytes" in line]


def test_where_a_program_panicked_does_not_hide_that_it_did() -> None:
    """The line of the panic is shown with the last ones, and is what the list has of stderr."""
    trace = [f"main.f{number}()" for number in range(20)]
    said = "\n".join(["starting", "panic: nil map", *trace])
    operation = of_wrapped(b"", said.encode(), exitStatus=2)
    shown = ["panic: nil map", "… 10 more lines", *trace[10:]]
    assert ["stderr, its end (233 bytes in all)", *(f"  {line}" for line in shown)] == below("stderr", operation)
    assert outcome(operation) == "exit status 2; stderr: panic: nil map"


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (b"\x1b[m\n{}", ["byte 0 of the output, on line 1", "  \\u001b[m\\u000a{}", "  ^"]),
        (b"{}\n\t[]", ["byte 4 of the output, on line 2", "  {}\\u000a\\u0009[]", f"  {' ' * 14}^"]),
        ("{'é'}".encode(), ["byte 1 of the output, on line 1", "  {'é'}", "   ^"]),
        (
            b'{"long": "%b" 1}' % (b"x" * 99),
            ["byte 111 of the output, on line 1", f'  {"x" * 22}" 1}}', f"  {' ' * 24}^"],
        ),
        (b'{"ips": {}}', ["byte 8 of the output, on line 1", '  {"ips": {}}', f"  {' ' * 8}^"]),
        (b'{"ips": [', ["byte 9 of the output, on line 1", '  {"ips": [', f"  {' ' * 9}^"]),
    ],
)
def test_the_bytes_at_which_libcni_stumbles_are_pointed_at(stdout: bytes, expected: list[str]) -> None:
    """With what stands around them, made safe, whatever their place."""
    assert [f"which is about   {expected[0]}", *expected[1:]] == below("which", of_wrapped(stdout))
