"""Records become operations: paired, with a verdict, in the order in which they began."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cni_capture.reading.records import Record, read_record
from cni_capture.story.operations import MOST_HELD, Operation, Pairing, ending, operations
from tests.show.stories import Story, full, minimal, result

A, B = "a" * 64, "b" * 64


def read(story: Story) -> list[Record]:
    return [read_record(line) for line in story.lines("json")]


def told(story: Story) -> list[str]:
    """Verb, the container's first letter, label, verdict, and of a DEL what it ends."""
    return [words(operation) for operation in operations(read(story))]


def words(operation: Operation) -> str:
    record, after = operation.first, operation.after
    verdict = operation.verdict.value if operation.verdict else "undecided"
    note = ("again" if after.again else "after failure" if after.failed else "") if after else ""
    return " ".join(filter(None, (record.env.command, record.env.container[:1], record.label, verdict, note)))


def test_an_add_and_a_del_are_two_operations() -> None:
    """The ordinary life of a pod, with how long each took by the monotonic clock."""
    found = list(operations(read(minimal())))
    assert [("ADD 3 ok", 41), ("DEL 3 ok", 12)] == [(words(each), round(each.milliseconds or 0)) for each in found]


def test_pods_that_start_at_the_same_time_are_told_apart() -> None:
    """Entries and exits of several containers and interfaces may come in any order."""
    story = Story()
    story.enter("ADD", A)
    story.enter("ADD", B)
    story.enter("ADD", A, ifname="net1")
    story.leave("ADD", B, result(), milliseconds=10)
    story.leave("ADD", A, result(), ifname="net1", milliseconds=10)
    story.leave("ADD", A, result(), milliseconds=10)
    expected = [("a", "eth0", 32), ("b", "eth0", 11), ("a", "net1", 20)]
    assert expected == [
        (each.first.env.container[0], each.first.env.ifname, round(each.milliseconds or 0))
        for each in operations(read(story))
    ]


def test_a_failed_add_and_its_clean_up_are_one_story() -> None:
    """The runtime deletes at once what could not be added: so the exit will not come, and the DEL says why it is."""
    story = Story()
    story.enter("ADD", A)
    story.enter("DEL", A)
    story.leave("DEL", A)
    assert ["ADD a no exit seen", "DEL a ok after failure"] == told(story)


def test_an_add_that_is_tried_again_did_not_come_back_the_first_time() -> None:
    """The same verb for the same attachment begins only after the first has ended; the last one counts."""
    story = Story()
    story.enter("ADD", A)
    story.enter("ADD", A)
    story.leave("ADD", A, result())
    story.enter("DEL", A)
    story.leave("DEL", A)
    assert ["ADD a no exit seen", "ADD a ok", "DEL a ok"] == told(story)


def test_a_del_may_repeat() -> None:
    """containerd deletes again on a second stop and on remove."""
    story = minimal()
    for _ in range(2):
        story.enter("DEL", "3f9c1a" * 10 + "abcd")
        story.leave("DEL", "3f9c1a" * 10 + "abcd")
    assert ["ADD 3 ok", "DEL 3 ok", "DEL 3 ok again", "DEL 3 ok again"] == told(story)


def test_a_del_that_failed_is_not_followed_by_a_repetition() -> None:
    """What failed has deleted nothing, so the next DEL is the one."""
    story = Story()
    story.enter("ADD", A)
    story.leave("ADD", A, result())
    story.enter("DEL", A)
    story.enter("DEL", A)
    story.leave("DEL", A)
    assert ["ADD a ok", "DEL a no exit seen", "DEL a ok"] == told(story)


def test_a_del_needs_no_add() -> None:
    """A probe that was spliced in since the pod was made sees only the DEL."""
    story = Story()
    story.enter("DEL", A)
    story.leave("DEL", A)
    assert ["DEL a ok"] == told(story)


def test_labelled_pairs_are_hops_that_may_nest() -> None:
    """An inner pair begins and ends within an outer one; all belong to the same ADD, and to the same DEL."""
    story = Story()
    story.enter("ADD", A, label="outer")
    story.enter("ADD", A, label="inner")
    story.leave("ADD", A, result(), label="inner")
    story.leave("ADD", A, result(), label="outer")
    story.enter("DEL", A, label="outer")
    story.enter("DEL", A, label="inner")
    story.leave("DEL", A, label="inner")
    story.leave("DEL", A, label="outer")
    assert ["ADD a outer ok", "ADD a inner ok", "DEL a outer ok", "DEL a inner ok"] == told(story)


