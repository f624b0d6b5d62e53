"""`cni-capture show --follow`: each operation as soon as it is over, whatever happens to the file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.show.command import ENVIRON, MAIN, show
from tests.show.stories import Story, full, result

LINES = full().lines("json")
PATIENCE = 20.0  # seconds


class Following:
    """The command at work on a log, with what it has written so far."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        self.out = log.parent / "out"
        self.err = log.parent / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen([*MAIN, "-f", log, *arguments], stdout=out, stderr=err, env=ENVIRON)

    def append(self, *lines: bytes) -> None:
        with self.log.open("ab") as log:
            log.write(b"".join(lines))

    def rotate(self) -> None:
        """As a probe does it."""
        if (older := self.log.with_name("cni.log.1")).exists():
            older.rename(self.log.with_name("cni.log.2"))
        self.log.rename(older)

    def wait_for(self, rows: list[str]) -> None:
        """Until the verbs, containers and verdicts shown are these, and never more."""
        deadline = time.monotonic() + PATIENCE
        while (seen := self._rows()) != rows:
            assert time.monotonic() < deadline, f"{seen} is not {rows}; {self.err.read_text()}"
            assert len(seen) <= len(rows), f"{seen} is more than {rows}"
            time.sleep(0.01)

    def wait_for_words(self, file: Path, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while words not in file.read_text():
            assert time.monotonic() < deadline, f"no {words!r} in {file.read_text()!r}"
            time.sleep(0.01)

    def _rows(self) -> list[str]:
        lines = [line.split() for line in self.out.read_text().splitlines()[1:] if not line.startswith("--")]
        return [" ".join([line[2], line[1], *line[6:9]]) for line in lines]

    def end(self) -> int:
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Following]]:
    """A function from arguments to the command that follows; what it started is interrupted at the end."""
    started: list[Following] = []

    def start(*arguments: str) -> Following:
        started.append(Following(tmp_path / "cni.log", *arguments))
        return started[-1]

    yield start
    assert [130] * len(started) == [command.end() for command in started]


@pytest.fixture
def following(follow: Callable[..., Following]) -> Following:
    command = follow()
    command.wait_for_words(command.out, "RESULT")
    return command


STATUS, WEB = "STATUS - ok", "ADD 3f9c1a ok 10.1.0.7/24 +ip…"
DNS, CLEAN_UP = "ADD 77b0e2 no exit seen", "DEL 77b0e2 ok clean-up of"


def test_a_log_that_does_not_exist_yet_is_waited_for(following: Following) -> None:
    """Somebody looks before the first pod starts."""
    following.append(*LINES[:2])
    following.wait_for([STATUS])


def test_an_operation_is_shown_when_its_exit_comes(following: Following) -> None:
    """Not before, once, and then at once; a failed ADD when its clean-up begins."""
    following.append(*LINES[:3])
    following.wait_for([STATUS])
    following.append(*LINES[3:5])
    following.wait_for([STATUS, WEB])
    following.append(LINES[5])
    following.wait_for([STATUS, WEB, DNS])
    following.append(LINES[6])
    following.wait_for([STATUS, WEB, DNS, CLEAN_UP])


def test_a_record_may_come_in_pieces(following: Following) -> None:
    """Half a line is no damage as long as the rest may come."""
    following.append(LINES[0], LINES[1][:100])
    following.append(LINES[2][:0])
    following.append(LINES[1][100:])
    following.wait_for([STATUS])
    assert following.err.read_text() == ""


def test_rotation_loses_nothing(following: Following) -> None:
    """Even when the log is rotated twice between two looks."""
    following.append(*LINES[:3])
    following.wait_for([STATUS])
    following.rotate()
    following.append(*LINES[3:5])
    following.rotate()
    following.append(*LINES[5:7])
    following.wait_for([STATUS, WEB, DNS, CLEAN_UP])


def test_a_truncated_log_begins_anew(following: Following) -> None:
    """As logrotate's copytruncate leaves it."""
    following.append(*LINES[:4])
    following.wait_for([STATUS, WEB])
    following.log.write_bytes(b"")
    time.sleep(0.7)  # what is truncated and grown again between two looks cannot be told from what has only grown
    following.append(*LINES[4:7])
    following.wait_for([STATUS, WEB, DNS, CLEAN_UP])


