"""The log: whole lines, one writer at a time, waits with an end, and files that are the owner's alone."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from cni_capture import log
from cni_capture.rotate import rotate
from cni_capture.settings import Settings
from tests.node import Answer, Node
from tests.runtimes.waiting import until

CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}
REPLY = b'{"cniVersion": "0.1.0"}'


@pytest.fixture
def settings(node: Node) -> Settings:
    """The settings of a node, with a lock wait that a test can wait for."""
    settings = Settings()
    settings.log_file, settings.lock_file, settings.lock_timeout = str(node.log), str(node.lock), 0.2
    return settings


def _write(settings: Settings, *lines: bytes) -> list[str]:
    return [log.write(settings, lambda why, line=line: [line[:3], line[3:]]) for line in lines]  # type: ignore[misc]


def _inodes_waited_for() -> set[int]:
    """The inodes of the files whose flock somebody waits to have alone: proc(5), /proc/locks."""
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return {int(words[6].rpartition(":")[2]) for words in locks if words[1:5] == ["->", "FLOCK", "ADVISORY", "WRITE"]}


def _content(node: Node) -> dict[str, bytes]:
    """What is in the files of the log, by their ends."""
    return {path.name[7:]: path.read_bytes() for path in sorted(node.log.parent.glob("cni.log*"))}


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_log_lock_and_rotated_files_are_readable_by_their_owner_alone(node: Node, settings: Settings) -> None:
    """0600, whatever the umask of the runtime, and for a log that was made with more, too."""
    settings.max_size = 1
    _write(settings, b"line 1\n", b"line 2\n")
    os.chmod(node.lock, 0o666)
    _write(settings, b"line 3\n")
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in node.log.parent.iterdir()}
    assert dict.fromkeys(["cni.lock", "cni.log", "cni.log.1", "cni.log.2"], 0o600) == files


def test_a_record_is_in_the_file_whole_when_the_call_is_answered(node: Node) -> None:
    """A megabyte of configuration is one line at the moment at which the reply is written."""
    stdin = b'{"a":"' + b"x" * 1_000_000 + b'"}'
    assert Answer(0, REPLY) == node.call("capture-pre", CALL, stdin)
    assert [stdin] == [record.body for record in node.records()]


def test_records_are_appended_to_what_is_there(node: Node, settings: Settings) -> None:
    """Nothing that stands in the file is touched."""
    node.log.write_bytes(b"somebody's\nlines\n")
    assert ["", ""] == _write(settings, b"line 1\n", b"line 2\n")
    assert {"": b"somebody's\nlines\nline 1\nline 2\n"} == _content(node)


def test_a_tool_with_the_lock_keeps_the_probes_out(node: Node) -> None:
    """While filelock.FileLock holds the lock file a probe waits, no longer than told, then records and says so."""
    words = f"{node.lock} was locked for 0.2 s"
    start = time.monotonic()
    with filelock.FileLock(node.lock):
        answer = node.call("capture-pre", {**CALL, "CNI_CAPTURE_LOCK_TIMEOUT": "0.2"})
    elapsed = time.monotonic() - start
    assert (
        Answer(0, REPLY, f"capture-pre: recorded without the lock: {words}; hint: cni-capture doctor\n".encode())
        == answer
    )
    assert [words] == [record.facts["unlocked"] for record in node.records()]
    assert 0.2 <= elapsed < 5


def test_a_probe_with_the_lock_keeps_the_tools_out(node: Node, settings: Settings) -> None:
    """At the moment at which a probe makes its line, no filelock.FileLock gets the lock; after it, one does."""
    tool = filelock.FileLock(node.lock, timeout=0)
    seen = []

    def line(why: str) -> Sequence[bytes]:
        with pytest.raises(filelock.Timeout):
            tool.acquire()
        seen.append(why)
        return [b"line\n"]

    assert ("", [""]) == (log.write(settings, line), seen)
    with tool:
        assert tool.is_locked


def test_a_probe_waits_for_the_lock_and_then_has_it(node: Node, settings: Settings) -> None:
    """A tool that lets go in time costs nothing but the wait: the record is written under the lock."""
    settings.lock_timeout = 20
    tool = filelock.FileLock(node.lock, thread_local=False)
    tool.acquire()
    with ThreadPoolExecutor() as pool:
        written = pool.submit(_write, settings, b"line\n")
        until(lambda: node.lock.stat().st_ino in _inodes_waited_for(), "the probe waits")
        assert {} == _content(node)
        tool.release()
        assert [""] == written.result(20)
    assert {"": b"line\n"} == _content(node)


def test_a_lock_file_that_was_removed_is_no_lock(node: Node, settings: Settings) -> None:
    """Whoever holds a removed lock file holds nobody up: the probe makes a new one."""
    with filelock.FileLock(node.lock):
        node.lock.unlink()
        assert [""] == _write(settings, b"line\n")


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_not_taken_for_one(node: Node, settings: Settings) -> None:
    """A probe that waited for a file that is gone by then goes on to wait for the one in its place."""
    settings.lock_timeout = 20
    first, second = (filelock.FileLock(node.lock, timeout=20) for _ in range(2))
    with ThreadPoolExecutor() as pool:
        first.acquire()
        written = pool.submit(_write, settings, b"line\n")
        until(lambda: node.lock.stat().st_ino in _inodes_waited_for(), "the probe waits")
        node.lock.unlink()
        second.acquire()
        first.release()
        until(lambda: node.lock.stat().st_ino in _inodes_waited_for(), "the probe waits for the new file")
        assert {} == _content(node)
        second.release()
        assert [""] == written.result(20)


def test_a_log_that_would_grow_past_its_size_is_rotated_first(node: Node, settings: Settings) -> None:
    """No file exceeds maxSize unless one record does; at most maxBackups old ones stay, the newest as .1."""
    settings.max_size, settings.max_backups = 14, 2
    lines = [b"line %d\n" % number for number in range(1, 8)]
    assert [""] * 7 == _write(settings, *lines)
    assert {"": b"line 7\n", ".1": b"line 5\nline 6\n", ".2": b"line 3\nline 4\n"} == _content(node)
    assert [""] * 2 == _write(settings, b"a line that is longer than the size\n", b"end\n")
    assert b"a line that is longer than the size\n" == _content(node)[".1"]


def test_no_size_is_no_rotation_and_no_backups_is_a_fresh_file(node: Node, settings: Settings) -> None:
    """maxSize 0 never rotates; maxBackups 0 keeps nothing."""
    settings.max_size = 0
    _write(settings, b"line 1\n", b"line 2\n")
    assert {"": b"line 1\nline 2\n"} == _content(node)
    settings.max_size, settings.max_backups = 1, 0
    _write(settings, b"line 3\n")
    assert {"": b"line 3\n"} == _content(node)


def test_a_smaller_number_of_backups_removes_the_surplus(tmp_path: Path) -> None:
    """What an earlier, larger setting kept is gone after the next rotation."""
    for name in ("cni.log", *(f"cni.log.{number}" for number in range(1, 7))):
        (tmp_path / name).write_text(name)
    assert "" == rotate(str(tmp_path / "cni.log"), 3)
    expected = {"cni.log.1": "cni.log", "cni.log.2": "cni.log.1", "cni.log.3": "cni.log.2"}
    assert expected == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_a_torn_record_is_removed_and_the_next_one_is_whole(node: Node) -> None:
    """What a killed writer left is cut off, and said; the records around it stay."""
    for log_format in ("text", "json"):
        node.environ["CNI_CAPTURE_LOG_FORMAT"] = log_format
        node.call("capture-pre", CALL)
        whole = node.log.read_bytes()
        node.log.write_bytes(whole + whole[:-1])
        trouble = f"capture-post: removed a torn record of {len(whole) - 1} bytes; hint: cni-capture doctor\n"
        assert Answer(0, REPLY, trouble.encode()) == node.call("capture-post", CALL)
        assert ["capture-pre", "capture-post"] == [record.probe for record in node.records()]
        node.log.unlink()


def test_what_is_not_a_record_is_ended_and_kept(node: Node, settings: Settings) -> None:
    """Text of somebody else's without a line feed at its end gets one, and is not cut off."""
    node.log.write_bytes(b"by hand")
    assert [""] == _write(settings, b"line\n")
    assert {"": b"by hand\nline\n"} == _content(node)
