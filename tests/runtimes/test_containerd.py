"""containerd runs pods on chains of real plugins with and without probes, as kubelet makes it do.

Each run has a host of its own. Its transcript (what containerd answered, what can be seen on the host and in the pod's
namespace, what traffic passes) must not depend on the probes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtimes import image, tools, traffic
from tests.runtimes.containerd import CHAIN, GATEWAY, NETWORK, PLUGINS, SOCKET, Containerd
from tests.runtimes.cri import CriError, pod_config
from tests.runtimes.host import Host
from tests.runtimes.lab import Lab, run_both
from tests.runtimes.probes import Entry, Seen, expected
from tests.runtimes.refusing import add_refusing
from tests.runtimes.table import Table
from tests.runtimes.waiting import until

PORT = 18080
BANDWIDTH = {"kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "8M"}


@dataclass(frozen=True)
class Release:
    """A containerd, and the plugins that it is run with."""

    name: str
    programs: Path | None
    plugins_name: str
    plugins: Path
    log_format: str


def debian() -> Release:
    tools.need("containerd", "containerd-shim-runc-v2", "ctr", str(tools.DEBIAN_PLUGINS / "bridge"))
    plugins = f"Debian {tools.debian_version('containernetworking-plugins')}"
    return Release(f"containerd {tools.debian_version('containerd')}", None, plugins, tools.DEBIAN_PLUGINS, "text")


def newest() -> Release:
    name = f"containerd {tools.go_version('containerd')}"
    plugins = f"reference {tools.go_version('plugins')}"
    return Release(name, tools.go_folder("containerd"), plugins, tools.go_folder("plugins"), "json")


BOTH = pytest.mark.parametrize("which", [debian, newest])


class CriLab(Lab):
    def __init__(
        self, host: Host, probes: bool, archive: Path, release: Release, spec: str, chain: Sequence[Entry]
    ) -> None:
        super().__init__(host, spec, release.log_format, probes)
        self.ids: dict[str, str] = {}
        self.put_network(self.spliced(chain))
        plugins = [*release.plugins.iterdir(), *tools.PROBES.glob("capture-*")]
        self.containerd = Containerd(host, archive, plugins, release.programs)
        self.cri = self.containerd.cri
        for verb in ("ADD", "DEL", "STATUS"):
            add_refusing(host, PLUGINS, verb, release.plugins)

    def put_network(self, chain: Sequence[Entry]) -> None:
        self.put(NETWORK, "pods", chain)

    def replace_network(self, chain: Sequence[Entry]) -> None:
        """Put another chain in while containerd runs, and wait until containerd, which watches, has loaded it."""
        self.put_network(chain)
        types = [entry["type"] for entry in chain]
        until(lambda: self.cri.chain() == types, f"containerd has loaded {types}")

    def do(self, words: str, call: Callable[[], object]) -> None:
        """Make a call, and note what comes of it."""
        try:
            self.transcript.note(f"{words}: {call()}")
        except CriError as error:
            self.transcript.note(f"{words} failed: {error}")

    def start(self, name: str, port: int) -> str:
        """Run a pod with a host port, limited bandwidth and one container that serves; returns the container."""
        pod = pod_config(name, cgroup_parent=f"/{self.host.name}", ports={port: 80}, annotations=BANDWIDTH)
        try:
            self.ids[name] = self.cri.run_pod(pod)
        except CriError as error:
            (self.ids[name],) = re.findall("[0-9a-f]{64}", str(error))
            raise
        finally:
            self.transcript.names[self.ids[name]] = f"ID-{name}"
        return self.cri.start_container(self.ids[name], pod, image.SERVE)

    def run(self, name: str) -> None:
        """The same, and note what a command in the container says."""
        self.do(f"run {name}", lambda: self.cri.execute(self.start(name, PORT), ["ip", "route"]))

    def look(self, name: str) -> None:
        """Note all that is to be seen of a pod, and what traffic passes."""
        address, namespace = self.cri.pod_status(self.ids[name])
        self.transcript.note(f"{name} has {address}")
        self.transcript.look(Path(namespace).name)
        self.transcript.send(Path(namespace).name, GATEWAY, [PORT])

    def stop(self, name: str) -> None:
        self.do(f"stop {name}", lambda: self.cri.stop_pod(self.ids[name]))

    def remove(self, name: str) -> None:
        self.do(f"remove {name}", lambda: self.cri.remove_pod(self.ids[name]))


class Comparison:
    """run_both() on a chain as it is and with probes around its plugins, and a row for the table."""

    def __init__(self, archive: Path, table: Table) -> None:
        self._archive = archive
        self._table = table

    def __call__(
        self,
        what: str,
        which: Callable[[], Release],
        scenario: Callable[[CriLab], None],
        records: Sequence[Seen],
        *,
        spec: str = "1.0.0",
        chain: Sequence[Entry] = CHAIN,
    ) -> None:
        release = which()
        run_both(lambda host, probes: CriLab(host, probes, self._archive, release, spec, chain), scenario, records)
        verbs = " ".join(dict.fromkeys(seen.verb for seen in records))
        self._table.add(
            release.name, plugins=release.plugins_name, spec=spec, verbs=verbs, what=what, records=len(records)
        )


@pytest.fixture
def compare(archive: Path, table: Table) -> Comparison:
    return Comparison(archive, table)


@pytest.mark.parametrize(
    ("which", "spec"),
    [*((debian, spec) for spec in ("0.3.1", "0.4.0", "1.0.0")), *((newest, spec) for spec in ("1.0.0", "1.1.0"))],
)
def test_a_pod_lives_the_same_with_probes(compare: Comparison, which: Callable[[], Release], spec: str) -> None:
    """Run with port and bandwidth, stopped twice, removed: the same each time, and every call is recorded."""

    def scenario(lab: CriLab) -> None:
        lab.run("a")
        lab.look("a")
        lab.keep_result("pods", lab.ids["a"])
        lab.stop("a")
        lab.transcript.look_at_host()
        lab.stop("a")
        lab.remove("a")
        lab.transcript.look_at_host()

    chain = [entry for entry in CHAIN if spec != "0.3.1" or entry["type"] != "firewall"]  # which speaks 0.4.0 and later
    records = expected("ADD DEL DEL DEL", "ID-a", "pods")
    compare("pod with port and bandwidth, stopped twice, removed", which, scenario, records, spec=spec, chain=chain)


@BOTH
def test_an_add_that_fails_fails_the_same(compare: Comparison, which: Callable[[], Release]) -> None:
    """The failed plugin's error reaches kubelet as it does without probes; a pre without a post shows where it was."""

    def scenario(lab: CriLab) -> None:
        lab.run("a")
        lab.transcript.look_at_host()

    chain = [*CHAIN, {"type": "refusing-ADD"}]
    compare("a plugin refuses ADD", which, scenario, expected("ADD! DEL", "ID-a", "pods"), chain=chain)


