"""Probes come and go under running containerd and podman by `cni-capture` itself, and their owners' rewriting.

Everything is installed as on a node: launchers in the plugin directory, the command run by root, in a host of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.runtimes import tools
from tests.runtimes.containerd import CHAIN, NETWORK, NETWORKS, PLUGINS, Containerd
from tests.runtimes.cri import pod_config
from tests.runtimes.host import Host
from tests.runtimes.podman import Podman, bridge
from tests.runtimes.probes import LOG, expected, logged
from tests.runtimes.shown import assert_shown
from tests.runtimes.test_containerd import Release, debian, newest
from tests.runtimes.waiting import until

TYPES = [entry["type"] for entry in CHAIN]
SPLICED = ["capture-pre", *TYPES, "capture-post"]
PODS = json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": CHAIN}, indent=2)
SINGLE = json.dumps({"cniVersion": "0.4.0", "name": "pods", **CHAIN[0]})


class Node:
    """A host with the probes installed, and the command to be run on it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.run("install")

    def words(self, verb: str, *options: str) -> list[str]:
        log = ["--log-file", LOG] if verb in ("splice", "watch") else []
        where = ["--cni-bin", PLUGINS] if verb != "unsplice" else []
        return [sys.executable, "-m", "cni_capture", verb, *where, *log, *options]

    def run(self, verb: str, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.host.run(self.words(verb, *options), check=check)

    def addresses(self, network: str) -> list[str]:
        """What host-local has given away and not got back."""
        folder = self.host.path(f"/var/lib/cni/networks/{network}")
        return sorted(path.name for path in folder.glob("[0-9]*")) if folder.exists() else []


class CriNode(Node):
    def __init__(self, host: Host, archive: Path, release: Release) -> None:
        super().__init__(host)
        self.cri = Containerd(host, archive, release.plugins.iterdir(), release.programs).cri
        self.ids: dict[str, str] = {}

    def start(self, name: str) -> None:
        self.ids[name] = self.cri.run_pod(pod_config(name, cgroup_parent=f"/{self.host.name}"))

    def end(self, name: str) -> None:
        self.cri.stop_pod(self.ids[name])
        self.cri.remove_pod(self.ids[name])

    def reaches(self, name: str) -> bool:
        """Whether the host reaches a pod at the address that containerd says it has."""
        address, _ = self.cri.pod_status(self.ids[name])
        return self.host.run(["ping", "-c", "1", "-W", "5", address], check=False).returncode == 0

    def until_loaded(self, types: Sequence[str]) -> None:
        until(lambda: self.cri.chain() == types, f"containerd has loaded {types}")

    def verbs(self) -> Counter[tuple[str, str, str]]:
        """How often each probe recorded each verb for each pod."""
        names = {value: key for key, value in self.ids.items()}
        return Counter((seen.probe, seen.verb, names[seen.container]) for seen, _ in logged(self.host))

    def calls(self) -> Counter[tuple[str, str, str, str]]:
        """How often each wrapped plugin began or ended each verb for each pod."""
        names = {value: key for key, value in self.ids.items()}
        return Counter(
            (record["plugin"], record["env"]["CNI_COMMAND"], record["side"], names[record["env"]["CNI_CONTAINERID"]])
            for record in map(json.loads, self.host.read(LOG).splitlines())
        )


BOTH = pytest.mark.parametrize("which", [debian, newest])


@BOTH
def test_containerd_reloads_after_splice_and_unsplice(archive: Path, which: Callable[[], Release]) -> None:
    """Pods that started before, between and after stop cleanly, and what passed in between is on record."""
    release = which()
    with Host() as host:
        host.write(NETWORK, PODS)
        node = CriNode(host, archive, release)
        node.start("before")
        assert f"spliced {NETWORK}: {' '.join(SPLICED)}\n" == node.run("splice").stdout
        node.until_loaded(SPLICED)
        node.start("between")
        node.start("long")
        node.end("before")
        node.end("between")
        assert node.run("doctor").returncode == 0
        assert f"unspliced {NETWORK}\n" == node.run("unsplice").stdout
        node.until_loaded(TYPES)
        assert PODS == host.read(NETWORK)
        node.start("after")
        node.end("long")
        node.end("after")
        assert [] == node.addresses("pods")
        seen = node.verbs()
    assert {
        (probe, verb, name): count
        for probe in ("capture-pre", "capture-post")
        for verb, name, count in (
            ("ADD", "between", 1),
            ("ADD", "long", 1),
            ("DEL", "before", 2),
            ("DEL", "between", 2),
        )
    } == seen


@BOTH
def test_containerd_reloads_after_plugins_are_wrapped_and_unwrapped(
    archive: Path, which: Callable[[], Release]
) -> None:
    """A pod that runs meanwhile works on; every plugin and the IPAM plugin is on record at both ends of each call."""
    release = which()
    titles = " ".join(
        f"capture-wrap({entry['type']})" + "+capture-wrap(host-local)" * ("ipam" in entry) for entry in CHAIN
    )
    with Host() as host:
        host.write(NETWORK, PODS)
        node = CriNode(host, archive, release)
        node.start("before")
        assert f"spliced {NETWORK}: {titles}\n" == node.run("splice", "--wrap-all", "--ipam").stdout
        node.until_loaded(["capture-wrap"] * len(CHAIN))
        node.start("between")
        node.start("long")
        for name in ("before", "between"):
            assert node.reaches(name)
        node.end("before")
        node.end("between")
        doctor = node.run("doctor", check=False)
        assert (0, True) == (doctor.returncode, f"the probes are in it: {titles}\n" in doctor.stdout), doctor.stdout
        assert f"unspliced {NETWORK}\n" == node.run("unsplice").stdout
        node.until_loaded(TYPES)
        assert PODS == host.read(NETWORK)
        assert node.reaches("long")
        node.end("long")
        assert [] == node.addresses("pods")
        seen = node.calls()
    assert {
        (plugin, verb, side, name): count
        for plugin in (*TYPES, "host-local")
        for side in ("entry", "exit")
        for verb, name, count in (
            ("ADD", "between", 1),
            ("ADD", "long", 1),
            ("DEL", "before", 2),
            ("DEL", "between", 2),
        )
    } == seen


@BOTH
def test_containerd_follows_a_single_plugin_to_a_list_and_back(archive: Path, which: Callable[[], Release]) -> None:
    """It has one network all the time: pods of before, between and after are deleted without a trace."""
    release = which()
    conf, conflist = f"{NETWORKS}/10-pods.conf", f"{NETWORKS}/10-pods.conflist"
    with Host() as host:
        host.write(conf, SINGLE)
        node = CriNode(host, archive, release)
        node.until_loaded(["bridge"])
        node.start("before")
        assert f"spliced {conflist}: capture-pre bridge capture-post\n" == node.run("splice").stdout
        node.until_loaded(["capture-pre", "bridge", "capture-post"])
        assert [Path(conflist).name] == [path.name for path in host.path(NETWORKS).iterdir()]
        node.start("between")
        node.end("before")
        assert f"unspliced {conf}\n" == node.run("unsplice").stdout
        node.until_loaded(["bridge"])
        assert SINGLE == host.read(conf)
        node.end("between")
        assert [] == node.addresses("pods")


def test_watch_keeps_containerd_spliced_through_a_rewrite(archive: Path) -> None:
    """Calico's installer writes the file in place while pods run; at its end watch takes the probes out."""
    release = debian()
    with Host() as host:
        host.write(NETWORK, PODS)
        node = CriNode(host, archive, release)
        script = 'echo $$ >/run/watch.pid; exec "$@"'
        words = ["sh", "-c", script, "sh", *node.words("watch", "--unsplice-on-exit")]
        watching = host.popen(words, log="/run/watch.log")
        node.until_loaded(SPLICED)
        node.start("a")
        other = PODS.replace('"pods"', '"again"')
        host.path(NETWORK).write_text(other)
        until(lambda: "spliced again" in host.read("/run/watch.log"), "it is spliced again")
        node.until_loaded(SPLICED)
        host.path(NETWORK).write_text(PODS)  # the network of the pod, so that its DEL finds what its ADD left
        until(lambda: host.read("/run/watch.log").count("spliced again") == 2, "and again")
        node.until_loaded(SPLICED)
        node.end("a")
        host.run(["kill", host.read("/run/watch.pid").strip()])
        assert 0 == watching.wait(20)
        node.until_loaded(TYPES)
        assert PODS == host.read(NETWORK)
        assert [] == node.addresses("pods")


def test_podman_goes_on_through_splice_and_unsplice(archive: Path) -> None:
    """It deletes with what a container was started with: hence the probes stay until that container is gone."""
    tools.need("podman", "conmon", str(tools.DEBIAN_PLUGINS / "bridge"))
    path = f"{NETWORKS}/web.conflist"
    text = json.dumps({"cniVersion": "0.4.0", "name": "web", "plugins": bridge("web0", 1)}, indent=3)
    with Host() as host:
        node = Node(host)
        podman = Podman(host, archive, [tools.DEBIAN_PLUGINS, PLUGINS])
        host.write(path, text)

        def start(name: str) -> None:
            podman.start(name, "--network web").check_returncode()

        def networks() -> list[str]:
            return podman("network ls --format {{.Name}}").stdout.split()

        start("before")
        node.run("splice", path)
        assert ["podman", "web"] == sorted(networks())
        start("between")
        container = podman("inspect --format {{.Id}} between").stdout.strip()
        node.run("unsplice", path)
        assert (text, ["podman", "web"]) == (host.read(path), sorted(networks()))
        start("after")
        refused = node.run("uninstall", check=False)
        assert 2 == refused.returncode
        assert re.match("cni-capture: 1 container.* started with the probes", refused.stderr)
        assert container in refused.stderr
        for name in ("before", "between", "after"):
            podman(f"rm --force --time 0 {name}").check_returncode()
        assert [] == node.addresses("web")
        assert expected("ADD DEL", container, "web") == [seen for seen, _ in logged(host)]
        assert_shown(host)
        assert 0 == node.run("uninstall").returncode


def test_podman_keeps_its_network_when_a_later_plugin_is_wrapped(archive: Path) -> None:
    """The first one and its IPAM are refused, and rightly: podman would give the same subnet and bridge away again."""
    tools.need("podman", "conmon", str(tools.DEBIAN_PLUGINS / "bridge"))
    path = f"{NETWORKS}/web.conflist"
    text = json.dumps({"cniVersion": "0.4.0", "name": "web", "plugins": bridge("cni-podman1", 1)}, indent=3)
    text = text.replace("10.88.1.", "10.89.0.")  # the first that podman gives away
    with Host() as host:
        node = Node(host)
        podman = Podman(host, archive, [tools.DEBIAN_PLUGINS, PLUGINS])
        host.write(path, text)

        def known(network: str) -> str:
            words = "{{.Driver}} {{.NetworkInterface}} {{range .Subnets}}{{.Subnet}}{{end}}"
            return podman(f"network inspect {network} --format '{words}'").stdout.strip()

        def next_network() -> str:
            """What podman knows of a network that it makes now."""
            podman("network create next").check_returncode()
            found = known("next")
            podman("network rm next").check_returncode()
            return found

        plain = ("bridge cni-podman1 10.89.0.0/24", "bridge cni-podman2 10.89.1.0/24")
        assert plain == (known("web"), next_network())
        for options, what, again in (
            (["--wrap", "bridge"], "driver, subnets and bridge", ("capture-wrap", "bridge cni-podman1 10.89.0.0/24")),
            (["--ipam"], "subnets", ("bridge cni-podman1", "bridge cni-podman2 10.89.0.0/24")),
        ):
            refused = node.run("splice", *options, path, check=False)
            reason = f"cni-capture: {path}: podman would no longer find the network's {what}, "
            assert (2, True) == (refused.returncode, refused.stderr.startswith(reason)), refused.stderr
            assert text == host.read(path)
            node.run("splice", "--force", *options, path)
            assert again == (known("web"), next_network())
            node.run("unsplice", path)
        assert (
            f"spliced {path}: bridge capture-wrap(portmap) firewall tuning\n"
            == node.run("splice", "--wrap", "portmap", path).stdout
        )
        assert plain == (known("web"), next_network())
        podman.start("a", "--network web --publish 18080:80").check_returncode()
        podman("rm --force --time 0 a").check_returncode()
        records = [json.loads(line) for line in host.read(LOG).splitlines()]
        expected = [("portmap", verb, side) for verb in ("ADD", "DEL") for side in ("entry", "exit")]
        assert expected == [(each["plugin"], each["env"]["CNI_COMMAND"], each["side"]) for each in records]
        node.run("unsplice", path)
        assert text == host.read(path)