def test_the_hop_that_failed_is_named() -> None:
    """The first pair of a chain came back, the second did not."""
    story = Story()
    story.enter("ADD", A, label="one")
    story.leave("ADD", A, result(), label="one")
    story.enter("ADD", A, label="two")
    for label in ("two", "one"):
        story.enter("DEL", A, label=label)
        story.leave("DEL", A, label=label)
    assert [
        "ADD a one ok",
        "ADD a two no exit seen",
        "DEL a two ok after failure",
        "DEL a one ok after failure",
    ] == told(story)


def test_status_and_gc_have_no_container_and_may_overlap() -> None:
    """Two STATUS of one network at the same time are both answered."""
    story = Story()
    story.enter("STATUS")
    story.enter("STATUS")
    story.leave("STATUS")
    story.leave("STATUS")
    story.enter("GC")
    story.leave("GC")
    assert ["STATUS ok", "STATUS ok", "GC ok"] == told(story)


def test_a_status_that_fails_again_and_again_does_not_pile_up() -> None:
    """containerd asks every few seconds: each failure is told after half a minute, and not mixed up with a success."""
    story = Story()
    for _ in range(3):
        story.enter("STATUS", milliseconds=20_000)
    story.leave("STATUS", milliseconds=2)
    pairing = Pairing()
    for record in read(story):
        pairing.feed(record)
    assert ["STATUS no exit seen"] == [words(each) for each in pairing.ready]
    pairing.finish()
    found = [(words(each), round(each.milliseconds or 0)) for each in pairing.ready]
    assert [("STATUS no exit seen", 0)] * 2 + [("STATUS ok", 2)] == found


def test_an_exit_that_is_long_overdue_is_not_waited_for() -> None:
    """No runtime waits ten minutes for a plugin, so memory need not either."""
    story = Story()
    story.enter("ADD", A)
    story.enter("ADD", B, milliseconds=601_000)
    pairing = Pairing()
    for record in read(story):
        pairing.feed(record)
    assert ["ADD a no exit seen"] == [words(each) for each in pairing.ready]


def test_a_lone_probe_is_no_failure() -> None:
    """With only capture-pre in the chain nothing ever comes out, which is not the plugins' fault."""
    story = Story()
    story.enter("ADD", A)
    story.leave("DEL", A)
    assert ["ADD a entry only", "DEL a exit only"] == told(story)


def test_a_plugin_that_always_fails_is_not_taken_for_a_missing_probe() -> None:
    """Every ADD fails, but the DELs that clean up pass both probes."""
    story = Story()
    for container in (A, B):
        story.enter("ADD", container)
        story.enter("DEL", container)
        story.leave("DEL", container)
    assert ["ADD a no exit seen", "DEL a ok after failure", "ADD b no exit seen", "DEL b ok after failure"] == told(
        story
    )


def test_a_log_that_begins_in_the_middle_does_not_hide_a_failure() -> None:
    """The first exit has no entry, as if there were only one probe; what follows shows that there are two."""
    story = Story()
    story.leave("DEL", A)
    story.enter("ADD", B)
    story.leave("ADD", B, result())
    story.enter("ADD", A)
    assert ["DEL a exit only", "ADD b ok", "ADD a no exit seen"] == told(story)


def test_a_call_that_a_probe_refuses_has_failed() -> None:
    """The probe's own error is the verdict, and nothing is waited for."""
    story = Story()
    story.enter("ADD", A, error={"code": 4, "msg": "no"})
    pairing = Pairing()
    pairing.feed(read(story)[0])
    assert [("ADD a failed", {"code": 4, "msg": "no"})] == [(words(each), each.error) for each in pairing.ready]


@pytest.mark.parametrize(
    ("expected", "output", "ended"),
    [
        ("ADD a bridge failed: try later", {"code": 11, "msg": "try later"}, {"exitStatus": 1}),
        ("ADD a bridge failed: ", b"usage: ...", {"exitStatus": 2}),
        ("ADD a bridge failed: ", b"", {"signal": "SIGKILL"}),
        ("ADD a bridge failed: ", b"log line\n{}", {}),
        ("ADD a bridge failed: libcni takes it for a result", {"code": 11, "msg": "libcni takes it for a result"}, {}),
        ("ADD a bridge failed: not found", b"{}", {"error": {"code": 999, "msg": "not found"}}),
        ("ADD a bridge ok: ", result(), {}),
    ],
)
def test_a_wrapped_plugin_has_failed_when_its_exit_says_so(expected: str, output: Any, ended: dict[str, Any]) -> None:
    """capture-wrap sees how a plugin ended, or that it could not be run, and what it printed."""
    story = Story()
    pid = story.wrapped_entry("ADD", A, "bridge")
    story.wrapped_exit("ADD", A, "bridge", pid, output, **ended)
    (operation,) = operations(read(story))
    assert expected == f"{words(operation)}: {operation.error.get('msg', '')}"


