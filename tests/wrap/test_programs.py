"""capture-wrap as a program: what it imports, what it says of itself, and what it makes of hostile input."""

from __future__ import annotations

import fcntl
import json
import os
import pty
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture import __version__
from tests.node import BIN, Answer, Node
from tests.pythons import pythons
from tests.test_bin import MODULES, _imported
from tests.wrap.plugins import Gone, Plugins, compact

ABOUT = (
    f"capture-wrap {__version__}: a CNI plugin that runs another one in its place, and records what that got, said and "
    "died of; CNI versions 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n"
)
# All that a call may import, beside what an interpreter has at its start. Every other module costs every container.
# `resource` is what wait4(2) needs for its answer.
OF_THE_SYSTEM = {"_json", "fcntl", "_ctypes", "select", "errno", "resource"}
OF_THE_CHECKOUT = {f"cni_capture.{name}" for name in ("libc", "plugin", "standin", "wrap")}


@pytest.mark.parametrize("how", ["bin", "installed"])
@pytest.mark.parametrize("python", pythons(), ids=os.path.basename)
def test_a_call_imports_these_modules_and_no_other(
    checkout: Plugins, tmp_path: Path, installed: Callable[[str], Path], how: str, python: str
) -> None:
    """No subprocess, no signal, no os...: one careless import goes red here."""
    checkout.add("demo", "cat >/dev/null")
    script = BIN / "capture-wrap" if how == "bin" else installed(python) / "capture-wrap"
    start = [python, "-IS", "-X", f"pycache_prefix={tmp_path}", "-X", "importtime"]
    stdin = compact({"type": "capture-wrap", "capture": {"type": "demo"}})
    answer = checkout.node.execute([*start, script], {**checkout.environ, "PATH": os.defpath}, stdin)
    at_start = checkout.node.execute([*start, "-c", ""], {})
    expected = OF_THE_SYSTEM
    if how == "bin":
        expected = expected | (MODULES["bin"] - {"cni_capture.probe"}) | OF_THE_CHECKOUT
    assert expected == _imported(answer.stderr) - _imported(at_start.stderr)
    assert 2 == len(checkout.node.records())


def test_in_a_terminal_it_says_what_it_is(node: Node, plugins: Plugins) -> None:
    """Run by hand: one line with the versions on stderr, nothing on stdout, nothing in the log."""
    ours, theirs = pty.openpty()
    try:
        answer = node.execute(plugins.wrap, {}, theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (Answer(0, b"", ABOUT.encode()), []) == (answer, node.lines())


def test_its_help_shows_an_entry_and_a_call_that_works(checkout: Plugins) -> None:
    """What it proposes to type does what a plugin does."""
    answer = checkout.node.execute([*checkout.wrap, "--help"], {})
    text = answer.stdout.decode()
    assert (0, b"", ABOUT) == (answer.code, answer.stderr, text.splitlines(keepends=True)[0])
    before, after = (json.loads(line) for line in text.splitlines() if line.startswith("    {"))
    assert ({"type": "bridge", "mtu": 1400}, after) == (
        before,
        {"type": "capture-wrap", "capture": {"type": "bridge"}, "mtu": 1400},
    )
    checkout.add("loopback", 'cat; echo "$CNI_COMMAND"')
    example = text.partition("By hand:\n")[2].partition("\n\n")[0].replace("/opt/cni/bin", str(checkout.folder))
    shell = ["sh", "-c", example.replace(" capture-wrap", ' "$@"'), "sh", *checkout.wrap]
    stdin = b'{"cniVersion":"1.0.0","name":"try","type":"loopback"}\n'
    assert Answer(0, stdin + b"STATUS\n") == checkout.node.execute(shell, {"PATH": os.defpath})


def test_a_plugin_directory_may_hold_links_to_the_checkout(checkout: Plugins, tmp_path: Path) -> None:
    """Beside the real plugins, as with the other probes."""
    checkout.add("demo", "cat >/dev/null; echo done")
    link = checkout.folder / "capture-wrap"
    link.symlink_to(BIN / "capture-wrap")
    checkout.wrap = (link,)
    assert Gone(0, b"done\n") == checkout.wrapped("demo", env={"PATH": os.defpath})


def test_traps_for_python_do_not_lead_it_astray_and_reach_the_plugin(plugins: Plugins, tmp_path: Path) -> None:
    """Modules where the call is made, and PYTHON* variables, change nothing for us, and are there for a plugin."""
    for name in ("fcntl", "select", "cni_capture", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a trap')")
    plugins.add("demo", 'cat >/dev/null; echo "$PYTHONPATH $PYTHONHOME"')
    environ = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}
    assert Gone(0, f"{tmp_path} /nowhere\n".encode()) == plugins.wrapped("demo", env=environ, cwd=tmp_path)


@pytest.mark.parametrize(
    "capture",
    [
        {"type": "a\0b"},
        {"type": "\ud800"},
        {"type": "x" * 5000},
        {"type": "é\n\x1b"},
        {"type": "demo", "label": json.loads("[" * 900 + "]" * 900)},
        {"type": "demo", "logFile": "relative", "redact": 7, "logOptions": "x", "interfaces": "maybe", "label": 1},
        {"type": "demo", "logFile": "/dev/full"},
    ],
    ids=str,
)
def test_odd_settings_never_end_in_a_traceback(checkout: Plugins, capture: dict[str, object]) -> None:
    """A plugin that cannot be is not found; a setting that cannot be is complained of, and the plugin runs."""
    checkout.add("demo", "cat >/dev/null; echo done")
    stdin = json.dumps({"type": "capture-wrap", "capture": capture}).encode()
    answer = checkout.node.execute(checkout.wrap, {**checkout.environ, "PATH": os.defpath}, stdin)
    if capture["type"] == "demo":
        assert (0, b"done\n") == (answer.code, answer.stdout)
    else:
        assert (1, 999) == (answer.code, json.loads(answer.stdout)["code"])
    assert all(line.startswith(b"capture-wrap: ") for line in answer.stderr.splitlines())


def test_a_locked_log_delays_a_plugin_but_does_not_stop_it(plugins: Plugins) -> None:
    """Both records are written without the lock, after `lockTimeout` each; Python has nothing to say of threads."""
    plugins.add("demo", "cat >/dev/null; echo done")
    with plugins.node.lock.open("w") as held:
        plugins.node.lock.chmod(0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = plugins.wrapped("demo", env={"PATH": os.defpath, "CNI_CAPTURE_LOCK_TIMEOUT": "0.1"})
    why = f"recorded without the lock: {plugins.node.lock} was locked for 0.1 s"
    assert Gone(0, b"done\n", f"capture-wrap: {why}; hint: cni-capture doctor\n".encode()) == answer
    assert ["entry", "exit"] == [record.facts["side"] for record in plugins.node.records()]


def test_a_log_across_a_network_is_written_from_a_process_of_its_own(plugins: Plugins) -> None:
    """Which ends before the plugin begins, and is no child of the plugin's."""
    plugins.add("demo", "cat >/dev/null; echo done")
    log = f"/dev/shm/cni-capture-{os.getpid()}.log"
    try:
        answer = plugins.wrapped("demo", env={"PATH": os.defpath, "CNI_CAPTURE_LOG_FILE": log})
        assert (Gone(0, b"done\n"), 2) == (answer, Path(log).read_bytes().count(b"\n"))
    finally:
        Path(log).unlink(missing_ok=True)
