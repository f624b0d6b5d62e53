"""Whatever a log holds, every view of it is text that a terminal can be given."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cni_capture.reading.records import read_record
from cni_capture.record import Record, json_line
from cni_capture.story.filters import Filter
from cni_capture.story.operations import operations
from cni_capture.story.views.detail import detail
from cni_capture.story.views.pair import pair
from cni_capture.story.views.records import as_message, for_terminal
from cni_capture.story.views.short import Short
from cni_capture.story.views.stats import Stats
from cni_capture.story.views.words import printable

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


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Records of few containers, so that many of them pair, and of any content."""
    found = []
    for number in range(draw(st.integers(1, 8))):
        environ = {"CNI_COMMAND": draw(st.sampled_from(["ADD", "DEL", "CHECK", "STATUS", "\x1b"]))}
        environ |= draw(st.dictionaries(st.sampled_from(["CNI_CONTAINERID", "CNI_IFNAME"]), WORDS, max_size=2))
        environ |= {"CNI_ARGS": f"K8S_POD_NAME={draw(WORDS)};K8S_POD_NAMESPACE={draw(WORDS)};{draw(WORDS)}"}
        facts: dict[str, Any] = {"side": draw(st.sampled_from(["entry", "exit"]))}
        facts |= draw(st.dictionaries(st.sampled_from(["error", "interfaces", "ppid", "parent", "later"]), VALUES))
        facts |= draw(st.dictionaries(st.sampled_from(["network", "cniVersion", "label"]), WORDS))
        probe = draw(st.sampled_from(["capture-pre", "capture-post", "capture-wrap"]))
        what = draw(st.sampled_from(["input", "output"]))
        told = {key: json.dumps(value) for key, value in facts.items()}
        time = 1_796_040_224_118_000_000 + number * draw(st.integers(-(10**9), 10**12))
        body = json.dumps(draw(VALUES)).encode()
        found.append(b"".join(json_line(Record(probe, number, time, environ, told, what, body))))
    return found


@settings(max_examples=75, deadline=None)
@given(logs())
def test_no_view_stumbles_over_what_is_in_a_log(lines: list[bytes]) -> None:
    """No error, and nothing that a terminal would obey."""
    found = list(operations(map(read_record, lines)))
    short, stats = Short(80, False), Stats()
    stats.add(found)
    wanted = Filter(changed=True, pod="eth", slower_than=1)
    shown = [*stats.table(80, False), *stats.lines(), *detail(found, False)]
    for operation in found:
        wanted(operation)
        shown += [*short.rows(operation), *pair(operation, False)]
        shown += [for_terminal(as_message(record))[:-1].decode() for record in operation.records]
    assert shown == [printable(line) for line in shown]
    assert max(map(len, short.rows(found[0]))) <= 80
    assert sum(len(operation.records) for operation in found) == len(lines)
