"""What is said of a wrapped plugin that misbehaves is what libcni said of it, measured, and what the plugin did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cni_capture.libcni.invoke import Answer
from cni_capture.libcni.result import from_stdout
from cni_capture.reading.records import Record, captured, read_record
from cni_capture.story.answers import _is_usual, answer, fault, stderr
from cni_capture.story.faults import Fault
from tests.libcni.scenarios import Scenario, scenarios
from tests.show.stories import Story, result

MEASURED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "libcni" / "answers.jsonl").read_text().splitlines()
]
# What libcni puts in front of a plugin's failure, by verb: nothing for CHECK and STATUS of a single plugin.
_PREFIX = re.compile(r'(plugin type="(\w+)" failed \((?:add|delete)\): |failed to GC plugin (\w+): )?(.*)')
_SIGNALS = {"9": "SIGKILL"}


def exit_record(verb: str, stdout: Any, stderr: bytes = b"", version: str = "1.0.0", **more: Any) -> Record:
    """What capture-wrap writes of a plugin that has ended."""
    story = Story()
    story.wrapped_exit(verb, "c", "first", 4000, stdout, stderr, version=version, **more)
    (line,) = story.lines("json")
    return read_record(line)


class Case(NamedTuple):
    """One plugin that was told what to do on one verb, and the words that libcni then had (None: it succeeded)."""

    title: str
    exit: Record
    words: str | None


def cases() -> Iterator[Case]:
    """Every call in the scenarios of a plugin that was told what to do, of which libcni's judgement is known."""
    for scenario, measured in zip(scenarios(), MEASURED, strict=True):
        for plugin, told in (("first", scenario.first), ("second", scenario.second)):
            for verb, orders in told.items():
                for ran in measured["ran"]:
                    words = judged(ran, plugin, orders) if ran["verb"] == verb.lower() else "never run"
                    if words != "never run":
                        yield Case(f"{scenario.title}: {plugin} {verb}", exit_of(scenario, verb, orders), words)
                        break


def exit_of(scenario: Scenario, verb: str, orders: Any) -> Record:
    ended: dict[str, Any] = {"signal": _SIGNALS[orders["kill"]]} if "kill" in orders else {}
    ended |= {} if ended else {"exitStatus": int(orders.get("exit", 0))}
    stdout, stderr = (orders.get(name, "").encode("utf-8", "surrogateescape") for name in ("stdout", "stderr"))
    return exit_record(verb, stdout, stderr, scenario.version, **ended)


def judged(ran: Any, plugin: str, orders: Any) -> str | None:
    """What libcni said of a plugin's part in a verb; "never run" where that is not known."""
    if ran["exit"] == 0:  # no version before 1.1.0 has a GC
        return "never run" if orders.get("exit", "0") != "0" else None
    found = [_PREFIX.fullmatch(line) for line in ran["stderr"].splitlines()]
    about = {match[2] or match[3] or plugin: match[4] for match in found if match}
    if plugin in about and "does not support" not in about[plugin] and "stale attachment" not in about[plugin]:
        return about[plugin]
    return None if plugin == "first" and "second" in about else "never run"


CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[f"{case.title} ({case.exit.cni_version})" for case in CASES])
def test_a_fault_has_the_words_that_libcni_had(case: Case) -> None:
    """Its own, where it did not understand the plugin, else the plugin's; and what went well for both is no fault."""
    found = fault(case.exit)
    if case.words is None:
        assert found is None or (found.said and "with exit status 0 libcni" in found.reason and not found.libcni)
        return
    assert found is not None
    own = "; ".join(filter(None, (found.said.get("msg"), found.said.get("details"))))
    assert case.words == (found.libcni or own)