@BOTH
def test_a_del_that_fails_fails_the_same(compare: Comparison, which: Callable[[], Release]) -> None:
    """The pod can be neither stopped nor removed until the chain is repaired; DEL did not reach the pre."""

    def scenario(lab: CriLab) -> None:
        lab.run("a")
        lab.look("a")
        lab.keep_result("pods", lab.ids["a"])
        lab.stop("a")
        lab.remove("a")
        lab.transcript.look_at_host()
        lab.replace_network(CHAIN)
        lab.stop("a")
        lab.remove("a")
        lab.transcript.look_at_host()

    chain = [*CHAIN, {"type": "refusing-DEL"}]
    compare("a plugin refuses DEL", which, scenario, expected("ADD DEL! DEL!", "ID-a", "pods"), chain=chain)


@BOTH
def test_probes_can_come_while_pods_run(compare: Comparison, which: Callable[[], Release]) -> None:
    """The DELs of a pod that started before pass through the probes, which have not seen its ADD."""

    def scenario(lab: CriLab) -> None:
        lab.replace_network(CHAIN)
        lab.run("a")
        lab.look("a")
        lab.replace_network(lab.spliced(CHAIN))
        lab.stop("a")
        lab.remove("a")
        lab.transcript.look_at_host()

    compare("spliced while a pod runs", which, scenario, expected("DEL DEL", "ID-a", "pods"))


@BOTH
def test_probes_can_go_while_pods_run(compare: Comparison, which: Callable[[], Release]) -> None:
    """The DELs of a pod that started before run on the chain as it is now, without probes and with nothing amiss."""

    def scenario(lab: CriLab) -> None:
        lab.run("a")
        lab.look("a")
        lab.keep_result("pods", lab.ids["a"])
        lab.replace_network(CHAIN)
        lab.stop("a")
        lab.remove("a")
        lab.transcript.look_at_host()

    compare("unspliced while a pod runs", which, scenario, expected("ADD", "ID-a", "pods"))


@pytest.mark.parametrize("chain", [CHAIN, [*CHAIN, {"type": "refusing-STATUS"}]], ids=["ready", "not-ready"])
def test_a_node_is_as_ready_as_without_probes(compare: Comparison, chain: list[Entry]) -> None:
    """From 1.1.0 on each CRI Status makes a STATUS run through the chain, whose refusal makes the node NotReady."""

    def scenario(lab: CriLab) -> None:
        for _ in range(2):
            lab.do("status", lab.cri.conditions)

    verb = "STATUS" if chain is CHAIN else "STATUS!"
    what = "Status" if chain is CHAIN else "a plugin refuses STATUS"
    compare(what, newest, scenario, expected(f"{verb} {verb}", "", "pods"), spec="1.1.0", chain=chain)


