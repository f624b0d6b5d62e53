"""Whoever can write where the log is cannot have the probe, which is root, touch a file elsewhere, nor read the log."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.calls import HEALTHY, Answer, call, config, environ, needs_root

pytestmark = needs_root

ATTACKER = 65534
PROGRAM = Path(__file__).with_name("attacker.py")
SECRET = "only-root-may-read-this"
Trick = Callable[[Path, Path], object]


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file of root's outside, in which nothing may change."""
    path = tmp_path / "victim"
    path.write_text("root's\n")
    path.chmod(0o644)
    before = state(path)
    yield path
    assert before == state(path)


def state(path: Path) -> tuple[object, ...]:
    found = os.lstat(path)
    return path.read_bytes(), found.st_ino, found.st_mode, found.st_uid, found.st_mtime_ns


def stdin(folder: Path) -> bytes:
    """A call that rotates at every record and waits for no lock."""
    options = {"maxSize": 1e-5, "maxBackups": 3}
    return config(
        logFile=f"{folder}/cni.log", lockFile=f"{folder}/cni.lock", logOptions=options, lockTimeout=0.1, note=SECRET
    )


def assert_not_harmed(answer: Answer) -> None:
    """The answer of a healthy run, and at most one line of complaint."""
    assert (HEALTHY.status, HEALTHY.stdout) == (answer.status, answer.stdout)
    assert answer.stderr.count("\n") <= 1


def assert_closed(folder: Path) -> None:
    """Every file with a record in it is root's alone."""
    for path in folder.iterdir():
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # gone already, or a link
            continue
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and SECRET.encode() in os.read(fd, 1 << 20):
            assert (0, 0o600) == (found.st_uid, stat.S_IMODE(found.st_mode)), path
        os.close(fd)


def as_attacker(path: Path) -> None:
    os.lchown(path, ATTACKER, ATTACKER)


def link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)
    as_attacker(path)


def hard_link(path: Path, victim: Path) -> None:
    """As anybody can where fs.protected_hardlinks is off."""
    path.hardlink_to(victim)


def dangling(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("new"))
    as_attacker(path)


def fifo(path: Path, victim: Path) -> None:
    os.mkfifo(path)
    as_attacker(path)


def readable_file(path: Path, victim: Path) -> None:
    path.write_text("")
    path.chmod(0o666)
    as_attacker(path)


def folder_of_links(path: Path, victim: Path) -> None:
    path.mkdir()
    (path / "cni.log").symlink_to(victim)
    as_attacker(path)


TRICKS = [link, hard_link, dangling, fifo, readable_file, folder_of_links]


@pytest.mark.parametrize("name", ["cni.log", "cni.lock", "cni.log.1", "cni.log.2", "cni.log.3", "cni.log.4"])
@pytest.mark.parametrize("trick", TRICKS)
def test_what_is_planted_is_not_followed(sticky: Path, victim: Path, trick: Trick, name: str) -> None:
    """Links, FIFOs, files and directories in the place of log, lock or backups lead nowhere."""
    trick(sticky / name, victim)

    for number in range(5):
        assert_not_harmed(call(stdin(sticky), environ(CNI_CONTAINERID=f"c{number}")))

    assert not victim.with_name("new").exists()
    assert_closed(sticky)


def test_what_is_swapped_while_calls_run_is_not_followed(sticky: Path, victim: Path, tmp_path: Path) -> None:
    """Somebody who wins every race still gets nothing of root's changed, no record to read, and no call to fail."""
    own = sticky / "own"
    own.mkdir()
    own.chmod(0o777)
    # Not our own interpreter, which may be root's alone.
    command = ["/usr/bin/python3", "-IS", "-c", PROGRAM.read_text(), str(sticky), str(victim), str(own / "x")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=ATTACKER, group=ATTACKER, extra_groups=[]
    ) as attacker:
        assert attacker.stdin
        assert attacker.stdout
        assert attacker.stdout.readline() == b"ready\n"
        for number in range(150):
            assert_not_harmed(call(stdin(sticky), environ(CNI_CONTAINERID=f"c{number}")))
            if number % 3 == 0:  # without this, root's own files would soon be all that there is
                for path in sticky.glob("cni.*"):
                    with contextlib.suppress(OSError):
                        path.unlink()
            assert_closed(sticky)
        assert attacker.poll() is None
        attacker.stdin.close()

    assert ["victim"] == [path.name for path in tmp_path.iterdir()]
    assert 0 not in {path.lstat().st_uid for path in own.iterdir()}, "root made a file through a link"