def test_the_scenarios_have_all_kinds_of_failure() -> None:
    """Or else the comparison with libcni would prove little."""
    kinds = {case.words.partition(":")[0] for case in CASES if case.words}
    assert kinds >= {
        "failed to unmarshal raw result",
        "json",
        "invalid CIDR address",
        'unsupported CNI result version "banana"',
        "netplugin failed",
        "netplugin failed with no error message",
        "boom; why",
        "chk",
        "gc1",
        "gc2",
        "not ready",
        "delboom",
    }
    assert len(CASES) > 200


LOG = b'time="now" level=info msg="set up"\n'
GOOD = json.dumps(result()).encode()
ERROR = {"cniVersion": "1.0.0", "code": 11, "msg": "try later", "details": "the pool is locked"}


@pytest.mark.parametrize(
    ("expected", "exit"),
    [
        (None, exit_record("ADD", GOOD)),
        (None, exit_record("DEL", b"")),
        (None, exit_record("DEL", b"deleted\n")),
        (Fault(ERROR, "exit status 1"), exit_record("ADD", ERROR, exitStatus=1)),
        (Fault(ERROR, "killed by SIGTERM"), exit_record("ADD", ERROR, signal="SIGTERM")),
        (
            Fault({}, "killed by SIGKILL", "", "netplugin failed with no error message: signal: killed"),
            exit_record("ADD", b"", signal="SIGKILL"),
        ),
        (
            Fault({}, "killed by SIGRTMIN+2", "", "netplugin failed with no error message: signal: signal 36"),
            exit_record("ADD", b"", signal="SIGRTMIN+2"),
        ),
        (
            Fault({}, "exit status 2", "", 'netplugin failed: "panic: nil map\\n"'),
            exit_record("CHECK", b"", b"panic: nil map\n", exitStatus=2),
        ),
        (
            Fault(
                {},
                "exit status 0",
                "stdout is not JSON: invalid character 'i' in literal true (expecting 'r')",
                "failed to unmarshal raw result: invalid character 'i' in literal true (expecting 'r')",
                1,
            ),
            exit_record("ADD", LOG + GOOD),
        ),
        (
            Fault(
                {},
                "exit status 0",
                "stdout goes on after the JSON: invalid character 't' after top-level value",
                "failed to unmarshal raw result: invalid character 't' after top-level value",
                len(GOOD) + 1,
            ),
            exit_record("ADD", GOOD + b"\n" + LOG),
        ),
        (
            Fault(
                {},
                "exit status 0",
                "stdout is empty: unexpected end of JSON input",
                "failed to unmarshal raw result: unexpected end of JSON input",
                2,
            ),
            exit_record("ADD", b"\n\n"),
        ),
        (
            Fault(ERROR, "exit status 0", "with exit status 0 libcni takes the error object for an empty result"),
            exit_record("ADD", ERROR),
        ),
        (
            Fault(ERROR, "exit status 0", "with exit status 0 libcni reads no error object"),
            exit_record("DEL", ERROR),
        ),
        (
            Fault({}, "exit status 1", "stdout is no error object, and libcni's error is empty"),
            exit_record("ADD", GOOD, exitStatus=1),
        ),
        (
            Fault(
                {"code": "11", "msg": "no"},
                "exit status 1",
                "stdout is no error object: json: cannot unmarshal string into Go struct field Error.code of type uint",
                'netplugin failed but error parsing its diagnostic message "{\\"code\\":\\"11\\",\\"msg\\":\\"no\\"}": '
                "json: cannot unmarshal string into Go struct field Error.code of type uint",
                8,
            ),
            exit_record("ADD", {"code": "11", "msg": "no"}, exitStatus=1),
        ),
        (
            Fault(
                {},
                "exit status 0",
                "invalid CIDR address: 10.1.0.7 (libcni refuses this result)",
                "invalid CIDR address: 10.1.0.7",
                23,
            ),
            exit_record("ADD", b'{"ips": [{"address": "10.1.0.7"}]}'.replace(b'"address"', b'\n"address"')),
        ),
        (
            Fault({"code": 999, "msg": "failed to find plugin"}),
            exit_record("ADD", b"{}", error={"code": 999, "msg": "failed to find plugin"}),
        ),
    ],
)
def test_each_kind_of_fault_is_told_in_its_parts(expected: Fault | None, exit: Record) -> None:
    """What the plugin said, how it ended, why libcni sees it otherwise, in which words, and because of which byte."""
    assert expected == fault(exit)


