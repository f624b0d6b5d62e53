"""A wrapped plugin under a real libcni: everything that it does, right or wrong, comes out the same as without us.

The one difference is the name in libcni's own words, `plugin type="capture-wrap" failed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.libcni.engines import cnitool
from tests.libcni.scenarios import Bench, Engine, Scenario, answer, scenarios
from tests.runtimes import tools
from tests.runtimes.containerd import CHAIN
from tests.runtimes.host import Host
from tests.runtimes.lab import play_both
from tests.runtimes.probes import LOG, Entry
from tests.runtimes.shown import assert_shown
from tests.runtimes.table import Table
from tests.runtimes.test_cnitool import CHAINS, CNITOOL, STEPS, Chain, Lab, Plugins, debian, newest
from tests.runtimes.test_containerd import CriLab, Release, run_with_ctr
from tests.runtimes.test_containerd import debian as debian_containerd
from tests.runtimes.test_containerd import newest as newest_containerd
from tests.runtimes.test_podman import PORT as PODMAN_PORT
from tests.runtimes.test_podman import WEB, PodmanLab
from tests.runtimes.transcript import Transcript, assert_same

ANSWERS = Path(__file__).parents[1] / "libcni" / "answers.jsonl"
MEASURED = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
CNITOOLS = ("cnitool-1.3.0", "cnitool")
_TYPE = re.compile(r'plugin (type="[a-z-]+"|[a-z-]+(?=: gc))')


class WrappingBench(Bench):
    """The same bench with each plugin of its network wrapped."""

    def set_up(self, scenario: Scenario) -> None:
        super().set_up(scenario)
        (self.plugins / "capture-wrap").symlink_to(tools.PROBES / "capture-wrap")
        settings = {"logFile": str(self.conflists.parent / "cni.log"), "lockFile": str(self.conflists.parent / "lock")}
        network = json.loads(self.conflist.read_text())
        for entry in network["plugins"]:
            entry.update(capture={"type": entry["type"], **settings}, type="capture-wrap")
        self.conflist.write_text(json.dumps(network))


def engine(which: str) -> Engine:
    tools.need("unshare")
    return cnitool(tools.go_folder(which) / "cnitool")


def nameless(played: dict[str, Any]) -> dict[str, Any]:
    """What was seen of a scenario, without the names of plugins in libcni's own words."""
    ran = [{**verb, "stderr": _TYPE.sub("plugin TYPE", verb["stderr"])} for verb in played["ran"]]
    return {**played, "ran": ran}


@pytest.mark.parametrize(
    ("scenario", "measured"),
    list(zip(scenarios(), MEASURED, strict=True)),
    ids=[f"{case['title']} ({case['version']})" for case in MEASURED],
)
def test_libcni_does_the_same_with_a_wrapped_plugin(tmp_path: Path, scenario: Scenario, measured: Any) -> None:
    """Result, exit, error text, cache, what the next plugin gets: as measured plain, with libcni 1.3.0."""
    wrapped = WrappingBench(tmp_path, tmp_path / "cache").play(scenario, engine("cnitool-1.3.0"))
    assert nameless(measured) == nameless(json.loads(json.dumps(wrapped)))


def test_the_newest_libcni_does_the_same_with_a_wrapped_plugin(tmp_path: Path) -> None:
    """Every scenario of one version of the specification, with and without the wrap."""
    plain, wrapped = (
        kind(tmp_path / kind.__name__, tmp_path / kind.__name__ / "cache") for kind in (Bench, WrappingBench)
    )
    run = engine("cnitool")
    for scenario in scenarios():
        if scenario.version == "1.1.0":
            assert nameless(plain.play(scenario, run)) == nameless(wrapped.play(scenario, run)), scenario.title


