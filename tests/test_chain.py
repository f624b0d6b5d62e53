"""The chain: what it does is what libcni did, measured, and what its source says where nothing was measured."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cni_capture.libcni import chain, invoke
from cni_capture.libcni.attachments import Attachment, Cache
from cni_capture.libcni.gojson import GoError
from cni_capture.libcni.invoke import Answer
from cni_capture.libcni.network import Network, Plugin
from tests.libcni.engines import ours
from tests.libcni.scenarios import Bench, Scenario, answer, scenarios

ANSWERS = Path(__file__).with_name("libcni") / "answers.jsonl"
MEASURED = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
WEB = Attachment("web", netns="/var/run/netns/web")


def _network(*plugins: Mapping[str, Any], **keys: Any) -> Network:
    entries = tuple(
        Plugin(
            type=entry["type"],
            name=entry.get("name", ""),
            capabilities=tuple(name for name, on in entry.get("capabilities", {}).items() if on),
            config=dict(entry),
        )
        for entry in plugins
    )
    network = Network("mynet", "1.1.0", entries, disable_check=False, disable_gc=False, source=b"{}")
    return replace(network, **keys)


class Recorder:
    """An `execute` that runs nothing: it notes every call, and answers by plugin and verb."""

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        self.answers = answers or {}
        self.calls: list[tuple[str, str, Any]] = []

    def __call__(self, path: str, stdin: bytes, environ: Mapping[str, str]) -> Answer:
        name, verb = os.path.basename(path), environ["CNI_COMMAND"]
        self.calls.append((verb, name, json.loads(stdin)))
        return self.answers.get(f"{name} {verb}", Answer(b"{}" if verb == "ADD" else b""))


@pytest.fixture
def runtime(tmp_path: Path) -> Callable[..., chain.Runtime]:
    """A runtime whose plugins are the empty files first, second and third, run by the given `execute`."""
    for name in ("first", "second", "third"):
        (tmp_path / name).touch()

    def make(execute: invoke.Execute, **more: Any) -> chain.Runtime:
        return chain.Runtime([str(tmp_path)], Cache(tmp_path / "cache"), execute=execute, **more)

    return make


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("scenario", "measured"),
    list(zip(scenarios(), MEASURED, strict=True)),
    ids=[f"{case['title']} ({case['version']})" for case in MEASURED],
)
def test_a_chain_does_what_libcni_did(bench: Bench, scenario: Scenario, measured: Any) -> None:
    """Result, exit code, error text, record and the second plugin's stdin are those measured with libcni 1.3.0."""
    assert measured == json.loads(json.dumps(bench.play(scenario, ours)))


def test_add_runs_forward_and_del_backward(runtime: Callable[..., chain.Runtime]) -> None:
    """ADD, CHECK, STATUS and GC go through the list from its start, DEL from its end."""
    network = _network({"type": "first"}, {"type": "second"}, {"type": "third"})
    seen = Recorder()
    for verb in ("ADD", "CHECK", "STATUS", "DEL", "GC"):
        assert chain.run(verb, network, WEB, runtime(seen)).error is None
    names = ["first", "second", "third"]
    expected = [(verb, name) for verb in ("ADD", "CHECK", "STATUS", "DEL", "GC") for name in names]
    expected[9:12] = reversed(expected[9:12])
    assert expected == [(verb, name) for verb, name, _ in seen.calls]


def test_runtime_config_goes_only_to_those_who_declare_the_capability(runtime: Callable[..., chain.Runtime]) -> None:
    """Each plugin gets of the capability arguments those that its own entry declares as true, on every verb."""
    network = _network(
        {"type": "first", "capabilities": {"mac": True, "ips": False, "bandwidth": True}},
        {"type": "second", "capabilities": {"ips": True}, "runtimeConfig": {"ips": ["by hand"]}},
        {"type": "third", "runtimeConfig": {"by": "hand"}},
    )
    attachment = replace(WEB, capability_args={"mac": "02::1", "ips": ["10.0.0.7/24"]})
    seen = Recorder()
    for verb in ("ADD", "CHECK", "DEL"):
        chain.run(verb, network, attachment, runtime(seen))
    expected = {"first": {"mac": "02::1"}, "second": {"ips": ["10.0.0.7/24"]}, "third": {"by": "hand"}}
    assert [expected[name] for _, name, _ in seen.calls] == [given["runtimeConfig"] for _, _, given in seen.calls]


def test_every_plugin_gets_the_name_and_version_of_the_network(runtime: Callable[..., chain.Runtime]) -> None:
    """What an entry says of name, version and prevResult gives way to what the network and the chain say."""
    network = _network({"type": "first", "name": "own", "cniVersion": "0.1.0", "more": [1.5]})
    seen = Recorder()
    chain.run("ADD", network, WEB, runtime(seen))
    given = {"cniVersion": "1.1.0", "more": [1.5], "name": "mynet", "type": "first"}
    assert [("ADD", "first", given)] == seen.calls


