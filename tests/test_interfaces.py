"""The interfaces snapshot: what is on the host, and what is in the container's namespace, in real namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node import BIN, Answer, Node
from tests.pythons import CHECKOUT, SYSTEM, pythons

_MISSING = [name for name in ("ip", "nsenter", "unshare") if not shutil.which(name)] + ["root"] * (os.geteuid() != 0)
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=f"network namespaces need {', '.join(_MISSING)}")

CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}
STDIN = b'{"cniVersion": "1.0.0", "interfaces": true}'
REPLY = Answer(0, b'{"cniVersion": "1.0.0"}')
CONTAINER = """
ip link set lo up
ip link add eth0 address 02:00:00:00:00:01 type veth peer name peer0 address 02:00:00:00:00:02
ip link set eth0 addrgenmode none
ip addr add 10.1.2.3/24 dev eth0
ip addr add 10.1.2.4/32 dev eth0
ip addr add fd00::1/64 dev eth0 nodad
ip addr add fe80::1/64 dev eth0 nodad
ip link set eth0 up
"""


@contextmanager
def _namespace(setup: str = "") -> Iterator[str]:
    """The path of a network namespace, where the shell has run `setup`; gone with the process that holds it."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-euc", f"{setup}\necho ready\nexec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout
        assert holder.stdout.readline() == b"ready\n"
        yield f"/proc/{holder.pid}/ns/net"
    finally:
        holder.communicate()


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """A host with two interfaces."""
    with _namespace("ip link add cni0 type bridge") as path:
        yield path


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container with three interfaces, one of them with addresses of both families."""
    with _namespace(CONTAINER) as path:
        yield path


def _on(host: str, *argv: str | Path) -> list[str | Path]:
    return ["nsenter", f"--net={host}", "--", *argv]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_on_the_host_and_names_with_addresses_in_the_container(
    node: Node, installed: Callable[[str], Path], host: str, container: str, log_format: str
) -> None:
    """MACs, and addresses as the CNI result spells them, of both families; the host is named, not looked at."""
    environ = {**CALL, "CNI_NETNS": container, "CNI_CAPTURE_LOG_FORMAT": log_format}
    ours = os.path.realpath(sys.executable)  # the one that has netifaces
    assert REPLY == node.execute(_on(host, installed(ours) / "capture-post"), environ, STDIN)
    (interfaces,) = [record.facts["interfaces"] for record in node.records()]
    assert {
        "host": ["lo", "cni0"],
        "netns": [
            {"name": "lo", "mac": "00:00:00:00:00:00", "addresses": ["127.0.0.1/8", "::1/128"]},
            {"name": "peer0", "mac": "02:00:00:00:00:02", "addresses": []},
            {
                "name": "eth0",
                "mac": "02:00:00:00:00:01",
                "addresses": ["10.1.2.3/24", "10.1.2.4/32", "fd00::1/64", "fe80::1/64"],
            },
        ],
    } == interfaces


@pytest.mark.parametrize("python", pythons(), ids=os.path.basename)
def test_every_python_enters_the_namespace_and_leaves_it(
    node: Node, installed: Callable[[str], Path], host: str, container: str, python: str
) -> None:
    """By a system call of our own: the standard library has it since 3.12 only."""
    answer = node.execute(_on(host, installed(python) / "capture-pre"), {**CALL, "CNI_NETNS": container}, STDIN)
    (interfaces,) = [record.facts["interfaces"] for record in node.records()]
    names = [interface["name"] for interface in interfaces["netns"]]
    assert (REPLY, ["lo", "cni0"], ["lo", "peer0", "eth0"]) == (answer, interfaces["host"], names)


def test_without_a_namespace_the_host_is_all_there_is(node: Node, installed: Callable[[str], Path], host: str) -> None:
    """A repeated DEL comes with an empty CNI_NETNS, STATUS with none: no error."""
    for environ in ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x", "CNI_NETNS": ""}, {"CNI_COMMAND": "STATUS"}):
        assert Answer() == node.execute(_on(host, installed(SYSTEM) / "capture-pre"), environ, STDIN)
    assert [{"host": ["lo", "cni0"]}] * 2 == [record.facts["interfaces"] for record in node.records()]


def test_a_namespace_that_cannot_be_entered_is_noted(
    node: Node, installed: Callable[[str], Path], tmp_path: Path, host: str
) -> None:
    """One that is gone, one that is a plain file, one that is a FIFO: the record says why, and nobody waits."""
    plain, fifo = tmp_path / "plain", tmp_path / "fifo"
    plain.touch()
    os.mkfifo(fifo)
    for path in (tmp_path / "gone", plain, fifo):
        environ = {**CALL, "CNI_NETNS": str(path)}
        assert REPLY == node.execute(_on(host, installed(SYSTEM) / "capture-pre"), environ, STDIN)
    assert [
        {"host": ["lo", "cni0"], "netnsError": f"{tmp_path}/gone: No such file or directory"},
        {"host": ["lo", "cni0"], "netnsError": f"{plain}: Invalid argument"},
        {"host": ["lo", "cni0"], "netnsError": f"{fifo}: Invalid argument"},
    ] == [record.facts["interfaces"] for record in node.records()]


def _snapshot(host: str, prepare: str, netns: str) -> str:
    """What a script prints that takes a snapshot on `host` after `prepare`, and then says where it is."""
    script = f"""
import os, netifaces
from cni_capture.interfaces import snapshot
{prepare}
home = os.readlink("/proc/self/ns/net")
print(snapshot({netns!r}), os.readlink("/proc/self/ns/net") == home)
"""
    argv = _on(host, sys.executable, "-c", script)
    return subprocess.run(argv, capture_output=True, text=True, cwd=CHECKOUT, timeout=20, check=True).stdout


NOT_LOOKED_AT = """
def looked(name):
    raise AssertionError(name)
netifaces.ifaddresses = looked
"""


def test_three_hundred_interfaces_on_a_node_are_names_only() -> None:
    """Not one of them is looked at by itself: each look would read the addresses of all."""
    pairs = [(f"veth{number}", f"peer{number}") for number in range(150)]
    links = "".join(f"link add {name} type veth peer name {peer}\n" for name, peer in pairs)
    # Of a pair the peer comes first.
    names = ",".join(f'"{name}"' for name in ("lo", *(name for pair in pairs for name in reversed(pair))))
    with _namespace(f"ip -batch - <<END\n{links}END") as node:
        assert f'{{"host":[{names}]}} True\n' == _snapshot(node, NOT_LOOKED_AT, "")


def test_an_interface_that_vanishes_meanwhile_does_not_leave_the_probe_in_the_container(
    host: str, container: str
) -> None:
    """Trouble inside is noted, and the process is back where it was."""
    vanish = 'def vanish(name):\n    raise ValueError("You must specify a valid interface name.")\n'
    words = f'"netnsError":"{container}: You must specify a valid interface name."'
    expected = f'{{"host":["lo","cni0"],{words}}} True\n'
    assert expected == _snapshot(host, f"{vanish}netifaces.ifaddresses = vanish", container)


def test_without_netifaces_the_call_is_recorded_all_the_same(node: Node) -> None:
    """The checkout's own programs run where netifaces is not installed: the record says so instead of a snapshot."""
    answer = node.execute([BIN / "capture-pre"], CALL, STDIN)
    assert REPLY == answer
    why = {"error": "ModuleNotFoundError: No module named 'netifaces'"}
    assert [(why, STDIN)] == [(record.facts["interfaces"], record.body) for record in node.records()]
