"""podman runs containers on chains of real plugins with and without probes.

Each run has a host of its own. Its transcript (what podman said and returned, what can be seen on the host and in the
container's namespace, what traffic passes) must not depend on the probes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.runtimes import image, tools, traffic
from tests.runtimes.host import Host
from tests.runtimes.lab import Lab, run_both
from tests.runtimes.podman import NETWORKS, Podman, bridge
from tests.runtimes.probes import Entry, Seen, expected
from tests.runtimes.refusing import add_refusing
from tests.runtimes.table import Table
from tests.runtimes.waiting import until

OWN_PLUGINS = "/run/plugins"
PORT = 18080
GATEWAY = "10.88.1.1"

WEB = bridge("web0", 1)
DB = bridge("db0", 2, routes=())
DNSNAME: Entry = {"type": "dnsname", "domainName": "dns.podman", "capabilities": {"aliases": True}}


class PodmanLab(Lab):
    def __init__(self, host: Host, probes: bool, archive: Path, spec: str = "1.0.0") -> None:
        super().__init__(host, spec, "text", probes)
        self.podman = Podman(host, archive, [tools.DEBIAN_PLUGINS, OWN_PLUGINS, tools.PROBES])
        for verb in ("ADD", "DEL", "VERSION"):
            add_refusing(host, OWN_PLUGINS, verb, tools.DEBIAN_PLUGINS)

    def put_network(self, name: str, plugins: Sequence[Entry]) -> None:
        self.put(f"{NETWORKS}/{name}.conflist", name, plugins)

    def do(self, words: str) -> None:
        """Run podman, and note what it says."""
        self.transcript.note_command(f"podman {words}", self.podman(words))

    def run(self, name: str, options: str) -> None:
        """Run a container that serves, and note what podman says."""
        done = self.podman.start(name, options)
        self.transcript.note_command(f"podman run {name} {options}", done)
        if container := self.inspect(name, "Id"):
            self.transcript.names |= {container: f"ID-{name}", container[:12]: f"SHORT-{name}"}

    def inspect(self, name: str, field: str) -> str:
        return self.podman(f"inspect --format {{{{.{field}}}}} {name}").stdout.strip()

    def netns(self, name: str) -> str:
        """The name of a container's network namespace; empty while it has none."""
        return Path(self.inspect(name, "NetworkSettings.SandboxKey")).name

    def look(self, name: str, network: str) -> None:
        """Note all that is to be seen of a container, and what traffic passes; keep its result."""
        self.transcript.look(self.netns(name))
        self.transcript.send(self.netns(name), GATEWAY, [PORT])
        self.keep_result(network, self.inspect(name, "Id"))

    def gone(self, name: str) -> None:
        """Wait until podman has cleaned up after a container that was killed, and note what is left."""
        until(lambda: not self.netns(name), f"the network of {name} is torn down")
        self.transcript.look_at_host()


@pytest.fixture(autouse=True)
def _podman_is_there() -> None:
    tools.need("podman", "conmon", str(tools.DEBIAN_PLUGINS / "bridge"))


class Comparison:
    """run_both() on networks as they are and with probes around their plugins, and a row for the table."""

    def __init__(self, archive: Path, table: Table) -> None:
        self._archive = archive
        self._table = table

    def __call__(
        self,
        what: str,
        networks: Mapping[str, Sequence[Entry]],
        scenario: Callable[[PodmanLab], None],
        records: Sequence[Seen],
        *,
        spec: str = "1.0.0",
        first: int = 0,
    ) -> None:
        """`first` is where in a chain the pre goes."""

        def make(host: Host, probes: bool) -> PodmanLab:
            lab = PodmanLab(host, probes, self._archive, spec)
            for name, plugins in networks.items():
                lab.put_network(name, lab.spliced(plugins, first))
            return lab

        run_both(make, scenario, records)
        runtime = f"podman {tools.debian_version('podman')}"
        of = f"Debian {tools.debian_version('containernetworking-plugins')}"
        verbs = " ".join(dict.fromkeys(seen.verb for seen in records))
        self._table.add(runtime, plugins=of, spec=spec, verbs=verbs, what=what, records=len(records))


