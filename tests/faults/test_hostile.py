"""Whatever comes: a valid answer or a valid error, one whole record, and never a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults import hostile
from tests.faults.calls import Answer, call, environ, injected
from tests.faults.hostile import PIECES, PROBES, VERBS, WORDS, Hostile

SEEDS = hostile.seeds()


def check_injected(made: Hostile, log: Path, lock: Path) -> None:
    env = {**made.env, "CNI_CAPTURE_LOG_FILE": str(log), "CNI_CAPTURE_LOCK_FILE": str(lock)}
    log.write_bytes(b"")
    answer = injected(made.stdin, env, made.name)
    hostile.check(made, env, answer, log.read_bytes())


@settings(
    max_examples=20_000,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(seed=st.integers(0, len(SEEDS) - 1), chance=st.integers(0, 2**64 - 1))
def test_20000_mutated_calls(tmp_path_factory: pytest.TempPathFactory, seed: int, chance: int) -> None:
    """Real calls with damaged configurations and environments."""
    folder = tmp_path_factory.getbasetemp()
    made = hostile.mutated(SEEDS[seed], random.Random(chance))

    check_injected(made, folder / "hostile.log", folder / "hostile.lock")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", PROBES)
def test_every_hostile_word_in_every_variable(log: Path, lock: Path, name: str, form: str) -> None:
    """Escape sequences, line breaks and half characters in variables and in their names."""
    for verb in VERBS:
        for word in WORDS:
            for variable in ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_ARGS", "TRACEPARENT", f"CNI_{word}"):
                env = {**environ(verb), variable: word, "CNI_CAPTURE_LOG_FORMAT": form}
                check_injected(Hostile(name, env, SEEDS[0].stdin), log, lock)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", PROBES)
def test_every_hostile_piece_as_value_as_member_and_alone(log: Path, lock: Path, name: str, verb: str) -> None:
    """Each where a value stands, where a member stands, and as the whole of stdin."""
    for piece in PIECES:
        for stdin in (b'{"prevResult":%b}', b'{"a":{%b"b":1},"prevResult":{}}', b"%b", b'{"prevResult":{"x":[%b]}}'):
            check_injected(Hostile(name, environ(verb), stdin % piece), log, lock)


DEEP = 200_000
HUGE = {
    "arrays": b'{"prevResult":{"x":' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "objects": b'{"prevResult":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "arrays that do not end": b'{"prevResult":' + b"[" * DEEP,
    "objects that do not end": b'{"prevResult":' + b'{"a":' * DEEP,
    "deep secret": b'{"prevResult":' + b'{"a":' * DEEP + b'{"token":"s3cret"}' + b"}" * DEEP + b"}",
    "50 MB of zeros": b"\0" * 50_000_000,
    "50 MB of brackets": b"[" * 50_000_000,
    "50 MB that are not UTF-8": b'{"prevResult":"' + b"\xff" * 50_000_000 + b'"}',
    "50 MB of line feeds": b"\n" * 50_000_000,
    "a number of 5 MB": b'{"prevResult":{"x":' + b"9" * 5_000_000 + b"}}",
    "an exponent of 5 MB": b'{"prevResult":{"x":1e' + b"9" * 5_000_000 + b"}}",
    "a key a million times": b"{" + b'"prevResult":{},' * 1_000_000 + b'"prevResult":{"last":1}}',
}


def check_process(made: Hostile, log: Path, lock: Path) -> Answer:
    env = {**made.env, "CNI_CAPTURE_LOG_FILE": str(log), "CNI_CAPTURE_LOCK_FILE": str(lock)}
    answer = call(made.stdin, env, made.name)
    hostile.check(made, env, answer, log.read_bytes() if log.exists() else b"")
    return answer


@pytest.mark.parametrize("shape", HUGE)
def test_what_is_deep_or_huge(log: Path, lock: Path, shape: str) -> None:
    """200,000 levels, 50 MB: an answer in time all the same."""
    try:
        check_process(Hostile("capture-pre", environ(), HUGE[shape]), log, lock)
        assert b"s3cret" not in log.read_bytes()
    finally:
        log.unlink()


def test_hostile_calls_as_processes(log: Path, lock: Path) -> None:
    """A sample of the mutated calls, as real processes."""
    chance = random.Random(6)
    for _ in range(150):
        log.unlink(missing_ok=True)
        check_process(hostile.possible(hostile.mutated(chance.choice(SEEDS), chance)), log, lock)


@pytest.mark.parametrize(
    "stdin", [b'{"a":[1 2]}', b'{"a":"\\x"}', b'{"a', b'{"a":{"b" 1}}', b"{} {}", b"[]", b'{"a":}']
)
def test_what_is_not_json_is_an_error_of_decoding(log: Path, lock: Path, stdin: bytes) -> None:
    """In a process of its own, that is, without the modules that the tests have imported."""
    answer = check_process(Hostile("capture-pre", environ(), stdin), log, lock)

    assert json.loads(answer.stdout)["code"] == 6
