"""A call that cnitool made of real plugins, out of the log and made again: as a script, by itself, and as a chain."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes import tools
from tests.runtimes.host import Host
from tests.runtimes.observe import observe, steady
from tests.runtimes.probes import LOG, Entry
from tests.runtimes.test_wrap import wrapped
from tests.runtimes.waiting import until

NETNS = "/run/netns/pod"
STATIC: Entry = {"type": "static", "addresses": [{"address": "10.88.0.7/24", "gateway": "10.88.0.1"}]}
HOST_LOCAL: Entry = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}
TUNING: Entry = {"type": "tuning", "sysctl": {"net.ipv4.conf.all.log_martians": "1"}, "mtu": 1300}

# A plugin that only pretends; with /run/slow there its ADD never ends.
SLEEPER = """#!/bin/sh
echo $CNI_COMMAND >>/run/calls
[ "$CNI_COMMAND" = ADD ] && [ -e /run/slow ] && exec sleep 600
echo '{"cniVersion": "1.0.0"}'
"""


def bridge(ipam: Entry) -> Entry:
    return {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": ipam}


class Lab:
    """A host on which cnitool runs wrapped plugins in the namespace pod, and `cni-capture replay` is typed."""

    def __init__(self, host: Host, plugins: Path, entries: Sequence[Entry]) -> None:
        self.host = host
        self.path = f"{plugins}:{tools.PROBES}"
        tuned = [wrapped(entry, True, True) for entry in entries]
        host.write("/etc/cni/net.d/net.conflist", json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": tuned}))
        host.run(["ip", "netns", "add", "pod"])

    def cnitool(self, verb: str, check: bool = True) -> None:
        env = {"CNI_PATH": self.path, "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"}
        self.host.run([str(tools.go_tool("cnitool")), verb, "net", NETNS], env=env, check=check)

    def end_pod(self) -> None:
        self.cnitool("del")
        self.host.run(["ip", "netns", "delete", "pod"])

    def replay(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cni_capture", "replay", LOG, *options]
        return self.host.run(command, env={"CNI_CAPTURE_LOG_FILE": LOG}, check=False)

    def sees(self) -> str:
        """Everything on the host but the namespaces of pods."""
        self.host.run(["ip", "netns", "add", "empty"])
        seen = steady(observe(self.host, "empty"), {})
        self.host.run(["ip", "netns", "delete", "empty"])
        return seen

    def replays(self) -> list[tuple[str, str, str]]:
        """Verb, plugin and side of what replays have recorded."""
        records: list[dict[str, Any]] = list(map(json.loads, self.host.read(LOG).splitlines()))
        return [
            (record["env"]["CNI_COMMAND"], record["plugin"], record["side"])
            for record in records
            if "CNI_CAPTURE_REPLAY" in record["env"]
        ]

    def namespaces(self) -> str:
        return self.host.run(["ip", "netns", "list"]).stdout


def both(verb: str, plugin: str) -> list[tuple[str, str, str]]:
    return [(verb, plugin, "entry"), (verb, plugin, "exit")]


def nested(verb: str, outer: str, inner: str) -> list[tuple[str, str, str]]:
    return [(verb, outer, "entry"), *both(verb, inner), (verb, outer, "exit")]


@pytest.fixture
def newest() -> Path:
    tools.need("ip", "unshare", "nsenter")
    return tools.go_folder("plugins")


def test_a_call_that_went_well_goes_well_again(newest: Path) -> None:
    """In a namespace of its own: the same answer, every record marked, and nothing left behind."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(STATIC), TUNING])
        lab.cnitool("add")
        lab.end_pod()
        before = lab.sees()
        done = lab.replay("--cmd", "add", "--label", "bridge", "--exec")
        assert (0, "") == (done.returncode, done.stdout), done.stderr
        assert "the same as ADD of bridge for shop/web on net at" in done.stderr
        assert [*nested("ADD", "bridge", "static"), *nested("DEL", "bridge", "static")] == lab.replays()
        assert (before, "") == (lab.sees(), lab.namespaces())


def test_the_whole_chain_goes_well_again(newest: Path) -> None:
    """What no single call of a chained plugin can in an empty namespace: tuning finds what bridge has made."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(STATIC), TUNING])
        lab.cnitool("add")
        lab.end_pod()
        before = lab.sees()
        alone = lab.replay("--cmd", "add", "--label", "tuning", "--exec")
        assert 1 == alone.returncode
        assert alone.stderr.endswith("--netns names one, --chain runs the whole chain\n")
        done = lab.replay("--chain", "--exec")
        assert (0, "") == (done.returncode, done.stdout), done.stderr
        assert "the same as ADD of bridge+tuning for shop/web on net at" in done.stderr
        assert [
            *nested("ADD", "bridge", "static"),
            *both("ADD", "tuning"),
            *both("DEL", "tuning"),
            *nested("DEL", "bridge", "static"),
        ] == lab.replays()[4:]
        assert (before, "") == (lab.sees(), lab.namespaces())


def test_a_failure_fails_again(newest: Path) -> None:
    """Without being asked for, the call that failed is taken; its error is the same."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(HOST_LOCAL), {**TUNING, "sysctl": {"net.ipv4.conf.none.log_martians": "1"}}])
        lab.cnitool("add", check=False)
        lab.end_pod()
        done = lab.replay("--chain", "--exec")
        assert (0, "") == (done.returncode, done.stdout), done.stderr
        assert "ADD of bridge+tuning for shop/web" in done.stderr
        assert "failed (add): " in done.stderr


