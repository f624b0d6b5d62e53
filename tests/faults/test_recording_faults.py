"""Recording fails, the pod does not: a healthy reply, one line on stderr that says why, no part of a record."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture.log import write
from cni_capture.settings import Settings
from tests.faults import records
from tests.faults.calls import BIN, HEALTHY, PREV_RESULT, Answer, call, config, environ, injected, needs_root
from tests.faults.space import space

OTHER_USER = 65534
Place = Callable[[Path], object]


def assert_healthy_but(answer: Answer, words: str) -> None:
    """The answer of a healthy run, and exactly this one line on stderr."""
    assert answer == Answer(HEALTHY.status, HEALTHY.stdout, f"capture-pre: {words}; hint: cni-capture doctor\n")


def make_socket(path: Path) -> None:
    home = os.getcwd()
    os.chdir(path.parent)  # an address is at most 108 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(home)


def make_foreign(path: Path) -> None:
    path.write_text("mine\n")
    os.chown(path, OTHER_USER, OTHER_USER)


def make_hard_link(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("other\n")
    path.hardlink_to(other)


PLACES: dict[str, tuple[Place, str]] = {
    "directory": (Path.mkdir, "{log}: Is a directory"),
    "FIFO": (os.mkfifo, "{log} is not a regular file"),
    "socket": (make_socket, "{log}: No such device or address"),
    "device": (lambda path: os.mknod(path, 0o20600, os.makedev(1, 7)), "{log} is not a regular file"),
    "dangling link": (lambda path: path.symlink_to(path.with_name("nowhere")), "{log} is a symbolic link"),
    "link to a log": (lambda path: path.symlink_to(path.with_name("other.log")), "{log} is a symbolic link"),
    "link to itself": (lambda path: path.symlink_to(path), "{log} is a symbolic link"),
    "file of another user": (make_foreign, "{log} belongs to user 65534, not 0"),
    "file with two names": (make_hard_link, "{log} has 2 hard links"),
}


@needs_root
@pytest.mark.parametrize(("make", "words"), PLACES.values(), ids=PLACES)
def test_what_is_no_log_of_ours_is_not_written_to(log: Path, lock: Path, make: Place, words: str) -> None:
    """In the place of the log may be anything: it stays as it is, and the call succeeds."""
    make(log)
    before = os.lstat(log)

    answer = call(config(logFile=str(log), lockFile=str(lock)))

    assert_healthy_but(answer, f"not recorded: {words.format(log=log)}")
    after = os.lstat(log)
    assert (before.st_ino, before.st_mode, before.st_uid, before.st_mtime_ns, before.st_size) == (
        after.st_ino,
        after.st_mode,
        after.st_uid,
        after.st_mtime_ns,
        after.st_size,
    )
    assert {log.name, "other", lock.name} >= {path.name for path in log.parent.iterdir()}, "nothing made through a link"


@needs_root
@pytest.mark.parametrize(("make", "words"), PLACES.values(), ids=PLACES)
def test_what_is_no_lock_of_ours_costs_the_lock_and_not_the_record(
    log: Path, lock: Path, make: Place, words: str
) -> None:
    """In the place of the lock may be anything: the record is written without it and says so."""
    make(lock)

    answer = call(config(logFile=str(log), lockFile=str(lock), logFormat="json"))

    why = words.format(log=lock)
    assert_healthy_but(answer, f"recorded without the lock: {why}")
    assert [why] == [record["unlocked"] for record in records.of_log(log)]


def test_a_missing_directory_is_not_made(log: Path, lock: Path) -> None:
    """A directory that is not there is no reason to make one."""
    answer = call(config(logFile=str(log.parent / "no" / "cni.log"), lockFile=str(lock)))

    assert_healthy_but(answer, f"not recorded: {log.parent}/no/cni.log: No such file or directory")
    assert not (log.parent / "no").exists()


def test_a_missing_lock_directory_costs_the_lock_and_not_the_record(log: Path, lock: Path) -> None:
    """Without a place for the lock the record is written without it."""
    answer = call(config(logFile=str(log), lockFile=str(lock.parent / "no" / "cni.lock")))

    assert_healthy_but(answer, f"recorded without the lock: {lock.parent}/no/cni.lock: No such file or directory")
    assert ["c1"] == [record["container"] for record in records.of_log(log)]


@needs_root
def test_a_user_without_permission_gets_the_answer(sticky: Path) -> None:
    """A log of root's, and a call of somebody else's."""
    log, lock = sticky / "cni.log", sticky / "cni.lock"
    log.write_text("")
    as_other = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    log.chmod(0o600)

    answer = call(config(logFile=str(log), lockFile=str(lock)), prefix=as_other)

    assert_healthy_but(answer, f"not recorded: {log}: Permission denied")
    assert log.read_bytes() == b""


@needs_root
@pytest.mark.parametrize("length", [60_000, 200_000])
def test_a_full_file_system_keeps_no_part_of_a_record(tmp_path: Path, length: int) -> None:
    """A record that does not fit leaves the log as it was, though a part of it would have fitted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    log, lock = disk / "cni.log", tmp_path / "cni.lock"
    stdin = config(logFile=str(log), lockFile=str(lock), padding="x" * length)
    with space(f"mount -t tmpfs -o size=64k tmpfs {disk}") as inside:
        first = call(config(logFile=str(log), lockFile=str(lock)), prefix=inside.inside)
        assert first == HEALTHY
        inside.run(f"head -c 20000 /dev/zero >{disk}/filler")
        before = inside.path(log).read_bytes()

        answer = call(stdin, prefix=inside.inside)

        assert_healthy_but(answer, f"not recorded: {log}: No space left on device")
        assert before == inside.path(log).read_bytes()


