"""The programs themselves, as processes: those of the checkout and those that are installed, under every Python."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture import __version__
from tests.node import BIN, PROBES, Answer, Node
from tests.pythons import SYSTEM, pythons
from tests.runtimes.waiting import until

Program = Callable[[str], list[str]]
"""From the name of a probe to what to execute."""

CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "280718f6"}
STDIN = b'{"cniVersion":"1.0.0", "name":"net", "prevResult": {"ips" : [1.0e0],\n"dns":{} } }'
RESULT = b'{"ips" : [1.0e0],\n"dns":{} }'
VERSION = (
    b'{"cniVersion": "1.1.0", "supportedVersions": ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'
)
MISSING = b'{"cniVersion": "1.0.0", "code": 4, "msg": "required env variables [CNI_CONTAINERID] missing"}'
ABOUT = {
    "capture-pre": "a CNI plugin that records what goes into the plugins after it",
    "capture-post": "a CNI plugin that records what comes out of the plugins before it",
}
# All that a call may import, beside what an interpreter has at its start. Every other module costs every container.
MODULES = {
    "bin": {
        "_json",
        "cni_capture",
        "cni_capture.call",
        "cni_capture.capture",
        "cni_capture.log",
        "cni_capture.probe",
        "cni_capture.process",
        "cni_capture.record",
        "cni_capture.reply",
        "cni_capture.settings",
        "fcntl",
    },
    "installed": {"_json", "fcntl"},
}


def _programs() -> list[tuple[str, str]]:
    others = [python for python in pythons() if python != SYSTEM]  # the one that bin/ names
    return [("bin", ""), *(("bin", python) for python in others), *(("installed", python) for python in pythons())]


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An option for Pythons that only a test runs: leave no .pyc in the checkout."""
    return f"pycache_prefix={tmp_path_factory.mktemp('bytecode')}"


@pytest.fixture(params=_programs(), ids=lambda param: "-".join([param[0], os.path.basename(param[1])]))
def program(request: pytest.FixtureRequest, installed: Callable[[str], Path], bytecode: str) -> Program:
    """A program of the checkout as it is, and under each Python; and one that this Python installed."""
    how, python = request.param
    if how == "installed":
        folder = installed(python)
        return lambda probe: [str(folder / probe)]
    return lambda probe: [python, "-IS", "-X", bytecode, str(BIN / probe)] if python else [str(BIN / probe)]


@pytest.mark.parametrize(("probe", "log_format"), [("capture-pre", "text"), ("capture-post", "json")])
def test_a_program_answers_every_verb_and_records_it(node: Node, program: Program, probe: str, log_format: str) -> None:
    """The whole answers of a chain's life and of a wrong call, and what the log then says."""
    node.environ["CNI_CAPTURE_LOG_FORMAT"] = log_format
    answers = {
        verb: node.execute(program(probe), {**CALL, "CNI_COMMAND": verb}, STDIN)
        for verb in ("ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION")
    }
    wrong = node.execute(program(probe), {"CNI_COMMAND": "DEL"}, STDIN)
    assert {
        "ADD": Answer(0, RESULT),
        "CHECK": Answer(),
        "DEL": Answer(),
        "GC": Answer(),
        "STATUS": Answer(),
        "VERSION": Answer(0, VERSION),
    } == answers
    assert Answer(1, MISSING) == wrong
    added = ("output", RESULT) if probe == "capture-post" else ("input", STDIN)
    assert [("ADD", *added), *((verb, "input", STDIN) for verb in ("CHECK", "DEL", "GC", "STATUS", "DEL"))] == [
        (record.env["CNI_COMMAND"], record.what, record.body) for record in node.records()
    ]
    assert [(probe, os.getpid())] * 6 == [(record.probe, record.facts["ppid"]) for record in node.records()]