def wrap(story: Story, verb: str, plugin: str, output: Any = b"", **more: Any) -> None:
    """A plugin that is wrapped runs, and comes back."""
    pid = story.wrapped_entry(verb, A, plugin, **more)
    story.wrapped_exit(verb, A, plugin, pid, output, **more)


def test_wrapped_plugins_are_hops() -> None:
    """Each plugin of a chain behind a wrap of its own, with no label: the plugin's name is one."""
    story = Story()
    for verb, plugins in (("ADD", ["bridge", "portmap"]), ("DEL", ["portmap", "bridge"])):
        for plugin in plugins:
            wrap(story, verb, plugin, result() if verb == "ADD" else b"")
    assert ["ADD a bridge ok", "ADD a portmap ok", "DEL a portmap ok", "DEL a bridge ok"] == told(story)


def test_an_ipam_plugin_is_a_hop_within_that_of_its_caller() -> None:
    """Both wrapped with one label: the call within a call pairs by plugin, and the DEL is one, not a repetition."""
    story = Story()
    for verb, inner, outer in (("ADD", {"ips": []}, result()), ("DEL", b"", b"")):
        bridge = story.wrapped_entry(verb, A, "bridge", label="x")
        wrap(story, verb, "host-local", inner, label="x")
        story.wrapped_exit(verb, A, "bridge", bridge, outer, label="x", milliseconds=5)
    found = [(words(each), each.first.hop, round(each.milliseconds or 0)) for each in operations(read(story))]
    assert [
        ("ADD a x ok", "x bridge", 7),
        ("ADD a x ok", "x host-local", 1),
        ("DEL a x ok", "x bridge", 7),
        ("DEL a x ok", "x host-local", 1),
    ] == found


def test_one_plugin_asked_twice_at_a_time_pairs_by_process() -> None:
    """Two STATUS of a network overlap, and the first one to begin is the first to end."""
    story = Story()
    first, second = (story.wrapped_entry("STATUS", "", "bridge") for _ in range(2))
    story.wrapped_exit("STATUS", "", "bridge", first, milliseconds=20)
    story.wrapped_exit("STATUS", "", "bridge", second, {"code": 50, "msg": "no"}, exitStatus=1, milliseconds=20)
    found = [(words(each), each.first.pid, round(each.milliseconds or 0)) for each in operations(read(story))]
    assert [("STATUS bridge ok", first, 21), ("STATUS bridge failed", second, 40)] == found


def test_a_wrapped_plugin_that_hangs_has_no_end() -> None:
    """The runtime kills the wrap, and with it the plugin, and deletes: of the IPAM plugin as of its caller."""
    story = Story()
    story.wrapped_entry("ADD", A, "bridge")
    story.wrapped_entry("ADD", A, "host-local")
    wrap(story, "DEL", "bridge", milliseconds=240_000)
    assert ["ADD a bridge no end seen", "ADD a host-local no end seen", "DEL a bridge ok after failure"] == told(story)


def test_a_wrap_whose_exits_are_all_missing_is_not_taken_for_a_lone_probe() -> None:
    """It has no other probe that could be missing: a plugin that never comes back has failed."""
    story = Story()
    story.wrapped_entry("ADD", A, "bridge")
    story.wrapped_exit("DEL", A, "bridge", 1)
    assert ["ADD a bridge no end seen", "DEL a bridge exit only after failure"] == told(story)


def test_the_end_of_a_plugin_is_told_without_its_beginning() -> None:
    """The log was rotated away under it; whether it failed is known all the same."""
    story = Story()
    story.wrapped_exit("ADD", A, "bridge", 1, result())
    story.wrapped_exit("DEL", A, "bridge", 2, b"", exitStatus=1)
    story.wrapped_exit("DEL", A, "bridge", 3)
    assert ["ADD a bridge exit only", "DEL a bridge failed", "DEL a bridge exit only"] == told(story)


def test_an_exit_of_another_process_is_not_the_exit() -> None:
    """The plugin hung, was killed, and is tried again by a runtime whose entry could not be recorded."""
    story = Story()
    story.wrapped_entry("ADD", A, "bridge")
    story.wrapped_exit("ADD", A, "bridge", 1, result())
    assert ["ADD a bridge no end seen", "ADD a bridge exit only"] == told(story)