def test_streams_are_what_they_were_byte_for_byte() -> None:
    """Line breaks between tokens, bytes that are no text: as the plugin wrote them."""
    for said in (b'\n\t {\n  "a":\r\n 1}\n \n', b'{"a": "\xff"}', b"\x00\xfe\n", b""):
        exit = exit_record("ADD", said, b"\xff\x1b[2J\n")
        assert (said, b"\xff\x1b[2J\n") == (captured(exit), stderr(exit))
        assert Answer(said, b"\xff\x1b[2J\n", "", 0) == answer(exit)


@pytest.mark.parametrize(
    ("expected", "ended"),
    [
        (("", 0), {}),
        (("exit status 3", 3), {"exitStatus": 3}),
        (("signal: killed", -9), {"signal": "SIGKILL"}),
        (("signal: signal 36", -36), {"signal": "SIGRTMIN+2"}),
        (("exit status 1", 1), {"error": {"code": 999, "msg": "no such plugin"}}),
    ],
)
def test_an_answer_is_what_libcni_saw_of_the_plugin(expected: tuple[str, int], ended: dict[str, Any]) -> None:
    """How it ended in Go's words, and as a number; where it could not be run, how capture-wrap did."""
    seen = answer(exit_record("ADD", b"", **ended))
    assert expected == (seen.failure, seen.returncode)


LARGE = json.dumps(result(dns={"search": ["x" * 1000] * 10_000})).encode()
DEEP = b'{"cniVersion": "1.0.0", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.mark.parametrize(
    ("expected", "exit"),
    [
        (
            Fault(
                {},
                "exit status 0",
                "stdout is not JSON: invalid character 'i' in literal true (expecting 'r')",
                "failed to unmarshal raw result: invalid character 'i' in literal true (expecting 'r')",
                1,
            ),
            exit_record("ADD", LOG + b'{"token[redacted]', redacted=["token"]),
        ),
        (
            Fault({}, "exit status 0", "stdout is not JSON; where, is not in the log, since a secret was cut out"),
            exit_record("ADD", b'{"cniVersion": "1.0.0", "token[redacted]', redacted=["token"]),
        ),
        (
            Fault({}, "exit status 1", "stdout is not JSON; where, is not in the log, since a secret was cut out"),
            exit_record("ADD", b'{"code": 7, "token[redacted]', exitStatus=1, redacted=["token"]),
        ),
        (None, exit_record("ADD", {"ips": "[redacted]"}, redacted=["ips"])),
        (None, exit_record("ADD", {"ips": [{"address": "[redacted]"}]}, redacted=["Address"])),
        (None, exit_record("ADD", DEEP)),
        (Fault({}, "exit status 1"), exit_record("ADD", DEEP, exitStatus=1)),
        (None, exit_record("ADD", LARGE)),
        (Fault({}, "exit status 0", "stdout is not JSON"), exit_record("ADD", LARGE + LARGE)),
        (Fault({}, "exit status 1", "stdout is not JSON"), exit_record("ADD", LARGE + LARGE, exitStatus=1)),
        (
            Fault({"code": 7, "msg": "x", "more": "y" * 500_000}, "exit status 1"),
            exit_record("ADD", {"code": 7, "msg": "x", "more": "y" * 500_000}, exitStatus=1),
        ),
        (
            Fault(
                {},
                "exit status 1",
                "stdout is not JSON: invalid character 'i' in literal true (expecting 'r')",
                "",
                1,
            ),
            exit_record("ADD", LOG + LARGE, exitStatus=1),
        ),
        (Fault({}, "exit status 1"), exit_record("ADD", b"", b"the end\n", stderrBytes=70_000, exitStatus=1)),
        (Fault({}, "exit status 1"), exit_record("ADD", b"", b"token[redacted]", stderrBytes=15, exitStatus=1)),
    ],
    ids=range(14),
)
def test_what_the_log_does_not_have_is_not_made_up(expected: Fault | None, exit: Record) -> None:
    """Secrets that were cut out, stderr before its last 64 KB, more than can be read as libcni does: no words of it."""
    assert expected == fault(exit)