def test_the_environment_is_the_callers_with_all_of_cni() -> None:
    """Every CNI_* variable is set, if need be to nothing, over whatever the caller had of it."""
    base = {"HOME": "/root", "CNI_ARGS": "left=over", "CNI_IFNAME": "old"}
    attachment = Attachment("web", "/ns", "eth1", args=(("A", "1"), ("B", "2")))
    expected = {
        "HOME": "/root",
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "web",
        "CNI_NETNS": "/ns",
        "CNI_IFNAME": "eth1",
        "CNI_ARGS": "A=1;B=2",
        "CNI_PATH": "/a:/b",
    }
    assert expected == chain.environ(base, "ADD", attachment, ["/a", "/b"])


def test_gc_tells_plugins_what_is_valid_and_deletes_the_rest(runtime: Callable[..., chain.Runtime]) -> None:
    """Attachments on record that are not valid get a DEL; then every plugin hears of the valid ones, twice named."""
    network = _network({"type": "first"})
    seen = Recorder()
    host = runtime(seen)
    for name in ("gone", "web"):
        chain.run("ADD", network, Attachment(name), host)
    chain.run("ADD", replace(network, name="other"), Attachment("gone"), host)
    seen.calls.clear()
    outcome = chain.run("GC", network, Attachment(""), host, valid=[WEB, Attachment("elsewhere", ifname="net1")])
    valid = [{"containerID": "web", "ifname": "eth0"}, {"containerID": "elsewhere", "ifname": "net1"}]
    config = {"cniVersion": "1.1.0", "name": "mynet", "type": "first"}
    assert chain.Outcome() == outcome
    assert [
        ("DEL", "first", {**config, "prevResult": {"cniVersion": "1.1.0"}}),
        ("GC", "first", {**config, "cni.dev/attachments": valid, "cni.dev/valid-attachments": valid}),
    ] == seen.calls
    expected = [("mynet", "web"), ("other", "gone")]
    assert expected == [(name, attachment.container_id) for name, attachment in host.cache.attachments()]


def test_gc_goes_on_after_a_failure_and_reports_all(runtime: Callable[..., chain.Runtime]) -> None:
    """A DEL or a GC that fails keeps no other plugin from its GC, and every failure is in the text."""
    error = Answer(b'{"code": 11, "msg": "busy"}', b"why\n", "exit status 1")
    network = _network({"type": "first"}, {"type": "second"})
    host = runtime(Recorder())
    chain.run("ADD", network, WEB, host)
    seen = Recorder({"second DEL": error, "first GC": error})
    outcome = chain.run("GC", network, WEB, runtime(seen), valid=[])
    text = (
        'failed to delete stale attachment web eth0: plugin type="second" failed (delete): busy\n'
        "failed to GC plugin first: busy"
    )
    assert chain.Outcome(error=text, stderr=b"why\nwhy\n") == outcome
    expected = [("DEL", "second"), ("GC", "first"), ("GC", "second")]
    assert expected == [(verb, name) for verb, name, _ in seen.calls]


@pytest.mark.parametrize(("verb", "switch"), [("CHECK", "disable_check"), ("GC", "disable_gc")])
def test_a_disabled_verb_runs_nothing(runtime: Callable[..., chain.Runtime], verb: str, switch: str) -> None:
    """disableCheck and disableGC make the verb succeed at once."""
    seen = Recorder()
    assert chain.Outcome() == chain.run(verb, _network({"type": "first"}, **{switch: True}), WEB, runtime(seen))
    assert not seen.calls


@pytest.mark.parametrize(
    ("container_id", "ifname", "text"),
    [
        ("", "eth0", "missing containerID"),
        ("../x", "eth0", "invalid characters in containerID; ../x"),
        ("web", "", "interface name is empty"),
        ("web", "x" * 16, "interface name is too long; interface name should be less than 16 characters"),
        ("web", "..", "interface name is . or .."),
        ("web", "a b", "interface name contains / or : or whitespace characters"),
    ],
)
def test_add_refuses_names_as_libcni_does(
    runtime: Callable[..., chain.Runtime], container_id: str, ifname: str, text: str
) -> None:
    """A bad container ID or interface name is refused before the plugin is run."""
    seen = Recorder()
    outcome = chain.run("ADD", _network({"type": "first"}), Attachment(container_id, ifname=ifname), runtime(seen))
    assert chain.Outcome(error=f'plugin type="first" failed (add): {text}') == outcome
    assert not seen.calls


def test_a_failure_carries_the_stderr_that_libcni_drops(runtime: Callable[..., chain.Runtime]) -> None:
    """libcni shows an error object and forgets the plugin's stderr; the outcome has both."""
    seen = Recorder({"first ADD": Answer(b'{"code": 7, "msg": "no", "details": "way"}', b"log\n", "exit status 1")})
    outcome = chain.run("ADD", _network({"type": "first"}), WEB, runtime(seen))
    assert chain.Outcome(error='plugin type="first" failed (add): no; way', stderr=b"log\n") == outcome


