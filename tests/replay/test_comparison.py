"""What a plugin answers now against what it has answered then: the same, or a diff."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.libcni.invoke import Answer
from cni_capture.replay.comparison import differences, renamed

RESULT: dict[str, Any] = {
    "cniVersion": "1.0.0",
    "interfaces": [
        {"name": "cni0", "mac": "0a:58:0a:01:00:01"},
        {"name": "veth0a1b2c3d", "mac": "0a:58:0a:01:00:02"},
        {"name": "eth0", "mac": "0a:58:0a:01:00:07", "sandbox": "/run/netns/web"},
    ],
    "ips": [{"address": "10.1.0.7/24", "interface": 2}],
}


def said(result: Any, failure: str = "", stderr: bytes = b"") -> Answer:
    return Answer(result if isinstance(result, bytes) else json.dumps(result).encode(), stderr, failure)


def changed(before: Answer | None, after: Answer | None, config: bytes = b"{}") -> list[str]:
    """The lines that differ."""
    return [line for line in differences(before, after, ("then", "now"), config)[2:] if line[0] in "+-"]


def with_interface(number: int, **fields: str) -> dict[str, Any]:
    interfaces = [dict(interface) for interface in RESULT["interfaces"]]
    interfaces[number] |= fields
    return {**RESULT, "interfaces": interfaces}


@pytest.mark.parametrize(
    "after",
    [
        said(RESULT),
        said(json.dumps(RESULT, indent=4).encode() + b"\n"),
        said(dict(reversed(RESULT.items()))),
        said({**RESULT, "dns": {}}),
        said(RESULT, stderr=b"time=now level=debug\n"),
        said(with_interface(0, mac="0a:58:0a:01:ff:ff")),
        said(with_interface(1, name="veth99999999", mac="AA:58:0a:01:ff:ff")),
    ],
    ids=["itself", "indented", "another order", "empty dns", "stderr", "drawn MAC", "drawn name"],
)
def test_what_means_the_same_is_the_same(after: Answer) -> None:
    """The spelling of JSON, what is said on stderr beside a result, and what chance decides."""
    assert [] == changed(said(RESULT), after)


@pytest.mark.parametrize(
    ("expected", "before", "after"),
    [
        (['-  "dns": 1', '+  "dns": 2'], said({"dns": 1}), said({"dns": 2})),
        (['-      "name": "cni0"', '+      "name": "cni1"'], said(RESULT), said(with_interface(0, name="cni1"))),
        (["-exit status 1", "+exit status 3"], said({"code": 7}, "exit status 1"), said({"code": 7}, "exit status 3")),
        (['-  "code": 7', '+  "code": 11'], said({"code": 7}, "exit status 1"), said({"code": 11}, "exit status 1")),
        (["-boom", "+bang"], said(b"", "exit status 1", b"boom\n"), said(b"", "exit status 1", b"bang\n")),
        (["-signal: killed", "+exit status 0"], said(b"", "signal: killed"), said(b"")),
        (["-no end seen", "+exit status 0"], None, said(b"")),
        (["-log \\xff\\u001b[31m"], said(b"log \xff\x1b[31m\n{}"), said(b"{}\n")),
    ],
    ids=["value", "name", "exit", "error", "stderr of a failure", "signal", "hung", "no JSON"],
)  # fmt: skip
def test_what_differs_is_shown(expected: list[str], before: Answer | None, after: Answer) -> None:
    """A line for each difference, safe for a terminal."""
    assert expected == changed(before, after)


def test_a_mac_that_was_asked_for_is_no_chance() -> None:
    """In the configuration it is a promise."""
    config = b'{"runtimeConfig":{"mac":"0A:58:0a:01:00:07"}}'
    expected = ['-      "mac": "0a:58:0a:01:00:07",', '+      "mac": "0a:58:0a:01:ff:ff",']
    assert expected == changed(said(RESULT), said(with_interface(2, mac="0a:58:0a:01:ff:ff")), config)


def test_the_diff_is_a_unified_one() -> None:
    """As `diff -u` prints it, then and now in its head."""
    expected = ["--- then", "+++ now", "@@ -1,2 +1,2 @@", "-exit status 1", "+exit status 0", " {}"]
    assert expected == differences(said(b"{}", "exit status 1"), said(b"{}"), ("then", "now"), b"")


def test_a_replay_s_own_names_are_no_difference() -> None:
    """Its namespace and its container ID, in results, in words, and in libcni's text."""
    names = {"/run/netns/new": "/run/netns/web", "replay-1": "web"}
    answer = Answer(b'{"sandbox":"/run/netns/new"}', b"replay-1 in /run/netns/new", "no replay-1")
    assert Answer(b'{"sandbox":"/run/netns/web"}', b"web in /run/netns/web", "no web") == renamed(answer, names)