@pytest.mark.parametrize("probe", PROBES)
def test_version_is_answered_while_stdin_never_ends(node: Node, program: Program, probe: str) -> None:
    """A runtime that keeps its end of stdin open, and writes nothing, gets the versions."""
    reading, writing = os.pipe()
    try:
        assert Answer(0, VERSION) == node.execute(program(probe), {"CNI_COMMAND": "VERSION"}, reading)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_wrong_call_is_answered_while_stdin_never_ends(node: Node) -> None:
    """What would get an error anyway gets it soon, and is recorded with what there was on stdin."""
    reading, writing = os.pipe()
    try:
        answer = node.execute([BIN / "capture-pre"], {}, reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert Answer(1, MISSING.replace(b"1.0.0", b"1.1.0").replace(b"CONTAINERID", b"COMMAND")) == answer
    assert [b""] == [record.body for record in node.records()]


def test_streams_that_a_runtime_made_non_blocking_are_read_and_written_to_their_end(
    node: Node, program: Program
) -> None:
    """A configuration that comes in parts, a reply that is larger than the pipe and fetched late: both whole."""
    result = b'{"a": "' + b"x" * 1_000_000 + b'"}'
    theirs, ours = socket.socketpair()
    reading, writing = os.pipe()
    theirs.setblocking(False)
    os.set_blocking(writing, False)
    probe = subprocess.Popen(
        program("capture-pre"), env={**node.environ, **CALL}, stdin=theirs.fileno(), stdout=writing
    )
    theirs.close()
    os.close(writing)
    with ours, os.fdopen(reading, "rb") as stdout:
        ours.sendall(b'{"prevResult":')
        ours.sendall(result + b"}")
        ours.shutdown(socket.SHUT_WR)
        until(lambda: _waiting(reading) >= 65536, "the pipe is full")
        assert (result, 0) == (stdout.read(), probe.wait(20))


def _waiting(fd: int) -> int:
    """How many bytes can be read from a pipe at once."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("probe", PROBES)
def test_version_is_answered_with_stdin_closed(node: Node, program: Program, probe: str) -> None:
    """No descriptor 0 at all is fine as well."""
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *program(probe)]
    assert Answer(0, VERSION) == node.execute(shell, {"CNI_COMMAND": "VERSION"})


@pytest.mark.parametrize("environ", [{}, {"CNI_COMMAND": ""}])
@pytest.mark.parametrize("probe", PROBES)
def test_in_a_terminal_a_program_says_what_it_is(
    node: Node, program: Program, probe: str, environ: dict[str, str]
) -> None:
    """Run by hand: one line with the versions on stderr, nothing on stdout, nothing in the log."""
    ours, theirs = pty.openpty()
    try:
        answer = node.execute(program(probe), environ, theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    versions = "CNI versions 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"
    about = f"{probe} {__version__}: {ABOUT[probe]}; {versions}\n"
    assert (Answer(0, b"", about.encode()), []) == (answer, node.lines())


@pytest.mark.parametrize("probe", PROBES)
def test_a_program_knows_its_version(node: Node, program: Program, probe: str) -> None:
    """--version and -V: name and version on stdout."""
    expected = Answer(0, f"{probe} {__version__}\n".encode())
    assert [expected] * 2 == [node.execute([*program(probe), flag], {}) for flag in ("--version", "-V")]


@pytest.mark.parametrize("probe", PROBES)
def test_the_help_of_a_program_names_every_variable_and_its_example_works(
    node: Node, program: Program, probe: str
) -> None:
    """--help and -h: what it is, how to use it; the command that it proposes does what a plugin does."""
    answers = [node.execute([*program(probe), flag], {}) for flag in ("--help", "-h")]
    assert (0, b"", True) == (answers[0].code, answers[0].stderr, answers[0] == answers[1])
    text = answers[0].stdout.decode()
    assert f"{probe} {__version__}: {ABOUT[probe]}; CNI" in text.splitlines()[0]
    variables = {word for word in text.split() if word.startswith("CNI_CAPTURE_")}
    assert {
        f"CNI_CAPTURE_{name}" for name in ("LOG_FILE", "LOCK_FILE", "LOG_FORMAT", "LOCK_TIMEOUT", "INTERFACES")
    } == variables
    example = text.partition("By hand:\n")[2].partition("\n\n")[0]
    shell = ["sh", "-c", example.replace(probe, '"$@"'), "sh", *program(probe)]
    assert Answer(0, b'{"cniVersion": "1.0.0"}') == node.execute(shell, {"PATH": os.defpath})
    assert ["try"] == [record.env["CNI_CONTAINERID"] for record in node.records()]


@pytest.mark.parametrize("probe", PROBES)
def test_a_word_that_a_program_does_not_understand_is_refused(node: Node, probe: str) -> None:
    """Exit status 2 and one line that says where help is; control characters are escaped."""
    words = f"{probe}: 'ad\\x1bd' is not understood; hint: a call comes by CNI_COMMAND and stdin, see --help\n"
    assert Answer(2, b"", words.encode()) == node.execute([BIN / probe, "ad\x1bd"], CALL)


@pytest.mark.parametrize("probe", PROBES)
def test_a_shell_script_with_nothing_in_its_environment_can_call(node: Node, program: Program, probe: str) -> None:
    """Under env -i, CNI_COMMAND and CNI_CONTAINERID and a configuration on stdin are all that is needed."""
    config = {"cniVersion": "0.3.1", "logFile": str(node.log), "lockFile": str(node.lock)}
    script = f"echo '{json.dumps(config)}' | env -i CNI_COMMAND=ADD CNI_CONTAINERID=x \"$@\""
    done = subprocess.run(["sh", "-c", script, "sh", *program(probe)], capture_output=True, timeout=20)
    assert Answer(0, b'{"cniVersion": "0.3.1"}') == Answer(done.returncode, done.stdout, done.stderr)
    assert [{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}] == [record.env for record in node.records()]


@pytest.mark.parametrize("probe", PROBES)
def test_a_plugin_directory_may_hold_links_to_the_checkout(node: Node, tmp_path: Path, probe: str) -> None:
    """An absolute link, and a relative link to that, run by path, by name and from elsewhere."""
    (tmp_path / "cni" / "bin").mkdir(parents=True)
    (tmp_path / "cni" / probe).symlink_to(BIN / probe)
    (tmp_path / "cni" / "bin" / probe).symlink_to(f"../{probe}")
    folder = tmp_path / "cni" / "bin"
    answers = [
        node.execute([folder / probe], CALL, STDIN),
        node.execute(["sh", "-c", f"cd {folder} && ./{probe}"], CALL, STDIN),
        node.execute(["sh", "-c", f"cd {folder.parent} && bin/{probe}"], CALL, STDIN),
        node.execute(["sh", "-c", f"cd / && PATH={folder}:$PATH {probe}"], {**CALL, "PATH": os.defpath}, STDIN),
        node.execute(["sh", "-c", f"cd {BIN} && ./{probe}"], CALL, STDIN),
    ]
    assert [Answer(0, RESULT)] * 5 == answers


def test_a_directory_full_of_traps_does_not_lead_a_program_astray(node: Node, program: Program, tmp_path: Path) -> None:
    """Modules where the call is made, and PYTHON* variables, change nothing."""
    for name in ("fcntl", "time", "cni_capture", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a trap')")
    shell = ["sh", "-c", f'cd {tmp_path} && exec "$@"', "sh", *program("capture-pre")]
    environ = {
        **CALL,
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": str(tmp_path / "json.py"),
        "PYTHONHOME": "/nowhere",
    }
    assert Answer(0, RESULT) == node.execute(shell, environ, STDIN)


@pytest.mark.parametrize("how", list(MODULES))
@pytest.mark.parametrize("python", pythons(), ids=os.path.basename)
@pytest.mark.parametrize("probe", PROBES)
def test_a_call_imports_these_modules_and_no_other(
    node: Node, installed: Callable[[str], Path], bytecode: str, how: str, python: str, probe: str
) -> None:
    """No json, os, re, logging, subprocess, filelock...: one careless import goes red here."""
    script = BIN / probe if how == "bin" else installed(python) / probe
    start = [python, "-IS", "-X", bytecode, "-X", "importtime"]
    for verb in ("ADD", "DEL"):
        answer = node.execute([*start, script], {**CALL, "CNI_COMMAND": verb}, STDIN)
        at_start = node.execute([*start, "-c", ""], {})
        assert MODULES[how] == _imported(answer.stderr) - _imported(at_start.stderr)
    assert 2 == len(node.records())


def _imported(stderr: bytes) -> set[str]:
    """The modules that `-X importtime` lists: lines of self | cumulative | name, after a heading."""
    return {line.rpartition("|")[2].strip() for line in stderr.decode().splitlines() if "imported package" not in line}