LARGE = answer("1.0.0", dns={"search": ["x" * 1000] * 10_000})
GOOD = 'cat >/dev/null; echo \'{"cniVersion": "1.0.0", "ips": [{"address": "10.1.1.2/24"}]}\''
MISFITS = {
    "reads no stdin": f"exec <&-; {GOOD.partition('; ')[2]}",
    "ends before it has read": GOOD.partition("; ")[2],
    "forks and lives on": f"{GOOD}; sleep 1 &",
    "closes what it does not use": f"exec 2>&-; {GOOD}",
    "closes its stdout": "cat >/dev/null; exec >&-; echo lost; exit 1",
    "closes all": "exec <&- >&- 2>&-; exit 3",
    "dies of SIGKILL": "kill -9 $$",
    "dies of SIGTERM": "cat >/dev/null; kill $$",
    "dies of SIGPIPE": "cat >/dev/null; kill -13 $$",
    "dies of SIGABRT": "cat >/dev/null; ulimit -c 0; kill -6 $$",
    "dies of a real-time signal": "cat >/dev/null; kill -40 $$",
    "dies after its result": f"{GOOD}; kill -9 $$",
    "says much and fails": "cat >/dev/null; head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 1",
    "says much and succeeds": f"{GOOD}; head -c 10000000 /dev/zero | tr '\\0' x >&2",
    "ends with 255": "cat >/dev/null; exit 255",
}


@pytest.mark.parametrize("which", CNITOOLS)
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_misfit_is_the_same_wrapped(tmp_path: Path, which: str, misfit: str) -> None:
    """However a plugin treats its streams, and whatever it dies of."""
    scenario = Scenario(misfit, "1.0.0", verbs=("add", "del"))
    assert_same_wrapped(tmp_path, which, scenario, lambda first: first.write_text(f"#!/bin/sh\n{MISFITS[misfit]}\n"))


@pytest.mark.parametrize("which", CNITOOLS)
def test_ten_megabytes_are_the_same_wrapped(tmp_path: Path, which: str) -> None:
    """On stdout and stderr of the first plugin, and on stdin of the second."""
    scenario = Scenario(
        "large", "1.0.0", {"ADD": {"stdout": LARGE, "stderr": "x" * 10_000_000}}, {"ADD": {"stdout": LARGE}}
    )
    assert_same_wrapped(tmp_path, which, scenario, lambda first: None)


@pytest.mark.parametrize("which", CNITOOLS)
@pytest.mark.parametrize(
    "what", ["a folder", "a link to a plugin", "a link to nowhere", "a program for another machine"]
)
def test_a_plugin_that_is_no_program_is_the_same_wrapped(tmp_path: Path, which: str, what: str) -> None:
    """Whatever stands in the place of the plugin."""

    def put(first: Path) -> None:
        if what == "a program for another machine":
            first.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
            return
        moved = first.rename(first.with_name("moved"))
        if what == "a folder":
            first.mkdir()
        else:
            first.symlink_to(moved if "plugin" in what else "nowhere")

    assert_same_wrapped(tmp_path, which, Scenario(what, "1.0.0"), put)


def test_a_plugin_that_stays_busy_fails_wrapped_as_well(tmp_path: Path) -> None:
    """Text file busy for longer than libcni has patience: its own words are a riddle ("exec: already started")."""
    bench = WrappingBench(tmp_path, tmp_path / "cache")
    scenario = Scenario("busy", "1.0.0")
    bench.set_up(scenario)
    with (bench.plugins / "first").open("a"):
        code, stdout, stderr = engine("cnitool-1.3.0")(bench, "add")
    why = f"netplugin failed with no error message: fork/exec {bench.plugins}/first: text file busy"
    assert (1, "", f'plugin type="capture-wrap" failed (add): {why}\n') == (code, stdout, stderr)