@needs_root
def test_a_read_only_file_system_is_only_complained_of(tmp_path: Path) -> None:
    """Log and lock on a read-only file system: the reasons in one line."""
    disk = tmp_path / "disk"
    disk.mkdir()
    log, lock = disk / "cni.log", tmp_path / "cni.lock"
    with space(f"mount -t tmpfs -o ro tmpfs {disk}") as inside:
        answer = call(config(logFile=str(log), lockFile=str(lock)), prefix=inside.inside)

    assert_healthy_but(answer, f"not recorded: {log}: Read-only file system")


@pytest.mark.parametrize("limit", [1, 300, 5_000])
def test_a_file_size_limit_keeps_no_part_of_a_record(log: Path, lock: Path, limit: int) -> None:
    """A quota that lets a part of a record through leaves the log as it was."""
    answer = call(
        config(logFile=str(log), lockFile=str(lock), padding="x" * 10_000), prefix=["prlimit", f"--fsize={limit}"]
    )

    assert_healthy_but(answer, f"not recorded: {log}: File too large")
    assert log.read_bytes() == b""


@pytest.mark.parametrize("files", [4])
def test_no_file_descriptors_left_costs_only_the_record(log: Path, lock: Path, files: int) -> None:
    """Three streams and the lock, and none left for the log."""
    answer = call(config(logFile=str(log), lockFile=str(lock)), prefix=["prlimit", f"--nofile={files}"])

    assert_healthy_but(answer, f"not recorded: {log}: Too many open files")
    assert not log.exists()


@needs_root
def test_a_file_that_may_not_be_changed_is_only_complained_of(log: Path, lock: Path) -> None:
    """`chattr +i`: not even root may write."""
    log.write_text("")
    log.chmod(0o600)
    if subprocess.run(["chattr", "+i", log], capture_output=True).returncode:
        pytest.skip("this file system has no such attribute")
    try:
        answer = call(config(logFile=str(log), lockFile=str(lock)))
    finally:
        subprocess.run(["chattr", "-i", log], check=True)

    assert_healthy_but(answer, f"not recorded: {log}: Operation not permitted")


BAD_SETTINGS: dict[str, list[object]] = {
    "logFormat": ["xml", 1, [], {}, True],
    "lockTimeout": ["soon", -1, 1e300, 61, [], {}, True, float("1e400") and "nan"],
    "interfaces": ["perhaps", 2, [], {}],
    "label": [1, [], {}, True],
    "redact": ["password", 1, {}, True, [1], [""], [None]],
    "logOptions": ["big", 1, [], True],
    "logOptions.maxSize": [-1, "big", [], {}, True, "inf"],
    "logOptions.maxBackups": [-1, 1.5, "many", [], {}, True, 1e300],
}


@pytest.mark.parametrize("key", BAD_SETTINGS)
def test_a_bad_setting_is_complained_of_and_the_default_used(log: Path, lock: Path, key: str) -> None:
    """The call succeeds and is recorded; one line says which value could not be used."""
    for number, value in enumerate(BAD_SETTINGS[key]):
        name, _, option = key.partition(".")
        keys = {"logFile": str(log), "lockFile": str(lock), name: {option: value} if option else value}

        answer = injected(config(**keys), environ())

        assert (HEALTHY.status, HEALTHY.stdout) == (answer.status, answer.stdout)
        assert re.fullmatch(
            rf"capture-pre: {re.escape(key)}: .*; ignored; hint: cni-capture doctor\n", answer.stderr
        ), value
        assert number + 1 == len(records.of_log(log))


@pytest.mark.parametrize("path", ["cni.log", "", "a\0b", "/a\0b", 1, [], {}, True, "/tmp/\ud800", "~/cni.log"])
@pytest.mark.parametrize("key", ["logFile", "lockFile"])
def test_a_path_that_cannot_be_one_falls_back_on_the_environment(log: Path, lock: Path, key: str, path: object) -> None:
    """What the environment says still holds where the configuration makes no sense."""
    env = environ(CNI_CAPTURE_LOG_FILE=str(log), CNI_CAPTURE_LOCK_FILE=str(lock))

    answer = injected(config(**{key: path}), env)

    said = (
        f"capture-pre: {re.escape(key)}: .*; ignored; hint: cni-capture doctor\n" if path != "" else ""
    )  # how some writers leave a key out
    assert (HEALTHY.status, HEALTHY.stdout) == (answer.status, answer.stdout)
    assert re.fullmatch(said, answer.stderr)
    assert len(records.of_log(log)) == 1
    assert lock.exists()


