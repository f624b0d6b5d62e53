"""The examples do what the README says of them. Real plugins run them in tests/runtimes/test_examples.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLES = CHECKOUT / "examples"
# What each probe sees of a call.
ENDS = {"capture-pre": ["one"], "capture-post": ["other"], "capture-wrap": ["one", "other"]}
CONFLISTS = sorted(EXAMPLES.glob("net.d/*.conflist"))
PROBES = ("capture-pre", "capture-post", "capture-wrap")


@pytest.mark.parametrize("conflist", CONFLISTS, ids=lambda path: path.name)
def test_each_conflist_runs_with_its_plugins_played_by_pretend(conflist: Path, tmp_path: Path) -> None:
    """ADD and DEL pass through every entry, and each probe records both; the plugins themselves are stand-ins here."""
    plugins = json.loads(conflist.read_text())["plugins"]
    for name in {plugin.get("capture", plugin)["type"] for plugin in plugins} - set(PROBES):
        (tmp_path / name).write_text((EXAMPLES / "pretend").read_text().replace('config["address"]', '"10.9.8.7/24"'))
        (tmp_path / name).chmod(0o755)

    for verb in ("add", "del"):
        ran = _run(conflist, tmp_path, verb)
        assert (ran.returncode, ran.stderr) == (0, "")

    probes = [plugin["type"] for plugin in plugins if plugin["type"] in PROBES for _ in ENDS[plugin["type"]]]
    records = (tmp_path / "cni.log").read_text().splitlines()
    assert [*probes, *reversed(probes)] == [next(name for name in PROBES if name in record) for record in records]


def _run(conflist: Path, folder: Path, verb: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cni_capture", "run", verb, str(conflist)]
    options = ["--container-id", "example", "--cache-dir", str(folder / "cache"), "--path", f"{CHECKOUT}/bin:{folder}"]
    if verb == "add":
        options += ["--netns", "/proc/self/ns/net"]
    environ = {"CNI_CAPTURE_LOG_FILE": f"{folder}/cni.log", "CNI_CAPTURE_LOCK_FILE": f"{folder}/cni.lock"}
    return subprocess.run([*command, *options], env={**os.environ, **environ}, capture_output=True, text=True)


@pytest.mark.parametrize("conflist", CONFLISTS, ids=lambda path: path.name)
def test_no_example_puts_a_probe_before_a_plugin_that_must_not_have_one(conflist: Path) -> None:
    """What the README says about the first place holds for the examples beside it."""
    plugins = [plugin["type"] for plugin in json.loads(conflist.read_text())["plugins"]]
    first = plugins[1] if plugins[0] == "capture-pre" else None
    assert first not in ("cilium-cni", "loopback", "portmap", "tuning", "bandwidth", "firewall", "sbr", "vrf", "ipvlan")


@pytest.mark.parametrize(
    ("probe", "verb", "answer"),
    [
        (
            "capture-pre",
            "ADD",
            '{\n    "cniVersion": "1.0.0",\n'
            '    "interfaces": [{"name": "eth0", "mac": "0a:58:0a:09:08:07", "sandbox": "/var/run/netns/by-hand"}],\n'
            '    "ips": [{"address": "10.9.8.7/24", "interface": 0}]\n  }',
        ),
        ("capture-post", "DEL", ""),
        (
            "capture-post",
            "VERSION",
            '{"cniVersion": "1.1.0", "supportedVersions": '
            '["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]}',
        ),
    ],
)
def test_the_script_calls_a_probe_by_hand(probe: str, verb: str, answer: str, tmp_path: Path) -> None:
    """With only a verb and a container in the environment, the probe answers, and records all but VERSION."""
    log = tmp_path / "cni.log"
    environ = {
        "PATH": os.environ["PATH"],
        "CNI_COMMAND": verb,
        "CNI_CAPTURE_LOG_FILE": str(log),
        "CNI_CAPTURE_LOCK_FILE": str(tmp_path / "cni.lock"),
    }
    ran = subprocess.run([EXAMPLES / "call-by-hand.sh", CHECKOUT / "bin" / probe], env=environ, capture_output=True)
    assert (0, answer.encode(), b"") == (ran.returncode, ran.stdout, ran.stderr)
    assert (verb != "VERSION") == log.exists()


def test_the_demo_needs_neither_root_nor_plugins(tmp_path: Path) -> None:
    """With a plugin folder that holds nothing it shows ADD, CHECK and DEL with `pretend`, and all six records."""
    ran = subprocess.run(
        [EXAMPLES / "demo.sh"], env={**os.environ, "CNI_PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    log = ran.stdout.partition("cat cni.log")[2]
    assert [
        ("capture-pre", "ADD", "input"),
        ("capture-post", "ADD", "output"),
        ("capture-pre", "CHECK", "input"),
        ("capture-post", "CHECK", "input"),
        ("capture-post", "DEL", "input"),
        ("capture-pre", "DEL", "input"),
    ] == [_seen(line) for line in log.splitlines() if "CNI_COMMAND=" in line]


def _seen(line: str) -> tuple[str, str, str]:
    message = line.partition("CNI_COMMAND=")[2]
    verb, _, rest = message.partition(",CNI_CONTAINERID=demo,")
    return line.split()[1].partition("[")[0], verb, rest.partition("=")[0]
