"""`cni-capture run`: a conflist on any machine, by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture.commands import main
from tests.libcni.scenarios import Bench, Scenario, answer

CNI = Path("/usr/lib/cni")
ROOT = Path(__file__).parent.parent
RESULT = {
    "cniVersion": "1.0.0",
    "dns": {"nameservers": ["1.1.1.1"]},
    "interfaces": [{"mac": "aa:bb:cc:dd:ee:ff", "name": "eth0", "sandbox": "/x"}],
    "ips": [{"address": "10.1.1.2/24", "gateway": "10.1.1.1", "interface": 0}],
    "routes": [{"dst": "0.0.0.0/0"}],
}


def _can_unshare() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True).returncode == 0


apart = pytest.mark.skipif(not _can_unshare(), reason="needs root and namespaces of its own")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two plugins that answer well, on the network x."""
    bench = Bench(tmp_path, tmp_path / "cache")
    bench.set_up(Scenario("", "1.0.0", {"ADD": {"stdout": answer("1.0.0")}}))
    return bench


@pytest.fixture
def run(bench: Bench, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line after `cni-capture run VERB CONFLIST`: exit code, stdout, stderr."""

    def run(verb: str, *options: str) -> tuple[int, str, str]:
        where = ["--path", str(bench.plugins), "--cache-dir", str(bench.cache)]
        code = main(["run", verb, str(bench.conflist), *where, *options])
        return code, *capfd.readouterr()

    return run


def test_add_prints_the_result_as_libcni_does(run: Run) -> None:
    """The final result, indented by four, and nothing else on either stream."""
    assert (0, json.dumps(RESULT, indent=4) + "\n", "") == run("add", "--netns", "/ns")


def test_check_and_del_take_from_the_record_what_add_was_told(run: Run, bench: Bench) -> None:
    """Container ID, namespace, CNI_ARGS and capability arguments need not be said again."""
    network = json.loads(bench.conflist.read_text())
    network["plugins"][0]["capabilities"] = {"mac": True}
    bench.conflist.write_text(json.dumps(network))
    run("add", "--netns", "/ns", "--container-id", "web", "--args", "A=1;B=2", "--capability-args", '{"mac": "02::1"}')
    assert [(0, "", ""), (0, "", "")] == [run("check"), run("del")]
    given = f"web|/ns|eth0|A=1;B=2|{bench.plugins}|"
    assert [[verb, given] for verb in ("ADD", "CHECK", "DEL")] == bench.got("first", "env")
    configs = [json.loads(stdin) for _, stdin in bench.got("first")]
    assert [{"mac": "02::1"}] * 3 == [config["runtimeConfig"] for config in configs]
    assert [None, RESULT, RESULT] == [config.get("prevResult") for config in configs]
    assert [] == list((bench.cache / "results").iterdir())


def test_one_namespace_has_one_container_id(run: Run, bench: Bench) -> None:
    """Without --container-id it is made from the path, so add and del on one namespace mean one container."""
    for verb, path in (("add", "/ns"), ("add", "/other"), ("del", "/tmp/../ns")):
        assert run(verb, "--netns", path)[0] == 0
    first, other, deleted = (line.split("|")[0] for _, line in bench.got("first", "env"))
    assert first == deleted != other


def test_del_asks_which_of_several_containers(run: Run) -> None:
    """It names those on record; with nothing on record it asks for the container ID."""
    for name in ("web", "db"):
        run("add", "--netns", "/ns", "--container-id", name)
    assert (
        2,
        "",
        "cni-capture: several containers have eth0 on network x\nhint: choose one with --container-id: db, web\n",
    ) == run("del")
    assert (
        2,
        "",
        "cni-capture: no add of eth1 on network x is on record\n"
        "hint: name the container with --container-id and, if it is there, its namespace with --netns\n",
    ) == run("del", "--ifname", "eth1")


def test_del_of_a_container_that_nobody_recorded_runs(run: Run, bench: Bench) -> None:
    """As after a failed add: with a container ID, DEL goes through the chain with no namespace and no result."""
    assert (0, "", "") == run("del", "--container-id", "web")
    assert [["DEL", f"web||eth0||{bench.plugins}|"]] == bench.got("first", "env")


def test_a_failing_plugin_is_reported_with_all_it_said(run: Run, bench: Bench) -> None:
    """Its stderr, libcni's error, and how to undo what came before it; exit code 1, nothing on stdout."""
    told = {"stdout": '{"code": 7, "msg": "bad", "details": "no subnet"}', "stderr": "log line", "exit": "1"}
    bench.set_up(Scenario("", "1.0.0", second={"ADD": told}))
    stderr = (
        "log line\n"
        'cni-capture: plugin type="second" failed (add): bad; no subnet\n'
        "hint: a runtime would now undo what came before it: "
        f"cni-capture run del --container-id web --ifname eth0 {bench.conflist}\n"
    )
    assert (1, "", stderr) == run("add", "--netns", "/ns", "--container-id", "web")


def test_a_missing_plugin_points_to_the_path(run: Run, bench: Bench) -> None:
    """The error lists where it looked, the hint says how to have it look elsewhere."""
    (bench.plugins / "first").unlink()
    stderr = (
        f'cni-capture: failed to find plugin "first" in path [{bench.plugins}]\n'
        "hint: say with --path or CNI_PATH where plugins are\n"
    )
    assert (1, "", stderr) == run("check", "--container-id", "web")


def test_warnings_of_plugins_that_did_well_reach_stderr(run: Run, bench: Bench) -> None:
    """Standard output stays data."""
    told = {"stdout": answer("1.0.0"), "stderr": "careful\n"}
    bench.set_up(Scenario("", "1.0.0", {"ADD": told}))
    assert (0, json.dumps(RESULT, indent=4) + "\n", "careful\n") == run("add", "--netns", "/ns")


@pytest.mark.parametrize(
    ("verb", "options", "words"),
    [
        ("add", [], "Error: add needs a namespace: --netns PATH, or --new-netns to make one"),
        ("add", ["--netns", "/ns", "--new-netns"], "Error: --netns and --new-netns exclude each other"),
        ("add", ["--args", "A"], "--args: 'A' is not K=V;K=V, as in IgnoreUnknown=1;IP=10.1.1.7"),
        ("add", ["--capability-args", "{"], "--capability-args: unexpected end of JSON input; it takes an object,"),
        ("gc", ["--keep", "web"], "--keep: 'web' is not ID/IFNAME, as in web/eth0"),
        ("del", ["--container-id", "../x"], "cni-capture: no container ID: '../x'\nhint: letters and digits, and"),
    ],
)
def test_a_wrong_command_line_is_explained(run: Run, bench: Bench, verb: str, options: list[str], words: str) -> None:
    """Exit code 2, what is wrong, no traceback; and no plugin was run."""
    code, stdout, stderr = run(verb, *options)
    assert (2, "", True) == (code, stdout, words in stderr), stderr
    assert [] == bench.got("first")


def test_gc_keeps_what_lives_and_what_it_is_told_to(run: Run, bench: Bench, tmp_path: Path) -> None:
    """Attachments whose namespace is gone get a DEL; the plugins are told of the others and of --keep."""
    bench.set_up(Scenario("", "1.1.0"))
    for name, netns in (("alive", tmp_path), ("gone", "/no/such/namespace")):
        run("add", "--netns", str(netns), "--container-id", name)
    assert (0, "", "") == run("gc", "--keep", "other/net1")
    *_, deleted, collected = bench.got("first")
    valid = [{"containerID": "alive", "ifname": "eth0"}, {"containerID": "other", "ifname": "net1"}]
    assert ["DEL", "GC"] == [deleted[0], collected[0]]
    assert valid == json.loads(collected[1])["cni.dev/valid-attachments"]
    assert ["x-alive-eth0"] == os.listdir(bench.cache / "results")


def test_status_asks_every_plugin(run: Run, bench: Bench) -> None:
    """The first that is not ready is the answer."""
    bench.set_up(Scenario("", "1.1.0", second={"STATUS": {"stdout": '{"code": 50, "msg": "not yet"}', "exit": "1"}}))
    assert (1, "", "cni-capture: not yet\n") == run("status")
    assert ["STATUS"] == [verb for verb, _ in bench.got("first")]


HANGS = "#!/bin/sh\necho $$ >$0.pid; cat >/dev/null; kill -INT $PPID; exec sleep 60\n"
"""A plugin at which the user loses patience: once it has its input, its runtime is interrupted; it would go on."""


def test_an_interrupt_ends_the_plugin_and_no_more(bench: Bench) -> None:
    """Ctrl-C at a plugin that hangs: exit code 130, the line break after ^C, and the plugin is gone."""
    (bench.plugins / "first").write_text(HANGS)
    words = ["run", "add", str(bench.conflist), "--netns", "/ns", "--path", str(bench.plugins)]
    done = subprocess.run([sys.executable, "-m", "cni_capture", *words], capture_output=True, timeout=20, cwd=ROOT)
    assert (130, b"", b"\n") == (done.returncode, done.stdout, done.stderr)
    assert not Path("/proc", (bench.plugins / "first.pid").read_text().strip()).exists()


def _apart(script: str, tmp_path: Path) -> str:
    """What a shell script prints that runs in a network and a mount namespace of its own, with `run` as a command."""
    prelude = f"""
        set -eu
        mount -t tmpfs tmpfs /run && mkdir -p /run/netns /run/lock
        mount -t tmpfs tmpfs /var/lib
        ip link set lo up
        run() {{ {sys.executable} -m cni_capture run "$@"; }}
        cd {ROOT}
    """
    done = subprocess.run(
        ["unshare", "-n", "-m", "--propagation", "private", "sh", "-c", prelude + script],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "CNI_PATH": f"{tmp_path}/plugins:{CNI}"},
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@apart
def test_a_namespace_made_for_add_is_removed_by_the_last_del(bench: Bench, tmp_path: Path) -> None:
    """Two interfaces in it: after the first del it is still there, after the second it is gone."""
    script = f"""
        run add --new-netns {bench.conflist} >/dev/null
        ip netns list
        run add --netns /var/run/netns/cni-capture-trial --container-id trial --ifname eth1 {bench.conflist} >/dev/null
        run del {bench.conflist}
        ip netns list
        run del --ifname eth1 {bench.conflist}
        ip netns list
    """
    assert "cni-capture-trial\ncni-capture-trial\n" == _apart(script, tmp_path)
    netns = "/var/run/netns/cni-capture-trial"
    expected = [(verb, netns, name) for name in ("eth0", "eth1") for verb in ("ADD", "DEL")]
    given = [line.split("|") for _, line in bench.got("first", "env")]
    verbs = [verb for verb, _ in bench.got("first", "env")]
    assert sorted(expected) == sorted((verb, line[1], line[2]) for verb, line in zip(verbs, given, strict=True))


@apart
def test_a_namespace_made_for_an_add_that_fails_is_removed_at_once(bench: Bench, tmp_path: Path) -> None:
    """So the next try finds the name free."""
    bench.set_up(Scenario("", "1.0.0", second={"ADD": {"exit": "1", "stdout": "{}"}}))
    script = f"run add --new-netns {bench.conflist} 2>/dev/null || echo exit $?; ip netns list"
    assert "exit 1\n" == _apart(script, tmp_path)


@apart
def test_an_interrupt_removes_the_namespace_made_for_the_add(bench: Bench, tmp_path: Path) -> None:
    """Nothing is left of a try that the user gave up."""
    (bench.plugins / "first").write_text(HANGS)
    script = f"run add --new-netns {bench.conflist} || echo exit $?; ip netns list"
    assert "exit 130\n" == _apart(script, tmp_path)


@apart
def test_a_second_add_for_the_same_container_is_refused(bench: Bench, tmp_path: Path) -> None:
    """The namespace of the first is left alone, and the hint says how to end it."""
    script = f"""
        run add --new-netns {bench.conflist} >/dev/null
        run add --new-netns {bench.conflist} 2>&1 || echo exit $?
        ip netns list
    """
    expected = (
        "cni-capture: there is a namespace for container ID trial already: /var/run/netns/cni-capture-trial\n"
        f"hint: end that one with: cni-capture run del --container-id trial --ifname eth0 {bench.conflist}, "
        "or choose another --container-id\n"
        "exit 2\ncni-capture-trial\n"
    )
    assert expected == _apart(script, tmp_path)


@apart
@pytest.mark.skipif(not (CNI / "host-local").exists(), reason="needs the reference plugins")
def test_a_real_chain_comes_and_goes(tmp_path: Path) -> None:
    """bridge, host-local and tuning: the address of the result is there, check misses it, del leaves nothing."""
    network = {
        "cniVersion": "1.0.0",
        "name": "real",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cnic0",
                "isGateway": True,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.1.0/24"}]]},
            },
            {"type": "tuning", "mtu": 1400},
        ],
    }
    conflist = tmp_path / "real.conflist"
    conflist.write_text(json.dumps(network))
    script = f"""
        run add --new-netns {conflist} | grep -o '10[.].*/24'
        ip netns exec cni-capture-trial ip -o address show eth0 | grep -o '10[.].*/24'
        run check {conflist} && echo well
        ip netns exec cni-capture-trial ip address flush dev eth0
        run check {conflist} 2>&1 || true
        run del {conflist}
        ip netns list
        ls /var/lib/cni/networks/real /var/lib/cni-capture/results | grep -e '^10[.]' -e trial || echo nothing left
    """
    expected = (
        "10.99.1.2/24\n10.99.1.2/24\nwell\n"
        "cni-capture: Failed to match addr 10.99.1.2/24 on interface eth0\n"
        "nothing left\n"
    )
    assert expected == _apart(script, tmp_path)