@BOTH
def test_sixteen_pods_at_once_get_the_same(compare: Comparison, which: Callable[[], Release]) -> None:
    """Each gets an address of its own, and serves at its port; no record is torn, lost or in the wrong order."""
    ports = {f"pod{number:02}": PORT + number for number in range(16)}

    def scenario(lab: CriLab) -> None:
        lab.start("first", PORT - 1)  # alone, as portmap and firewall do not make their common rules without a race
        with ThreadPoolExecutor(len(ports)) as together:
            list(together.map(lab.start, ports, ports.values()))
            addresses = [lab.cri.pod_status(lab.ids[name])[0] for name in ports]
            lab.transcript.note(f"addresses: {sorted(addresses)}")
            lab.keep_result("pods", lab.ids["first"])
            for name, port in ports.items():
                lab.transcript.note(image.greeting(lab.host, "outside", traffic.HOST_ADDRESS, port))
                lab.keep_result("pods", lab.ids[name])
            for stop in (lab.cri.stop_pod, lab.cri.remove_pod):
                list(together.map(stop, lab.ids.values()))
        lab.transcript.look_at_host()

    records = [record for name in ("first", *ports) for record in expected("ADD DEL DEL", f"ID-{name}", "pods")]
    compare("16 pods at once", which, scenario, records)


@BOTH
def test_crictl_sees_the_same(compare: Comparison, which: Callable[[], Release]) -> None:
    """The pod that a person runs by hand to look into a node, with another client than ours."""
    crictl = [str(tools.go_tool("crictl")), "--timeout", "60s", "--runtime-endpoint", f"unix://{SOCKET}"]

    def scenario(lab: CriLab) -> None:
        def do(*words: str) -> str:
            done = lab.host.run([*crictl, *words])
            lab.transcript.note_command(f"crictl {' '.join(words)}", done)
            return done.stdout.strip()

        pod = {
            "metadata": {"name": "a", "namespace": "default", "uid": "uid-of-a"},
            "hostname": "a",
            "log_directory": "/var/log/pods/a",
            "port_mappings": [{"host_port": PORT, "container_port": 80}],
            "linux": {"cgroup_parent": f"/{lab.host.name}"},
        }
        main = {
            "metadata": {"name": "main"},
            "image": {"image": image.NAME},
            "command": image.SERVE,
            "log_path": "main.log",
        }
        pod_file = lab.host.write("/run/pod.json", json.dumps(pod))
        main_file = lab.host.write("/run/main.json", json.dumps(main))
        lab.ids["a"] = do("runp", pod_file)
        lab.transcript.names[lab.ids["a"]] = "ID-a"
        container = do("create", lab.ids["a"], main_file, pod_file)
        lab.transcript.names[container] = "ID-main"
        do("start", container)
        do("exec", container, "/bin/ip", "route")
        do("inspectp", "--output", "go-template", "--template", "{{.status.network.ip}}", lab.ids["a"])
        lab.look("a")
        lab.keep_result("pods", lab.ids["a"])
        do("stopp", lab.ids["a"])
        do("stopp", lab.ids["a"])
        do("rmp", lab.ids["a"])
        lab.transcript.look_at_host()

    records = expected("ADD DEL DEL DEL", "ID-a", "pods")
    compare(f"crictl {tools.go_version('crictl')}", which, scenario, records)


@BOTH
def test_ctr_run_with_cni_does_the_same(compare: Comparison, which: Callable[[], Release]) -> None:
    """A container without CRI, on the network in the default place; its DEL comes without a namespace."""
    compare("ctr run --cni", which, run_with_ctr, expected("ADD DEL", "default-a", "pods"))


def run_with_ctr(lab: CriLab) -> None:
    """Run a container with `ctr run --cni`, look at it, and end it."""
    ctr = ["ctr", "run", "--rm", "--cni", "--cgroup", f"/{lab.host.name}", image.NAME, "a"]
    running = lab.host.popen([*ctr, *image.SERVE], log="/run/ctr.log", env=lab.containerd.env)
    task = until(lambda: _task(lab), "the container runs")
    lab.transcript.names[f"/proc/{task}/"] = "/proc/TASK/"
    lab.host.run(["ip", "netns", "attach", "a", task])
    lab.transcript.look("a")
    lab.transcript.send("a", GATEWAY)
    lab.keep_result("pods", "default-a")
    lab.host.run(["ip", "netns", "delete", "a"])
    lab.host.run(["kill", "-KILL", task])  # `ctr task kill` of 2.x makes a DEL of its own
    lab.transcript.note(f"ctr run: exit {running.wait()}\n{lab.host.read('/run/ctr.log')}")
    lab.transcript.look_at_host()


def _task(lab: CriLab) -> str:
    """The process of container a, once it runs."""
    listed = lab.host.run(["ctr", "tasks", "list"], env=lab.containerd.env).stdout
    found = re.search(r"^a +(\d+) +RUNNING", listed, re.MULTILINE)
    return found[1] if found else ""