def test_a_record_that_is_damaged_fails_check_but_not_del(runtime: Callable[..., chain.Runtime]) -> None:
    """CHECK says what is wrong with the record; DEL does without it, because it has to get rid of things."""
    network = _network({"type": "first"})
    seen = Recorder()
    host = runtime(seen)
    chain.run("ADD", network, WEB, host)
    record = host.cache.directory / "results" / "mynet-web-eth0"
    record.write_text("{")
    text = (
        'failed to get network "mynet" cached result: '
        "decoding version from network config: unexpected end of JSON input"
    )
    assert chain.Outcome(error=text) == chain.run("CHECK", network, WEB, host)
    assert chain.Outcome() == chain.run("DEL", network, WEB, host)
    expected = [("ADD", False), ("DEL", False)]
    assert expected == [(verb, "prevResult" in given) for verb, _, given in seen.calls]
    assert not record.exists()


def test_a_record_is_readable_by_its_owner_only(runtime: Callable[..., chain.Runtime]) -> None:
    """The cache holds what the runtime was told, secrets included."""
    host = runtime(Recorder())
    chain.run("ADD", _network({"type": "first"}), WEB, host)
    results = host.cache.directory / "results"
    expected = [0o700, 0o600]
    assert expected == [path.stat().st_mode & 0o777 for path in (results, results / "mynet-web-eth0")]


def test_a_result_that_cannot_be_recorded_fails_the_add(runtime: Callable[..., chain.Runtime], tmp_path: Path) -> None:
    """Without a record no DEL could follow, so libcni gives an error instead of the result."""
    (tmp_path / "cache").touch()
    outcome = chain.run("ADD", _network({"type": "first"}), WEB, runtime(Recorder()))
    results = tmp_path / "cache" / "results"
    text = f'failed to set network "mynet" cached result: mkdir {results}: not a directory'
    assert chain.Outcome(error=text) == outcome


def test_a_plugin_that_is_being_written_is_tried_again(bench: Bench) -> None:
    """Text file busy is no failure while an installer is still at it."""
    bench.set_up(Scenario("", "1.0.0"))
    plugin = bench.plugins / "first"
    writers = [plugin.open("ab")]
    done = invoke.execute(str(plugin), b"{}", {"CNI_COMMAND": "CHECK"}, pause=lambda: writers.pop().close())
    assert (Answer(b"", returncode=0), []) == (done, writers)


def test_a_plugin_that_stays_busy_counts_as_silent(bench: Bench) -> None:
    """After six tries libcni takes it that the plugin said nothing and did well; so do we."""
    bench.set_up(Scenario("", "1.0.0"))
    pauses: list[None] = []
    with (bench.plugins / "first").open("ab"):
        done = invoke.execute(str(bench.plugins / "first"), b"{}", {}, pause=lambda: pauses.append(None))
    assert (Answer(b""), 6) == (done, len(pauses))


def test_endings_are_named_as_go_names_them(tmp_path: Path) -> None:
    """Signals and errors of exec have Go's names in the text, not Python's."""
    program = tmp_path / "program"

    def ending(script: str) -> str:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return invoke.execute(str(program), b"", {}).failure

    signals = (signal.SIGTERM, signal.SIGABRT, signal.SIGXCPU, signal.SIGIO, signal.SIGRTMIN)
    expected = ["exit status 3", "signal: terminated", "signal: aborted", "signal: CPU time limit exceeded"]
    assert [*expected, "signal: I/O possible", f"signal: signal {signal.SIGRTMIN:d}"] == [
        ending("exit 3"),
        *(ending(f"kill -{number:d} $$") for number in signals),
    ]


def test_plugins_are_found_as_libcni_finds_them(tmp_path: Path) -> None:
    """The first regular file of that name on the path, and libcni's words when there is none."""
    for place in ("a/bridge/", "b/", "c/"):
        (tmp_path / place).mkdir(parents=True)
    for place in ("b/bridge", "c/bridge"):
        (tmp_path / place).touch()
    paths = [str(tmp_path / place) for place in "abc"]
    assert paths[1] + "/bridge" == invoke.find("bridge", paths)
    for plugin, searched, text in (
        ("a/b", ["/x"], "invalid plugin name: a/b"),
        ("bridge", [], "no paths provided"),
        ("bridge", ["/x", "/y"], 'failed to find plugin "bridge" in path [/x /y]'),
    ):
        with pytest.raises(GoError, match=f"^{re.escape(text)}$"):
            invoke.find(plugin, searched)


def test_stderr_of_a_plugin_that_did_well_is_passed_on(runtime: Callable[..., chain.Runtime]) -> None:
    """As libcni does, whatever the plugin wrote is handed to the runtime's stderr."""
    heard: list[bytes] = []
    seen = Recorder({"first ADD": Answer(answer("1.1.0").encode(), b"warning\n")})
    chain.run("ADD", _network({"type": "first"}), WEB, runtime(seen, stderr=heard.append))
    expected = [b"warning\n"]
    assert expected == heard
