"""The probes are replaced under the hands of those who call them, and stay as long as somebody may."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cni_capture import launchers
from cni_capture.commands import main
from tests.node import PROBES, PROGRAMS, Answer, Node
from tests.pythons import CHECKOUT

CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}
REPLY = Answer(0, b'{"cniVersion": "0.1.0"}')
SPLICED = b'{"name": "x", "plugins": [{"type": "capture-pre"}, {"type": "bridge"}, {"type": "capture-post"}]}'


def test_no_call_fails_during_ten_upgrades(node: Node, tmp_path: Path) -> None:
    """Two callers without a pause; each upgrade brings other code, and each call is answered and recorded."""
    edition = tmp_path / "edition" / "cni_capture"
    shutil.copytree(CHECKOUT / "cni_capture", edition, ignore=shutil.ignore_patterns("__pycache__"))
    places = ["--prefix", str(tmp_path / "prefix"), "--cni-bin", str(tmp_path / "bin")]
    install = [sys.executable, "-m", "cni_capture", "install", *places]

    def upgrade(number: int) -> None:
        with (edition / "reply.py").open("a") as source:
            source.write(f"EDITION = {number}\n")
        subprocess.run(install, cwd=edition.parent, check=True, capture_output=True, timeout=60)

    upgrade(0)
    answers: list[Answer] = []
    done = threading.Event()

    def call(probe: str) -> None:
        while not done.is_set():
            answers.append(node.execute([tmp_path / "bin" / probe], CALL))

    callers = [threading.Thread(target=call, args=(probe,)) for probe in PROBES]
    for caller in callers:
        caller.start()
    try:
        for number in range(1, 11):
            upgrade(number)
    finally:
        done.set()
        for caller in callers:
            caller.join()
    assert {REPLY} == set(answers)
    assert len(answers) == len(node.records())
    assert len(answers) > 20


def _uninstall(tmp_path: Path, *options: str) -> int:
    places = [f"--{name}={tmp_path / name}" for name in ("prefix", "cni-bin", "conf-dir", "cache-dir")]
    return main(["uninstall", *places, *options])


@pytest.fixture
def node_folder(tmp_path: Path) -> Path:
    launchers.install(tmp_path / "prefix", tmp_path / "cni-bin")
    (tmp_path / "conf-dir").mkdir()
    return tmp_path


def test_probes_that_a_conflist_names_stay(node_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Uninstalling is refused, also for a file that is not the one in use; with --force it is done."""
    conflist = node_folder / "conf-dir" / "99-last.conflist"
    (node_folder / "conf-dir" / "10-first.conflist").write_text('{"name": "x", "plugins": [{"type": "bridge"}]}')
    conflist.write_bytes(SPLICED)
    assert 2 == _uninstall(node_folder)
    expected = (
        f"cni-capture: {conflist} still names the probes\nhint: cni-capture unsplice, then try again; or --force\n"
    )
    assert ("", expected) == capsys.readouterr()
    assert set(PROGRAMS) == {path.name for path in (node_folder / "cni-bin").iterdir()}
    assert 0 == _uninstall(node_folder, "--force")
    assert [] == list((node_folder / "cni-bin").iterdir())


def test_probes_that_containers_were_started_with_stay(node_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """podman calls them when it deletes the container; what else is in the cache does not matter."""
    results = node_folder / "cache-dir" / "results"
    results.mkdir(parents=True)
    (results / "old").write_text('{"cniVersion": "0.4.0"}')
    for name, config in (("with", SPLICED), ("without", b'{"name": "x", "plugins": [{"type": "bridge"}]}')):
        record = {"kind": "cniCacheV1", "containerId": name, "config": base64.b64encode(config).decode()}
        (results / f"x-{name}-eth0").write_text(json.dumps(record))
    assert 2 == _uninstall(node_folder)
    first = capsys.readouterr().err.splitlines()[0]
    assert "cni-capture: 1 containers were started with the probes and are still there: with" == first
    (results / "x-with-eth0").unlink()
    assert 0 == _uninstall(node_folder)