@pytest.fixture
def compare(archive: Path, table: Table) -> Comparison:
    return Comparison(archive, table)


@pytest.mark.parametrize("spec", ["0.3.1", "0.4.0", "1.0.0"])
def test_a_container_lives_the_same_with_probes(compare: Comparison, spec: str) -> None:
    """Run with a port, restarted, killed, started, stopped, removed: the same each time, and every call is recorded."""

    def scenario(lab: PodmanLab) -> None:
        lab.do("network ls --format {{.Name}}")
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.look("a", "web")
        lab.do("exec a ip route")
        lab.do("restart --time 0 a")
        lab.look("a", "web")
        lab.do("kill a")
        lab.gone("a")
        lab.do("start a")
        lab.look("a", "web")
        lab.do("network reload a")
        lab.look("a", "web")
        lab.do("stop --time 0 a")
        lab.gone("a")
        lab.do("rm a")
        lab.do("network ls --format {{.Name}}")

    web = [entry for entry in WEB if spec != "0.3.1" or entry["type"] != "firewall"]  # which speaks 0.4.0 and later
    records = expected("ADD DEL ADD DEL ADD DEL ADD DEL", "ID-a", "web")
    compare("run, restart, kill, start, network reload, stop", {"web": web}, scenario, records, spec=spec)


def test_two_networks_with_aliases_and_fixed_addresses(compare: Comparison) -> None:
    """What podman hands to plugins through capabilities and CNI_ARGS takes effect as it does without probes."""
    tools.need(str(tools.DEBIAN_PLUGINS / "dnsname"), "dnsmasq")

    def scenario(lab: PodmanLab) -> None:
        web = "web:interface_name=eth0,alias=www,ip=10.88.1.44,mac=02:00:00:00:00:44"
        lab.run("a", f"--network {web} --network db:interface_name=eth1,alias=sql --publish {PORT}:80")
        lab.do("inspect --format '{{json .NetworkSettings.Networks}}' a")
        lab.do("exec a ip route")
        lab.do("exec a nslookup www.dns.podman")
        lab.transcript.send(lab.netns("a"), GATEWAY)
        # Which of the two networks the port leads to depends on the order, and so does what the container sees itself.
        lab.transcript.note(image.greeting(lab.host, "outside", traffic.HOST_ADDRESS, PORT))
        lab.keep_result("db", lab.inspect("a", "Id"), "eth1")
        lab.keep_result("web", lab.inspect("a", "Id"), "eth0")
        lab.do("rm --force --time 0 a")

    networks = {"db": DB, "web": [*WEB, DNSNAME]}
    records = [*expected("ADD DEL", "ID-a", "db"), *expected("ADD DEL", "ID-a", "web")]
    compare("two networks, aliases, fixed IP and MAC", networks, scenario, records)


def test_a_running_container_joins_and_leaves_a_network(compare: Comparison) -> None:
    """`podman network connect` and `disconnect` do what they do without probes."""

    def scenario(lab: PodmanLab) -> None:
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.do("network connect db a")
        lab.look("a", "web")
        lab.transcript.send(lab.netns("a"), "10.88.2.1")
        lab.keep_result("db", lab.inspect("a", "Id"), "eth1")
        lab.do("network disconnect db a")
        lab.look("a", "web")
        lab.do("rm --force --time 0 a")

    records = [*expected("ADD DEL", "ID-a", "db"), *expected("ADD DEL", "ID-a", "web")]
    compare("network connect, disconnect", {"db": DB, "web": WEB}, scenario, records)


def test_an_add_that_fails_fails_the_same(compare: Comparison) -> None:
    """The failed plugin's error reaches the user as it does without probes; a pre without a post shows where it was."""

    def scenario(lab: PodmanLab) -> None:
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.do("ps --all --format '{{.Names}} {{.Status}}'")
        lab.do("rm a")
        lab.transcript.look_at_host()

    records = expected("ADD! DEL", "ID-a", "web")
    compare("a plugin refuses ADD", {"web": [*WEB, {"type": "refusing-ADD"}]}, scenario, records)


