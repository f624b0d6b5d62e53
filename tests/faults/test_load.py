"""Under load, and with writers killed at any moment, every record is whole and every finished call has its own."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults import load, records
from tests.faults.calls import HEALTHY, config, environ, injected


def test_of_1000_concurrent_calls_every_one_has_its_record(log: Path, lock: Path) -> None:
    """64 at a time, from 200 bytes to 1 MB, rotating every few: each is there once, and whole."""
    calls = load.plan(random.Random(1), 1000, log, lock, killed=0)

    statuses = load.run(calls, together=64)

    assert [0] * 1000 == statuses
    load.check(calls, statuses, log)
    assert len(records.files(log)) > 50, "it was not rotated every few records"


def test_a_killed_call_damages_no_other(log: Path, lock: Path) -> None:
    """A quarter of the processes killed at random moments: what is in the log is whole, and nothing else is missing."""
    calls = load.plan(random.Random(2), 600, log, lock, killed=0.25)

    statuses = load.run(calls, together=64)

    load.mend(log, lock, calls, statuses)
    load.check(calls, statuses, log)
    assert 20 < sum(status != 0 for status in statuses) < 300


def test_a_torn_record_gives_way_to_the_next(log: Path, lock: Path) -> None:
    """Wherever the power failed within a record, the next is whole and the one before still there."""
    for form in ("text", "json"):
        stdin = config(logFile=str(log), lockFile=str(lock), logFormat=form)
        log.unlink(missing_ok=True)
        assert injected(stdin, environ()) == HEALTHY
        whole = log.read_bytes()
        for cut in range(1, len(whole)):
            log.write_bytes(whole + whole[:cut])

            answer = injected(stdin, environ())

            assert (answer.status, answer.stdout) == (HEALTHY.status, HEALTHY.stdout)
            assert answer.stderr == f"capture-pre: removed a torn record of {cut} bytes; hint: cni-capture doctor\n"
            assert log.read_bytes().startswith(whole)
            assert len(records.of_log(log)) == 2


def test_what_power_loss_makes_of_the_end_of_a_file_stays_a_line_of_its_own(log: Path, lock: Path) -> None:
    """Zeros, or another program's words, are not ours to remove, and do not touch the next record."""
    for left in (b"\0" * 5000, b"words", b"\xff\n\xff", b"{}"):
        log.write_bytes(left)
        log.chmod(0o600)

        assert injected(config(logFile=str(log), lockFile=str(lock)), environ()) == HEALTHY

        assert log.read_bytes().startswith(left + b"\n")
        assert len(records.of_bytes(log.read_bytes()[len(left) + 1 :])) == 1
