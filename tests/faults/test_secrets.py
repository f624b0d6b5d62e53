"""Secrets stay out of the log and in the reply; the log is closed to others at every moment."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cni_capture.settings import SECRET_KEYS
from tests.faults import records
from tests.faults.calls import BIN, HEALTHY, call, config, environ, injected

SECRET = "tr0ub4dor"
VALUES: list[Any] = [SECRET, {"a": [SECRET]}, [SECRET, {"token": SECRET}], [[SECRET]], 3.5, True, None, {}, ""]


def planted(key: str, value: Any) -> dict[str, Any]:
    """A value under its key at several depths, beside keys that are none of it."""
    return {
        key: value,
        "list": [{"deep": [[{key: value, "k": 1}]]}],
        "kind": {"x": {"y": {key.upper(): value}}},
        "z": 1,
    }


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("key", [*SECRET_KEYS, "my-own", "mein-schlüssel"])
def test_the_value_of_a_secret_key_is_in_the_reply_and_not_in_the_log(
    log: Path, lock: Path, key: str, form: str
) -> None:
    """At any depth, in any case, of any type, by default and by name; everything else is in the log as it came."""
    for value in VALUES:
        log.unlink(missing_ok=True)
        keys = {"logFile": str(log), "lockFile": str(lock), "logFormat": form, "redact": ["MY-OWN", "mein-Schlüssel"]}
        result = {"cniVersion": "1.0.0", **planted(key, value)}
        stdin = json.dumps({"name": "n", **keys, **planted(key, value), "prevResult": result}).encode()
        for name in ("capture-pre", "capture-post"):
            answer = injected(stdin, environ(), name)
            assert (0, json.dumps(result), "") == (answer.status, answer.stdout, answer.stderr)

        assert SECRET not in log.read_text()
        hidden = planted(key, "[redacted]")
        recorded = {"cniVersion": "1.0.0", **hidden}
        before, after = records.of_log(log)
        assert {"name": "n", **keys, **hidden, "prevResult": recorded} == before["input"]
        assert recorded == after["output"]


@pytest.mark.parametrize("stdin", [b'{"token":"tr0ub4dor', b'["password","tr0ub4dor"]', b'\xff{"psk": "tr0ub4dor"}'])
def test_what_is_not_json_is_kept_up_to_the_first_secret_key(log: Path, lock: Path, stdin: bytes) -> None:
    """Where nobody can tell where a secret ends, nothing after it is in the log."""
    env = environ(CNI_CAPTURE_LOG_FILE=str(log), CNI_CAPTURE_LOCK_FILE=str(lock))

    assert injected(stdin, env).status == 1

    assert SECRET not in log.read_text()
    assert records.of_log(log)[0]["input"].endswith("[redacted]")


@pytest.mark.parametrize("spelled", ["\\u0074oken", "TOKEN", "toKen", "to\\u212Aen"])
def test_a_secret_key_is_known_however_it_is_spelled(log: Path, lock: Path, spelled: str) -> None:
    """With escapes, in any case, with the letters that Go takes for the same."""
    stdin = config(logFile=str(log), lockFile=str(lock))[:-1] + f', "{spelled}": "{SECRET}"}}'.encode()

    assert injected(stdin, environ()) == HEALTHY

    assert SECRET not in log.read_text()


def test_redact_false_keeps_everything(log: Path, lock: Path) -> None:
    """Who asks for secrets gets them."""
    assert injected(config(logFile=str(log), lockFile=str(lock), redact=False, token=SECRET), environ()) == HEALTHY

    assert SECRET == records.of_log(log)[0]["input"]["token"]


@pytest.mark.parametrize("key", ["\ud800", "a\nb", '"'])
def test_an_odd_name_for_a_secret_still_hides_the_others(log: Path, lock: Path, key: str) -> None:
    """A name that no file can hold is a name all the same."""
    stdin = json.dumps(
        {"logFile": str(log), "lockFile": str(lock), "redact": [key], key: SECRET, "prevResult": [{"token": SECRET}]}
    ).encode()

    for name in ("capture-pre", "capture-post"):
        answer = injected(stdin, environ(), name)
        assert (0, "") == (answer.status, answer.stderr)

    assert SECRET not in log.read_text()
    assert len(records.of_log(log)) == 2


@pytest.mark.parametrize("umask", ["0000", "0777", "0022"])
def test_files_are_closed_to_others_under_any_umask(log: Path, lock: Path, umask: str) -> None:
    """Log, backups and lock."""
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 1e-5})
    for _ in range(3):
        assert call(stdin, prefix=["sh", "-c", f'umask {umask}; exec "$0"']) == HEALTHY

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in log.parent.iterdir()}
    assert {"cni.log": 0o600, "cni.log.1": 0o600, "cni.log.2": 0o600, "cni.lock": 0o600} == modes


def test_a_log_that_was_open_to_others_is_closed_before_it_is_written_to(log: Path, lock: Path) -> None:
    """Made by `touch`, say."""
    for path in (log, lock):
        path.touch()
        path.chmod(0o644)

    assert call(config(logFile=str(log), lockFile=str(lock))) == HEALTHY

    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in (log, lock)}


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_no_file_is_open_to_others_at_any_moment(log: Path, lock: Path) -> None:
    """Every file is created with 0600 where umask would allow more, and no other file is made on the way."""
    stdin = config(logFile=str(log), lockFile=str(lock), logOptions={"maxSize": 1e-5}, token=SECRET)
    for _ in range(2):
        assert call(stdin) == HEALTHY  # now the modules are compiled
    for path in list(log.parent.iterdir()):
        path.unlink()
    trace = log.parent / "trace"
    script = 'umask 0; exec strace -f -o "$1" -e trace=open,openat,creat,mknod,chmod,fchmod,fchmodat,link,rename "$2"'
    for _ in range(2):
        command = ["sh", "-c", script, "sh", str(trace), str(BIN / "capture-pre")]
        assert subprocess.run(command, input=stdin, env=environ(), capture_output=True).returncode == 0
        calls = trace.read_text().splitlines()
        created = [line for line in calls if "O_CREAT" in line or "creat(" in line or "mknod" in line]
        assert {str(log), str(lock)} == {path for line in created for path in re.findall(r'"([^"]*)"', line)}
        assert all(re.search(r", 0600\) = \d", line) for line in created)
        assert not [line for line in calls if "chmod" in line]
    assert os.path.exists(f"{log}.1")