def assert_same_wrapped(root: Path, which: str, scenario: Scenario, put: Callable[[Path], object]) -> None:
    """Play a scenario plain and wrapped, the first plugin being what is `put` in its place."""

    def play(kind: type[Bench]) -> dict[str, Any]:
        class Prepared(kind):  # type: ignore[misc, valid-type]
            def set_up(self, scenario: Scenario) -> None:
                super().set_up(scenario)
                put(self.plugins / "first")

        bench: Bench = Prepared(root / kind.__name__, root / kind.__name__ / "cache")
        return nameless(bench.play(scenario, engine(which)))

    with ThreadPoolExecutor() as pool:
        plain, wrapped = pool.map(play, (Bench, WrappingBench))
    assert plain == wrapped


def wrapped(entry: Entry, ipam: bool, itself: bool) -> Entry:
    """A plugin's entry with its IPAM plugin wrapped, or itself, or both."""

    def wrap(entry: Entry) -> Entry:
        return {
            **entry,
            "type": "capture-wrap",
            "capture": {"type": entry["type"], "logFile": LOG, "logFormat": "json"},
        }

    if ipam and "ipam" in entry:
        entry = {**entry, "ipam": wrap(entry["ipam"])}
    return wrap(entry) if itself else entry


def expected(verbs: str, plugins: Sequence[Entry], ipam: bool, itself: bool) -> Iterator[tuple[str, str, str]]:
    """The records of wrapped plugins: plugin, verb, side."""
    for verb in verbs.split():
        for entry in reversed(plugins) if verb == "DEL" else plugins:
            calls_ipam = ipam and "ipam" in entry and verb != "GC"  # nobody hands that on
            if itself:
                yield entry["type"], verb, "entry"
            if calls_ipam:
                yield entry["ipam"]["type"], verb, "entry"
                yield entry["ipam"]["type"], verb, "exit"
            if itself:
                yield entry["type"], verb, "exit"


CASES = [
    (which, chain, spec, ipam, itself)
    for which, specs in ((debian, ("0.4.0",)), (newest, ("0.3.1", "1.1.0")))
    for chain in CHAINS
    for spec in specs
    for ipam, itself in ((True, False), (True, True), (False, True))
    if spec >= chain.since and (itself or any("ipam" in entry for entry in chain.plugins))
    if spec == "1.1.0" or (ipam and itself) or not any("ipam" in entry for entry in chain.plugins)
]


def _id(case: tuple[Callable[[], Plugins], Chain, str, bool, bool]) -> str:
    which, chain, spec, ipam, itself = case
    return f"{which.__name__}-{chain.what}-{spec}-{'+'.join(['plugins'] * itself + ['ipam'] * ipam)}"


@pytest.mark.parametrize(("which", "chain", "spec", "ipam", "itself"), CASES, ids=map(_id, CASES))
def test_a_chain_does_the_same_wrapped(
    which: Callable[[], Plugins], chain: Chain, spec: str, ipam: bool, itself: bool, table: Table
) -> None:
    """Real plugins and traffic: results, links, rules, files, exit codes the same, each call seen from both ends."""
    tools.need("ip", "bridge", "tc", "nft", "iptables", "ping", "unshare", "nsenter")
    plugins = which()
    steps, verbs = STEPS[spec]
    types = [entry["type"] for entry in chain.plugins]
    transcripts: list[Transcript] = []
    for entries in (chain.plugins, [wrapped(entry, ipam, itself) for entry in chain.plugins]):
        with Host() as host:
            lab = Lab(host, plugins.folders, spec, entries, chain)
            lab.transcript.names |= {f'plugin type="{name}"': "plugin TYPE" for name in (*types, "capture-wrap")}
            for verb in steps.split():
                lab.do(verb)
            transcripts.append(lab.transcript)
            records = logged(host)
            assert_shown(host)
    assert_same(*transcripts)
    assert list(expected(verbs, chain.plugins, ipam, itself)) == records
    what = "the same chains wrapped, with IPAM and without"
    table.add(CNITOOL, plugins=plugins.name, spec=spec, verbs=verbs, what=what, records=len(records))