def test_a_del_that_fails_fails_the_same(compare: Comparison) -> None:
    """The error reaches the user as it does without probes; the probe that DEL did not reach has no record."""

    def scenario(lab: PodmanLab) -> None:
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.look("a", "web")
        lab.do("network disconnect web a")
        lab.transcript.look(lab.netns("a"))
        lab.do("kill a")
        lab.gone("a")
        lab.do("rm a")

    records = expected("ADD DEL!", "ID-a", "web")
    compare("a plugin refuses DEL", {"web": [*WEB, {"type": "refusing-DEL"}]}, scenario, records)


@pytest.mark.parametrize("broken", ["refusing-VERSION", "missing"])
def test_a_network_with_a_broken_plugin_vanishes_the_same(compare: Comparison, broken: str) -> None:
    """podman knows no network that has a plugin without a VERSION, and its others stay; VERSION leaves no record."""

    def scenario(lab: PodmanLab) -> None:
        lab.do("network ls --format {{.Name}}")
        lab.run("a", "--network web")

    networks = {"web": [*WEB, {"type": broken}], "db": DB}
    compare(f"a plugin that podman cannot ask for its version ({broken})", networks, scenario, [])


def test_probes_can_come_while_a_container_runs(compare: Comparison) -> None:
    """The DEL of a container that started before runs on the chain of its ADD; the next ADD is recorded."""

    def scenario(lab: PodmanLab) -> None:
        lab.put_network("web", WEB)
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.put_network("web", lab.spliced(WEB))
        lab.do("restart --time 0 a")
        lab.look("a", "web")
        lab.do("rm --force --time 0 a")
        lab.transcript.look_at_host()

    compare("spliced while a container runs", {"web": WEB}, scenario, expected("ADD DEL", "ID-a", "web"))


def test_probes_can_go_while_a_container_runs(compare: Comparison) -> None:
    """The DEL of a container that started before is recorded still, as it runs on the chain of its ADD."""

    def scenario(lab: PodmanLab) -> None:
        lab.run("a", f"--network web --publish {PORT}:80")
        lab.look("a", "web")
        lab.put_network("web", WEB)
        lab.do("restart --time 0 a")
        lab.transcript.look(lab.netns("a"))
        lab.do("rm --force --time 0 a")
        lab.transcript.look_at_host()

    compare("unspliced while a container runs", {"web": WEB}, scenario, expected("ADD DEL", "ID-a", "web"))


def test_behind_the_first_plugin_a_probe_is_invisible_to_podman_itself(compare: Comparison) -> None:
    """podman lists the network with the same driver and subnets, and refuses an address outside of them."""

    def scenario(lab: PodmanLab) -> None:
        lab.do("network ls --format '{{.Name}} {{.Driver}}'")
        lab.do("network inspect --format '{{.Driver}} {{.NetworkInterface}} {{.Subnets}}' web")
        lab.run("a", f"--network web:ip=10.88.1.44 --publish {PORT}:80")
        lab.look("a", "web")
        lab.do(f"run --network web:ip=10.99.1.44 {image.NAME}")
        lab.do("rm --force --time 0 a")

    records = expected("ADD DEL", "ID-a", "web")
    compare("probes behind the first plugin", {"web": WEB}, scenario, records, first=1)


@pytest.mark.parametrize(
    ("first", "driver", "subnet", "next_subnet"),
    [(0, "capture-pre", "", "10.89.0.0/24"), (1, "bridge", "10.89.0.0/24", "10.89.1.0/24")],
)
def test_podman_takes_the_first_plugin_for_the_driver_of_a_network(
    archive: Path, first: int, driver: str, subnet: str, next_subnet: str
) -> None:
    """The one thing that a pre in first place changes: podman forgets the subnet, and gives it to the next network."""
    with Host() as host:
        lab = PodmanLab(host, True, archive)
        lab.podman("network create web").check_returncode()
        created = json.loads(host.read(f"{NETWORKS}/web.conflist"))
        lab.put_network("web", lab.spliced(created["plugins"], first))
        lab.podman("network create next").check_returncode()
        fields = "{{.Name}} {{.Driver}} {{range .Subnets}}{{.Subnet.String}}{{end}}"
        known = lab.podman(f"network inspect --format '{fields}' web next").stdout
    assert f"web {driver} {subnet}\nnext bridge {next_subnet}\n" == known