def test_another_release_can_be_tried(newest: Path) -> None:
    """Debian's bridge answers what the newest has answered; a plugin that is another one does not."""
    tools.need(str(tools.DEBIAN_PLUGINS / "bridge"))
    with Host() as host:
        lab = Lab(host, newest, [bridge(STATIC)])
        lab.cnitool("add")
        lab.end_pod()
        which = ("--cmd", "add", "--label", "bridge", "--exec", "--plugin")
        done = lab.replay(*which, str(tools.DEBIAN_PLUGINS / "bridge"))
        assert (0, "") == (done.returncode, done.stdout), done.stderr
        other = lab.replay(*which, str(tools.DEBIAN_PLUGINS / "ptp"))
        assert 1 == other.returncode
        assert '-      "name": "cni0"' in other.stdout


def test_a_pod_that_is_alive_keeps_what_it_has(newest: Path) -> None:
    """The replay is another container's: addresses, links and rules of the pod are the same afterwards."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(HOST_LOCAL)])
        lab.cnitool("add")
        before = steady(observe(host, "pod"), {})
        taken = sorted(path.name for path in host.path("/var/lib/cni/networks/net").glob("[0-9]*"))
        done = lab.replay("--label", "bridge", "--exec")
        assert (1, ['-      "address": "10.88.0.2/24",', '+      "address": "10.88.0.3/24",']) == (
            done.returncode,
            [line for line in done.stdout.splitlines()[2:] if line[0] in "+-"],
        )
        assert "is alive here" in done.stderr
        assert done.stderr.endswith("hint: most IPAM plugins give each ADD another address\n")
        assert before.replace("10.88.0.3", "10.88.0.2") == steady(observe(host, "pod"), {}).replace(
            "10.88.0.3", "10.88.0.2"
        )
        assert taken == sorted(path.name for path in host.path("/var/lib/cni/networks/net").glob("[0-9]*"))


def test_in_a_namespace_that_is_named_everything_stays(newest: Path) -> None:
    """Whoever names it wants to look at it."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(STATIC)])
        lab.cnitool("add")
        lab.end_pod()
        host.run(["ip", "netns", "add", "mine"])
        done = lab.replay("--cmd", "add", "--label", "bridge", "--exec", "--netns", "/run/netns/mine")
        assert (0, "") == (done.returncode, done.stdout), done.stderr
        assert "10.88.0.7/24" in host.run(["ip", "-n", "mine", "-br", "address", "show", "eth0"]).stdout
        assert nested("ADD", "bridge", "static") == lab.replays()


def test_the_scripts_do_what_they_say(newest: Path) -> None:
    """The one of a call in a namespace of that name; that of a chain makes its own, and says how it goes away again."""
    with Host() as host:
        lab = Lab(host, newest, [bridge(STATIC), TUNING])
        lab.cnitool("add")
        lab.end_pod()
        script = lab.replay("--cmd", "add", "--label", "bridge").stdout
        host.run(["ip", "netns", "add", "pod"])
        result = json.loads(host.run(["sh"], stdin=script).stdout)
        assert ["10.88.0.7/24"] == [ip["address"] for ip in result["ips"]]
        host.run(["ip", "netns", "delete", "pod"])
        whole = lab.replay("--chain", "--container-id", "again").stdout
        ran = host.run(["sh"], stdin=whole)
        assert [1300] == [
            link["mtu"]
            for link in json.loads(host.run(["ip", "-n", "cni-capture-again", "-j", "link", "show", "eth0"]).stdout)
        ]
        undo = ran.stderr.splitlines()[-1]
        host.run(["sh", "-c", undo])
        assert "" == lab.namespaces()


def test_a_replay_that_is_ended_leaves_nothing_behind(newest: Path) -> None:
    """The plugin hangs; SIGTERM ends it, what it had made is deleted, and the namespace is gone."""
    with Host() as host:
        host.write("/run/own/sleeper", SLEEPER, mode=0o755)
        lab = Lab(host, Path("/run/own"), [{"type": "sleeper"}])
        lab.cnitool("add")
        lab.end_pod()
        host.write("/run/slow", "")
        host.path("/run/calls").unlink()
        command = [sys.executable, "-m", "cni_capture", "replay", LOG, "--cmd", "add", "--exec"]
        running = host.popen(["sh", "-c", 'echo $$ >/run/pid; exec "$@"', "sh", *command], log="/run/said")
        until(lambda: host.path("/run/calls").exists(), "the plugin hangs")
        host.run(["kill", "-TERM", host.read("/run/pid").strip()])
        assert 130 == running.wait(timeout=20)
        assert ("ADD\nDEL\n", "") == (host.read("/run/calls"), lab.namespaces())
        assert "" == host.run(["pgrep", "-f", "sleep 600"], check=False).stdout