def test_a_lock_with_a_name_that_cannot_be_encoded_costs_the_lock_and_not_the_record(log: Path) -> None:
    """As any name beyond the locale is, where that is not UTF-8; also where a thread waits for the lock."""
    settings = Settings()
    settings.log_file = str(log)
    for settings.lock_file in ("/tmp/\ud800", "/\ud800"):
        assert write(settings, lambda unlocked: [b"line\n"]).startswith(
            "recorded without the lock: UnicodeEncodeError: "
        )

    assert log.read_bytes() == b"line\nline\n"


def test_a_complaint_about_a_setting_and_a_failure_make_one_line(log: Path, lock: Path) -> None:
    """However much is wrong, it is one line."""
    log.mkdir()

    answer = call(config(logFile=str(log), lockFile=str(lock), label="x\ny", logFormat="a\nb"))

    assert_healthy_but(
        answer,
        f'logFormat: \'a\\\\nb\' is neither "text" nor "json"; ignored; not recorded: {log}: Is a directory',
    )


def test_a_path_with_control_characters_makes_one_line_without_any(log: Path, lock: Path) -> None:
    """A terminal or a log of the runtime's that shows the complaint is not made to obey it."""
    odd = log.parent / "a\nb\x1b[2J"

    answer = call(config(logFile=f"{odd}/cni.log", lockFile=str(lock)))

    assert_healthy_but(answer, f"not recorded: {log.parent}/a\\nb\\u001b[2J/cni.log: No such file or directory")


def shell(stdin: bytes, script: str) -> Answer:
    """A call by a shell that does something to its streams first."""
    done = subprocess.run(["sh", "-c", script], input=stdin, env=environ(), capture_output=True, timeout=30)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_closed_stderr_changes_nothing(log: Path, lock: Path) -> None:
    """With nobody to complain to, the complaint goes nowhere: above all, not into the file opened next."""
    stdin = config(logFile=str(log), lockFile=str(lock), logFormat="xml")

    assert HEALTHY == shell(stdin, f"exec {BIN}/capture-pre 2>&-")
    assert len(records.of_log(log)) == 1
    assert lock.read_bytes() == b""


def test_full_stderr_changes_nothing(log: Path, lock: Path) -> None:
    """A complaint that cannot be written is no reason to fail."""
    stdin = config(logFile=str(log), lockFile=str(lock), logFormat="xml")

    assert HEALTHY == shell(stdin, f"exec {BIN}/capture-pre 2>/dev/full")


def test_closed_stdin_is_an_error_object_and_a_record(log: Path, lock: Path) -> None:
    """A call without a configuration is answered with the error for it, as a plugin would."""
    env = f"CNI_CAPTURE_LOG_FILE={log} CNI_CAPTURE_LOCK_FILE={lock}"

    answer = shell(b"", f"{env} exec {BIN}/capture-pre <&-")

    expected = '{"cniVersion": "1.1.0", "code": 6, "msg": "network configuration is not a JSON object", '
    assert answer == Answer(1, expected + '"details": "\'{\' expected at character 0"}', "")
    assert len(records.of_log(log)) == 1


def test_all_streams_closed_is_still_recorded(log: Path, lock: Path) -> None:
    """Nothing that should go to a stream gets into a file instead."""
    env = f"CNI_CAPTURE_LOG_FILE={log} CNI_CAPTURE_LOCK_FILE={lock}"

    assert shell(b"", f"{env} exec {BIN}/capture-pre <&- >&- 2>&-") == Answer(1, "", "")
    assert [""] == [record["input"] for record in records.of_log(log)]
    assert lock.read_bytes() == b""


def test_an_answer_that_cannot_be_written_is_said_and_fails(log: Path, lock: Path) -> None:
    """The one thing that a probe may fail for: its answer did not get out."""
    answer = shell(config(logFile=str(log), lockFile=str(lock)), f"exec {BIN}/capture-pre >/dev/full")

    assert answer == Answer(1, "", "capture-pre: the answer could not be written: No space left on device\n")


@pytest.mark.parametrize(
    ("nanoseconds", "written"),
    [
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-(2**63), "1677-09-21T00:12:43.145224Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
    ],
)
def test_a_clock_that_is_wrong_is_written_as_it_is(
    log: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, nanoseconds: int, written: str
) -> None:
    """A node whose battery is empty boots before 1970, and its pods start."""
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds)

    answer = injected(config(logFile=str(log), lockFile=str(lock), logFormat="json"), environ())

    assert answer == HEALTHY
    assert [written] == [record["time"] for record in records.of_log(log)]


def test_the_limits_of_this_machine_are_those_that_the_tests_count_on() -> None:
    """A test that takes file descriptors away needs a soft limit that it may lower."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 16
    assert PREV_RESULT == HEALTHY.stdout
