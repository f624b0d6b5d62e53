"""A file is replaced whole or not at all, whatever happens and whenever."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cni_capture.conf import confdir, splicing
from cni_capture.conf.plan import Plan
from cni_capture.conf.probes import splice as spliced
from cni_capture.conf.save import Changed, save
from cni_capture.conf.splicing import Places, splice, unsplice
from tests.node import BIN

OLD = b'{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"bridge"}]}'
CONF = b'{"cniVersion": "1.0.0", "name": "x", "type": "bridge"}\n'


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _mark(path: Path) -> None:
    """Give a file an extended attribute, where the file system can."""
    with contextlib.suppress(OSError):
        os.setxattr(path, "user.owner", b"calico")


def _marks(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


def test_mode_owner_and_attributes_are_those_of_the_file_before(tmp_path: Path) -> None:
    """Of the user's own, and of another user's where the test may give files away."""
    path = tmp_path / "x.conflist"
    path.write_bytes(OLD)
    path.chmod(0o640)
    _mark(path)
    marks = _marks(path)
    owner = (4711, 4712) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    save(path, b"new", like=path, seen=OLD)
    stat = path.stat()
    assert (b"new", 0o100640, owner) == (path.read_bytes(), stat.st_mode, (stat.st_uid, stat.st_gid))
    assert (marks, ["x.conflist"]) == (_marks(path), _names(tmp_path))


def test_what_somebody_has_written_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """The save is refused and leaves nothing behind."""
    path = tmp_path / "x.conflist"
    path.write_bytes(b"theirs")
    with pytest.raises(Changed):
        save(path, b"ours", like=path, seen=OLD)
    assert (b"theirs", ["x.conflist"]) == (path.read_bytes(), _names(tmp_path))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """And no half of the new one beside it."""
    path = tmp_path / "x.conflist"
    path.write_bytes(OLD)

    def fill() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        save(path, b"n" * 100, like=path, seen=OLD)

    assert 1 == _exit_code(_forked(fill))
    assert (OLD, ["x.conflist"]) == (path.read_bytes(), _names(tmp_path))


def _forked(work: Callable[[], object]) -> int:
    """The wait status of a child that does the work; 1 when that raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


# What leaves a mark on the disk; being killed before any other call is being killed before the next of these.
_STEPS = (os.open, os.write, os.fchown, os.setxattr, os.fchmod, os.fsync, os.close, os.rename, os.unlink, os.rmdir)


def _killed_before(step: int, work: Callable[[], object]) -> int:
    """Do the work in a child that is killed before the step of that number that saving takes."""
    left = step

    def count(frame: FrameType | None, event: str, function: Any) -> None:
        nonlocal left
        if event != "c_call" or function not in _STEPS:
            return
        while frame is not None and not frame.f_code.co_filename.endswith(("/save.py", "/backups.py")):
            frame = frame.f_back
        if frame is not None:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def counted() -> None:
        sys.setprofile(count)
        work()

    return _exit_code(_forked(counted))


def test_what_gets_the_name_is_on_the_disk_already(tmp_path: Path) -> None:
    """Written, with mode and owner, and synced before the rename; then the folder is synced."""
    path = tmp_path / "x.conflist"
    path.write_bytes(OLD)
    steps: list[str] = []

    def note(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function in _STEPS:
            steps.append(function.__name__)

    sys.setprofile(note)
    try:
        save(path, b"new", like=path, seen=OLD)
    finally:
        sys.setprofile(None)
    expected = "open write fchmod fsync close rename open fsync close"
    assert expected == " ".join(steps)


@pytest.mark.parametrize("verb", ["splice", "splice again", "splice what is new", "unsplice"])
@pytest.mark.parametrize(("name", "before"), [("10-x.conflist", OLD), ("10-x.conf", CONF)])
def test_killed_at_any_step_the_old_or_the_new_network_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: bytes, verb: str
) -> None:
    """What runtimes load first is one of the two and whole, and the verb does its work when it is run again."""
    monkeypatch.setattr(splicing, "_check", lambda *_: None)  # nothing is saved yet, and it would take minutes
    plan, other = (Plan(settings={"logFile": str(tmp_path / "log"), "label": label}) for label in ("a", "b"))
    outcomes: list[bytes] = []
    steps = 0
    code = -signal.SIGKILL
    while code == -signal.SIGKILL:
        node = tmp_path / str(steps)
        places = Places(node / "net.d", BIN, node / "state")
        places.conf_dir.mkdir(parents=True)
        (places.conf_dir / name).write_bytes(before)
        original, old, new = before, before, spliced(before, plan)
        if verb != "splice":
            splice(places.conf_dir / name, plan, places)
            old, new = (new, before) if verb == "unsplice" else (new, spliced(before, other))
        if verb == "splice what is new":
            original = old = before.replace(b"bridge", b"ptp")
            (places.conf_dir / name).write_bytes(old)
            new = spliced(old, other)

        def work(places: Places = places) -> None:
            if verb == "unsplice":
                for path in confdir.with_probes(places.conf_dir):
                    unsplice(path, places)
            else:
                splice(confdir.choose(places.conf_dir), plan if verb == "splice" else other, places)

        code = _killed_before(steps, work)
        steps += 1
        outcomes.append(confdir.choose(places.conf_dir).read_bytes())
        assert outcomes[-1] in (old, new), f"killed before step {steps}"
        work()
        expected = name if verb == "unsplice" else "10-x.conflist"
        assert ([expected], new) == (_names(places.conf_dir), (places.conf_dir / expected).read_bytes())
        unsplice(places.conf_dir / expected, places)
        assert ([name], original) == (_names(places.conf_dir), (places.conf_dir / name).read_bytes())
    assert (0, {old, new}) == (code, set(outcomes))
    assert steps > 10