# A whole result as text, member by member; what stands for each is a right value.
MEMBERS = [
    *(("cniVersion", '"1.0.0"'), ("name", '"eth0"'), ("mac", '"0a:58"'), ("sandbox", '"/x"'), ("mtu", "1500")),
    *(("address", '"10.1.0.7/24"'), ("gateway", '"10.1.0.1"'), ("interface", "0"), ("version", '"4"')),
    *(("dst", '"0.0.0.0/0"'), ("gw", '"10.1.0.1"')),
    *(("nameservers", '["10.1.0.1"]'), ("domain", '"example.org"'), ("search", "[]"), ("options", "null")),
]
WHOLE = (
    '{%s, "interfaces": [{%s, %s, %s, %s}], "ips": [{%s, %s, %s, %s}], "routes": [{%s, %s}], "dns": {%s, %s, %s, %s}}'
)
STRANGE = [
    *("0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.1.0", "1.2.0", "1.0", "", "6", "eth0\n", "\x00", "é", "\ud800"),
    *("10.1.0.7", "10.1.0.7/24", "10.1.0.7/0", "10.1.0.7/32", "10.1.0.7/33", "10.1.0.7/024", "10.1.0.7/+8"),
    *("10.1.0.7/24\n", "10.1.0.7\n", "10.1.0.7/24 ", "10.1.0.7/24\x00", "010.1.0.7/24", "256.1.0.7/24", "1.2.3/8"),
    *("\u0661.1.1.1/8", "10.1.0.7/\u0663", "fd00::1", "fd00::1/64", "::ffff:10.1.1.2/120"),
]
VALUES = [
    *map(json.dumps, STRANGE),
    *("0", "1", "-1", "-0", "1.0", "1e0", "1E2", "2147483648", "2147483649", "9223372036854775808", "1" + "0" * 30),
    *(
        "null",
        "true",
        "{}",
        "[]",
        "[null]",
        "[1]",
        '["a", null]',
        '["a"]',
        '["\\ud800"]',
        "[{}]",
        '"\\u0031"',
        '"a\tb"',
    ),
]


@st.composite
def results(draw: st.DrawFn) -> str:
    """Whole results in which few values are strange, a key is spelled in another way, or given twice, or is unknown."""
    told = [f'"{key}": {value}' for key, value in MEMBERS]
    for at in draw(st.lists(st.sampled_from(range(len(MEMBERS))), max_size=2)):
        key = MEMBERS[at][0]
        other = draw(st.sampled_from(VALUES))
        keys = [key, key, key.upper(), key.capitalize(), f"\\u{ord(key[0]):04x}{key[1:]}", "extra", "table"]
        again = f'"{draw(st.sampled_from(keys))}": {other}'
        told[at] = draw(
            st.sampled_from(
                [f'"{key}": {other}', again, f"{told[at]}, {again}", f"{again},\n{told[at]}", f" {told[at]}\t", '"x":1']
            )
        )
    return WHOLE % tuple(told)


@settings(max_examples=1000, deadline=None)
@given(results(), st.sampled_from(["", "1.0.0", "banana"]))
@example('{"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.7/24\\n"}]}', "")
@example('{"cniVersion": "1.0.0", "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1\\n"}]}', "")
def test_what_is_taken_for_usual_libcni_takes(stdout: str, version: str) -> None:
    """The short cut never says yes where libcni says no."""
    exit = exit_record("ADD", stdout.encode(), version=version)
    if _is_usual(exit):
        from_stdout(stdout.encode(), version)