def logged(host: Host) -> list[tuple[str, str, str]]:
    """The records of the log: plugin, verb, side."""
    lines = host.read(LOG).splitlines() if host.path(LOG).exists() else []
    records = [json.loads(line) for line in lines]
    return [(record["plugin"], record["env"]["CNI_COMMAND"], record["side"]) for record in records]


class WrappedPodman(PodmanLab):
    """Podman with every plugin of its network wrapped, IPAM as well."""

    def spliced(self, plugins: Sequence[Entry], first: int = 0) -> Sequence[Entry]:
        return [wrapped(entry, True, True) for entry in plugins] if self._probes else plugins


class WrappedCri(CriLab):
    """containerd with every plugin of its network wrapped, IPAM as well."""

    def spliced(self, plugins: Sequence[Entry], first: int = 0) -> Sequence[Entry]:
        return [wrapped(entry, True, True) for entry in plugins] if self._probes else plugins


def test_podman_does_the_same_with_wrapped_plugins(archive: Path, table: Table) -> None:
    """A container with a port: run, restarted, stopped, removed; podman asks each wrap for its VERSION."""
    tools.need("podman", "conmon", str(tools.DEBIAN_PLUGINS / "bridge"))

    def make(host: Host, wraps: bool) -> WrappedPodman:
        lab = WrappedPodman(host, wraps, archive)
        lab.put_network("web", lab.spliced(WEB))
        return lab

    def scenario(lab: WrappedPodman) -> None:
        lab.run("a", f"--network web --publish {PODMAN_PORT}:80")
        lab.look("a", "web")
        lab.do("restart --time 0 a")
        lab.look("a", "web")
        lab.do("stop --time 0 a")
        lab.gone("a")
        lab.do("rm a")

    _, records = play_both(make, scenario, logged)
    assert list(expected("ADD DEL ADD DEL", WEB, True, True)) == records
    runtime = f"podman {tools.debian_version('podman')}"
    plugins = f"Debian {tools.debian_version('containernetworking-plugins')}"
    what = "run, restart, stop with all plugins and IPAM wrapped"
    table.add(runtime, plugins=plugins, spec="1.0.0", verbs="ADD DEL", what=what, records=len(records))


@pytest.mark.parametrize(("release", "spec"), [(debian_containerd, "1.0.0"), (newest_containerd, "1.1.0")])
def test_containerd_does_the_same_with_wrapped_plugins(
    archive: Path, release: Callable[[], Release], spec: str, table: Table
) -> None:
    """A pod with port and bandwidth: run, stopped twice, removed."""
    found = release()

    def scenario(lab: WrappedCri) -> None:
        lab.run("a")
        lab.look("a")
        lab.stop("a")
        lab.transcript.look_at_host()
        lab.stop("a")
        lab.remove("a")

    _, records = play_both(lambda host, wraps: WrappedCri(host, wraps, archive, found, spec, CHAIN), scenario, logged)
    assert list(expected("ADD DEL DEL DEL", CHAIN, True, True)) == records
    what = "the same pod with all plugins and IPAM wrapped"
    table.add(found.name, plugins=found.plugins_name, spec=spec, verbs="ADD DEL", what=what, records=len(records))


@pytest.mark.parametrize("release", [debian_containerd, newest_containerd])
def test_ctr_run_with_cni_does_the_same_with_wrapped_plugins(
    archive: Path, release: Callable[[], Release], table: Table
) -> None:
    """A container without CRI; its DEL comes without a namespace."""
    found = release()
    _, records = play_both(
        lambda host, wraps: WrappedCri(host, wraps, archive, found, "1.0.0", CHAIN), run_with_ctr, logged
    )
    assert list(expected("ADD DEL", CHAIN, True, True)) == records
    what = "ctr run --cni with all plugins and IPAM wrapped"
    table.add(found.name, plugins=found.plugins_name, spec="1.0.0", verbs="ADD DEL", what=what, records=len(records))
