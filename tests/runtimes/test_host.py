from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtimes import tools
from tests.runtimes.host import CHECKOUT, PLAIN_ENVIRONMENT, Host
from tests.runtimes.waiting import until

NAP = f"86{os.getpid()}"
"""Seconds to sleep, told from anybody else's."""
MARKS = ("leave0", "192.0.2.77", f"sleep {NAP}", f"cni-capture-{os.getpid()}-")


@pytest.fixture(autouse=True)
def _needs() -> None:
    tools.need("ip", "iptables", "unshare", "nsenter")


def machine() -> list[str]:
    """Every line that this machine says of itself with one of the marks in it."""
    commands = ("ip -o link", "iptables-save", "ip netns list", "ps ax -o args", "cat /proc/self/mounts")
    said = [subprocess.run(words.split(), capture_output=True, text=True).stdout for words in commands]
    lines = [*"".join(said).splitlines(), *map(str, Path("/sys/fs/cgroup").glob("*/cni-capture-*"))]
    return [line for line in lines if any(mark in line for mark in MARKS)]


def test_a_host_leaves_nothing() -> None:
    """Links, rules, namespaces, mounts, processes, cgroups and files made inside are gone with it."""
    folders = ("/etc", "/etc/cni", "/var/lib", "/var/lib/cni", "/run", "/tmp", "/opt")
    with Host() as host:
        host.run(["ip", "link", "add", "leave0", "type", "bridge"])
        host.run(["ip", "netns", "add", "leave0"])
        host.run(["iptables", "-A", "INPUT", "-s", "192.0.2.77", "-j", "DROP"])
        host.run(["mount", "-t", "tmpfs", "leave0", "/srv"])
        host.run(["sh", "-c", f"setsid sleep {NAP} >/dev/null 2>&1 &"])
        host.popen(["sleep", NAP], log="/tmp/log")
        for folder in folders:
            host.write(f"{folder}/leave0", "")
        cgroup = next(Path("/sys/fs/cgroup").glob("pids"), Path("/sys/fs/cgroup")) / host.name
        (cgroup / "inner").mkdir(parents=True)
        until(lambda: machine().count(f"sleep {NAP}") == 2, "both processes run")
        assert str(cgroup) in machine()
        host.run(["test", "-e", "/run/leave0"])
    assert not machine()
    assert not [folder for folder in folders if Path(folder, "leave0").exists()]


def test_a_host_ends_with_the_process_that_holds_it() -> None:
    """Even when that one is killed, nothing of the host runs on."""
    script = f"""if True:
        from tests.runtimes.host import Host
        with Host() as host:
            host.popen(["sleep", "{NAP}"], log="/tmp/log")
            input()
    """
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, cwd=CHECKOUT) as holder:
        until(lambda: f"sleep {NAP}" in machine(), "the process runs")
        holder.kill()
    until(lambda: machine() == [], "nothing runs on")


def test_a_host_is_fresh() -> None:
    """No link but lo, none of this machine's CNI configuration and state, a plain environment, and the checkout."""
    expected = {
        "links": ["lo"],
        "cni": [],
        "environment": [f"{key}={value}" for key, value in PLAIN_ENVIRONMENT.items()],
        "checkout": [__file__],
    }
    with Host() as host:
        seen = {
            "links": [link["ifname"] for link in json.loads(host.run(["ip", "-j", "link"]).stdout)],
            "cni": host.run(["find", "/etc/cni", "/var/lib/cni", "-mindepth", "1"]).stdout.splitlines(),
            "environment": host.run(["env"]).stdout.splitlines(),
            "checkout": host.run(["ls", __file__]).stdout.splitlines(),
        }
    assert expected == seen


def test_a_failing_command_says_what_it_said() -> None:
    """With check, its exit code and its words are in the error; without, they are the answer."""
    argv = ["sh", "-c", "cat; exit 3"]
    expected = (3, "hello\n")
    with Host() as host:
        done = host.run(argv, stdin="hello\n", check=False)
        assert expected == (done.returncode, done.stdout)
        with pytest.raises(RuntimeError, match="ended with 3\nhello\n"):
            host.run(argv, stdin="hello\n")


def test_a_missing_command_is_an_error() -> None:
    """Even without check: else two runs that did nothing would compare as the same."""
    with Host() as host, pytest.raises(RuntimeError, match="no-such-command: No such file"):
        host.run(["no-such-command"], check=False)