def test_a_removed_log_is_awaited_again(following: Following) -> None:
    """Somebody cleans up /tmp."""
    following.append(*LINES[:2])
    following.wait_for([STATUS])
    following.log.unlink()
    following.append(*LINES[2:4])
    following.wait_for([STATUS, WEB])


def test_damage_is_told_and_passed(following: Following) -> None:
    """The good records around it are shown."""
    following.append(LINES[0], b"torn\n", LINES[1])
    following.wait_for([STATUS])
    following.wait_for_words(following.err, "damaged line left out")


def test_it_begins_with_the_last_ten(follow: Callable[..., Following], tmp_path: Path) -> None:
    """And goes on with what was pending then."""
    log = tmp_path / "cni.log"
    log.write_bytes(b"".join(LINES[:-3]))
    command = follow()
    expected = show("-n", "10", log).stdout.decode()
    command.wait_for_words(command.out, expected)
    command.append(LINES[-3])
    command.append(LINES[-2])
    command.wait_for_words(command.out, "\n12:11:35.128 -      GC     [podnet]            -         1 ok\n")


def test_what_hangs_is_shown_when_it_is_overdue_and_again_when_it_ends(
    follow: Callable[..., Following], tmp_path: Path
) -> None:
    """A person wants to know of a plugin that does not come back while it does not."""
    story = Story()
    story.now = time.time_ns() - 60 * 10**9
    story.enter("ADD", "c1", pod="default/slow")
    story.leave("ADD", "c1", result(), pod="default/slow", milliseconds=45_000)
    entry, exit = story.lines("json")
    log = tmp_path / "cni.log"
    log.write_bytes(entry)
    command = follow()
    command.wait_for(["ADD c1 no exit so"])
    command.append(exit)
    command.wait_for(["ADD c1 no exit so", "ADD c1 ok 10.1.0.7/24 +ip…"])


def test_a_wrapped_plugin_that_hangs_is_shown_as_such(follow: Callable[..., Following], tmp_path: Path) -> None:
    """By its name, and not as one of two probes whose exit is missing."""
    story = Story()
    story.now = time.time_ns() - 60 * 10**9
    pid = story.wrapped_entry("ADD", "c1", "bridge", pod="default/slow")
    story.wrapped_exit("ADD", "c1", "bridge", pid, signal="SIGKILL", pod="default/slow", milliseconds=45_000)
    entry, exit = story.lines("json")
    log = tmp_path / "cni.log"
    log.write_bytes(entry)
    command = follow()
    command.wait_for_words(command.out, " bridge: no end so far\n")
    command.append(exit)
    command.wait_for_words(command.out, " bridge: failed\n             killed by SIGKILL\n")


def test_records_are_followed_as_records(follow: Callable[..., Following]) -> None:
    """For programs, by operation and at once."""
    command = follow("-o", "json", "--cmd", "add")
    command.append(*LINES[:4])
    command.wait_for_words(command.out, LINES[3].decode())
    assert b"".join(LINES[2:4]).decode() == command.out.read_text()


def test_an_append_is_shown_soon(following: Following) -> None:
    """The best of some tries is under 50 ms from the append to the row."""
    took = []
    for number in range(10):
        story = Story()
        story.now = int(datetime.now(timezone.utc).timestamp() * 1e9)
        story.enter("ADD", f"{number:06}")
        story.leave("ADD", f"{number:06}", result())
        began = time.monotonic()
        following.append(*story.lines("json"))
        while f"{number:06} ADD" not in following.out.read_text():
            assert time.monotonic() - began < PATIENCE
            os.sched_yield()
        took.append(time.monotonic() - began)
    assert min(took) < 0.05


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        ("/nowhere: no such directory\nhint: --follow waits for a log, not for its directory\n", "/nowhere/cni.log"),
        ("/dev/null is not a regular file, and cannot be followed\n", "/dev/null"),
    ],
)
def test_what_cannot_be_followed_is_refused(expected: str, path: str) -> None:
    """In words, with exit status 2."""
    done = show("-f", path)
    assert (2, f"cni-capture: {expected}") == (done.returncode, done.stderr.decode())
