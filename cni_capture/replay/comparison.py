"""What a plugin answered, against what is in the log: the same, or where it differs. No I/O."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cni_capture.libcni.invoke import Answer
from cni_capture.reading.records import decode
from cni_capture.story.changes import pretty
from cni_capture.story.faults import SUCCESS
from cni_capture.story.operations import Verdict
from cni_capture.story.views.terminal import printable

_MAC = re.compile("([0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)
# Made up by the plugins and by the kernel (containernetworking/plugins, pkg/ip/link_linux.go, RandomVethName).
_VETH = re.compile("veth[0-9a-f]{4,11}")


def renamed(answer: Answer, names: Mapping[str, str]) -> Answer:
    """The answer with what a replay had to name anew (its namespace, its container) called what it was in the log."""
    stdout, stderr, failure = answer.stdout, answer.stderr, answer.failure
    for new, old in names.items():
        stdout, stderr = stdout.replace(new.encode(), old.encode()), stderr.replace(new.encode(), old.encode())
        failure = failure.replace(new, old)
    return replace(answer, stdout=stdout, stderr=stderr, failure=failure)


def differences(before: Answer | None, after: Answer | None, titles: tuple[str, str], config: bytes) -> list[str]:
    """A unified diff of two answers; empty when they are the same. None: it never ended.

    Stdout is compared as JSON, where it is, and without an empty `dns`. MAC addresses and names of host interfaces that
    are drawn anew at each call are no difference, unless the configuration (`config`) asks for one. Stderr is compared
    where nothing else tells why a call failed, as it is to libcni.
    """
    was, now = [without_empty_dns(decode(answer.stdout)) if answer else None for answer in (before, after)]
    if isinstance(was, dict) and isinstance(now, dict):
        now = _with_old_draws(was, now, config)
    old, new = list(_lines(before, was)), list(_lines(after, now))
    return list(difflib.unified_diff(old, new, *titles, lineterm=""))


def without_empty_dns(result: Any) -> Any:
    """Some versions of plugins and of libcni write it, and some do not."""
    if isinstance(result, dict) and not result.get("dns"):
        return {key: value for key, value in result.items() if key != "dns"}
    return result


def _lines(answer: Answer | None, result: Any) -> Iterator[str]:
    if answer is None:
        yield Verdict.NO_END.value
        return
    yield answer.failure or SUCCESS
    if isinstance(result, dict):
        yield from map(printable, pretty(json.dumps(result, sort_keys=True).encode()).splitlines())
    else:
        yield from map(printable, answer.stdout.decode("utf-8", "backslashreplace").splitlines())
    if answer.failure and not answer.stdout:
        yield from map(printable, answer.stderr.decode("utf-8", "backslashreplace").splitlines())


def _with_old_draws(before: dict[str, Any], after: dict[str, Any], config: bytes) -> dict[str, Any]:
    old, new = before.get("interfaces"), after.get("interfaces")
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return after
    asked = config.lower()
    interfaces = []
    for was, now in zip(old, new, strict=True):
        same = dict(now) if isinstance(now, dict) else now
        for key, drawn in (("mac", _MAC), ("name", _VETH)) if isinstance(was, dict) and isinstance(now, dict) else ():
            values = [str(each.get(key, "")) for each in (was, now)]
            if all(map(drawn.fullmatch, values)) and values[0].lower().encode() not in asked:
                same[key] = was[key]
        interfaces.append(same)
    return {**after, "interfaces": interfaces}