def test_how_long_a_wrapped_plugin_took_is_its_own_time() -> None:
    """Without what capture-wrap needs to start and to record."""
    story = Story()
    pid = story.wrapped_entry("DEL", A, "bridge")
    story.wrapped_exit("DEL", A, "bridge", pid, milliseconds=30, took=12.5)
    (operation,) = operations(read(story))
    assert operation.milliseconds == 12.5


def test_a_replay_is_a_story_of_its_own() -> None:
    """Neither its ADD nor its DEL is the container's, and each DEL knows when its own ADD was."""
    story = Story()
    replayed = {"env": {"CNI_CAPTURE_REPLAY": "2026-11-30T12:03:44.118Z"}}
    story.enter("ADD", A)
    story.leave("ADD", A, result())
    story.enter("ADD", A, milliseconds=60_000, **replayed)
    story.enter("CHECK", A)
    story.leave("CHECK", A)
    story.leave("ADD", A, result(), **replayed)
    story.enter("DEL", A, milliseconds=1_000, **replayed)
    story.leave("DEL", A, **replayed)
    story.enter("DEL", A, milliseconds=60_000)
    story.leave("DEL", A)
    found = list(operations(read(story)))
    assert ["ADD a ok", "ADD a ok", "CHECK a ok", "DEL a ok", "DEL a ok"] == [words(each) for each in found]
    add, replay, _, replayed_del, last = found
    assert (replayed_del, last) == (ending(replay, found[2:]), ending(add, found[1:]))
    ages = [each.first.time - each.after.added for each in (replayed_del, last) if each.after and each.after.added]
    assert [1.003, 121.005] == [round(age.total_seconds(), 3) for age in ages]


def test_the_wall_clock_serves_where_the_monotonic_one_cannot() -> None:
    """After a reboot the monotonic clock is behind."""
    found = read(minimal())[:2]
    found[0].monotonic = 1e9
    (operation,) = operations(found)
    assert operation.milliseconds == pytest.approx(41)


def test_operations_come_in_the_order_in_which_they_began() -> None:
    """A slow ADD is listed before the quick ones that began after it, and at once only for who follows."""
    story = Story()
    story.enter("ADD", A)
    story.enter("ADD", B)
    story.leave("ADD", B, result())
    story.leave("ADD", A, result())
    assert ["ADD a ok", "ADD b ok"] == told(story)
    pairing = Pairing(at_once=True)
    for record in read(story):
        pairing.feed(record)
    assert ["ADD b ok", "ADD a ok"] == [words(operation) for operation in pairing.ready]


def test_what_is_held_back_is_bounded() -> None:
    """One ADD that hangs does not make the tool hold all that follows in memory."""
    story = Story()
    story.enter("ADD", A)
    pairing = Pairing()
    pairing.feed(read(story)[0])
    padding = b" " * 1_000_000
    most = 0
    for number in range(200):
        pods = Story()
        pods.enter("ADD", f"b{number}")
        pods.leave("ADD", f"b{number}", result())
        for record in read(pods):
            record.line = record.line + padding
            pairing.feed(record)
        most = max(most, sum(each.size for each in pairing._waiting))
        pairing.ready.clear()
    assert most < 4 * MOST_HELD


def test_what_began_and_is_not_back_can_be_asked_for() -> None:
    """Somebody who follows wants to hear of a plugin that hangs while it hangs."""
    story = Story()
    story.enter("ADD", A)
    (record,) = read(story)
    pairing = Pairing(at_once=True)
    pairing.feed(record)
    assert [] == pairing.overdue(record.time)
    assert ["ADD a undecided"] == [words(each) for each in pairing.overdue(record.time + timedelta(seconds=1))]


def test_the_end_of_an_add_is_its_del() -> None:
    """Deleted by the first DEL that came through, of the same attachment and pair, before it was added again."""
    found = list(operations(read(full())))
    ends = {
        number: found.index(end)
        for number, each in enumerate(found)
        if each.first.env.command == "ADD" and (end := ending(each, found[number + 1 :])) is not None
    }
    assert [
        "ADD 3 ok -> DEL 3 ok",
        "ADD 7 no exit seen -> DEL 7 ok after failure",
        "ADD b entry only -> DEL b exit only",
    ] == [f"{words(found[add])} -> {words(found[end])}" for add, end in ends.items()]
