"""Nothing tells a wrapped plugin that it is wrapped, nor the runtime: what each gets is the same."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.node import BIN, Answer
from tests.runtimes.waiting import until
from tests.wrap.plugins import CONFIG, Gone, Plugins, alive, compact, waiting_bytes

# All that a plugin can know of itself: what it was given, what it may do, and what else it could get at.
WITNESS = r"""
cat
tr '\0' '\n' </proc/$$/environ
tr '\0' '\n' </proc/$$/cmdline
readlink /proc/$$/cwd
grep -E '^(Umask|NoNewPrivs|Cap|Seccomp:)' /proc/$$/status
ulimit -a
ps -o pgid=,sid=,ni= -p $$
for fd in /proc/$$/fd/*; do
    stat -Lc "${fd##*/} %F" $fd 2>/dev/null
    grep flags /proc/$$/fdinfo/${fd##*/} 2>/dev/null
done
exit 0
"""

LIBRARYS_OWN = 0b11 << 31
"""Signals 32 and 33, the C library's own (signal(7)); what became of them is up to whoever started the tests."""


def same(plugins: Plugins, plugin: str, **how: Any) -> Gone:
    """What a plugin gives plain, which must be what it gives wrapped."""
    plain = plugins.plain(plugin, **how)
    assert plain == plugins.wrapped(plugin, **how)
    return plain


def test_a_plugin_finds_itself_where_it_would_be_without_us(plugins: Plugins, tmp_path: Path) -> None:
    """Stdin, environment (with LC_CTYPE and without), argv, working directory, limits, descriptors."""
    plugins.add("witness", WITNESS)
    for environ in ({"PATH": os.defpath}, {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "ODD": "a=b\nc\udcff"}):
        answer = same(plugins, "witness", env=environ, cwd=tmp_path)
        assert (0, compact({**CONFIG, "type": "witness"})) == (answer.status, answer.stdout.partition(b"CNI_CAP")[0])
        assert f"/bin/sh\n{plugins.folder}/witness\n{tmp_path}\n" in os.fsdecode(answer.stdout)


def test_a_plugin_inherits_what_the_runtime_had_ignored_blocked_limited_and_opened(plugins: Plugins) -> None:
    """SIGCHLD and SIGINT ignored, SIGUSR1 blocked, a limit, a umask, a descriptor beyond the three."""
    plugins.add("witness", WITNESS)
    plugins.add("status", "", "/bin/cat /proc/self/status")

    def prepare() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))
        os.umask(0o27)

    with open("/dev/null") as beyond:
        how: dict[str, Any] = {"env": {"PATH": os.defpath}, "preexec_fn": prepare, "pass_fds": [beyond.fileno()]}
        answer = same(plugins, "witness", **how)
        assert f"\n{beyond.fileno()} character special file" in answer.stdout.decode()
        status = plugins.wrapped("status", **how).stdout.decode()
    found = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("Umask", "Sig")))
    assert "0027" == found["Umask"]
    signals = {name: int(found[name], 16) & ~LIBRARYS_OWN for name in ("SigBlk", "SigIgn", "SigCgt")}
    ignored = 1 << signal.SIGCHLD - 1 | 1 << signal.SIGINT - 1
    assert {"SigBlk": 1 << signal.SIGUSR1 - 1, "SigIgn": ignored, "SigCgt": 0} == signals


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_what_the_runtime_had_closed_is_closed_for_the_plugin(plugins: Plugins, closing: str, tmp_path: Path) -> None:
    """Without stdout, without stderr, without either: it fails to write there, and its exit status is the same."""
    said = tmp_path / "said"
    plugins.add("witness", f"cat >{said}; ls /proc/$$/fd >>{said}; echo out || exit 3; echo err >&2 || exit 4")
    statuses, seen = [], []
    for wrapped in (False, True):
        argv = plugins.wrap if wrapped else (plugins.folder / "witness",)
        entry = {"type": "capture-wrap", "capture": {"type": "witness"}} if wrapped else {"type": "witness"}
        shell = ["sh", "-c", f'exec "$@" {closing}', "sh", *argv]
        answer = plugins.node.execute(shell, {**plugins.environ, "PATH": os.defpath}, compact(entry))
        statuses.append(answer)
        seen.append(said.read_bytes())
    assert (statuses[0], seen[0]) == (statuses[1], seen[1])
    assert [3 if closing.startswith(">") else 4] * 2 == [answer.code for answer in statuses]
    assert ["entry", "exit"] == [record.facts["side"] for record in plugins.node.records()]


@pytest.mark.parametrize("size", [0, 1, 65_536, 10_000_000])
def test_large_streams_pass_whole(checkout: Plugins, size: int) -> None:
    """10 MB on stdin, stdout and stderr at once, whoever reads and writes when."""
    checkout.add("echo", "tee /dev/stderr")
    config = {**CONFIG, "padding": "x" * size}
    stdin = compact({**config, "type": "echo"})
    assert Gone(0, stdin, stdin) == same(checkout, "echo", config=config, env={"PATH": os.defpath})


def test_what_a_plugin_says_arrives_as_it_is_said(checkout: Plugins) -> None:
    """Not when it ends: each word is there before the next one is asked for."""
    checkout.add("talker", "echo first; read go <$GO; echo second")
    fifo = checkout.folder / "go"
    os.mkfifo(fifo)
    process, stdin = checkout.start("talker", True, env={"GO": str(fifo)})
    assert process.stdin
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    assert b"first\n" == waiting_bytes(process)
    fifo.write_text("\n")
    assert (b"second\n", b"") == process.communicate(timeout=20)


def test_a_plugin_that_reads_no_stdin_is_not_waited_for(plugins: Plugins) -> None:
    """It closes its stdin, or ends, with 10 MB still to come."""
    config = {**CONFIG, "padding": "x" * 10_000_000}
    plugins.add("deaf", "exec <&-; echo done")
    assert Gone(0, b"done\n") == plugins.wrapped("deaf", config)
    plugins.add("brief", "echo done")
    assert Gone(0, b"done\n") == plugins.wrapped("brief", config)


@pytest.mark.parametrize(
    "script", ["exit 0", "exit 1", "exit 255", "kill -9 $$", "kill -15 $$", "kill -13 $$", "kill -37 $$"]
)
def test_a_plugins_end_is_ours(plugins: Plugins, script: str) -> None:
    """Its exit status, or the signal that it died of; a pipe that was closed, a real-time signal."""
    plugins.add("ending", f"cat >/dev/null; echo out; echo err >&2; {script}")
    answer = same(plugins, "ending", env={"PATH": os.defpath})
    assert (b"out\n", b"err\n") == (answer.stdout, answer.stderr)


def test_we_leave_no_core_where_the_plugin_left_none_nor_on_its_own(checkout: Plugins, tmp_path: Path) -> None:
    """The plugin's core is evidence: it is there as without us, and only where it is safe is there a second one."""
    checkout.add("crashing", "kill -11 $$")
    checkout.add("limited", "ulimit -c 0; kill -11 $$")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    left = {}
    for wrapped in (False, True):
        for plugin in ("crashing", "limited"):
            folder = tmp_path / f"{plugin}-{wrapped}"
            folder.mkdir()
            answer = checkout.run(plugin, wrapped, cwd=folder, preexec_fn=allow)
            assert Gone(-signal.SIGSEGV) == answer
            left[plugin, wrapped] = [os.fsencode(BIN) in core.read_bytes() for core in sorted(folder.glob("core*"))]
    assert (left["limited", False], [each for each in left["crashing", True] if not each]) == (
        left["limited", True],
        left["crashing", False],
    )


def test_a_child_that_holds_the_pipes_does_not_hold_us(plugins: Plugins) -> None:
    """A plugin that forks and lives on: with its end the call is over, and all that it had said has arrived."""
    plugins.add("parent", 'cat >/dev/null; echo "out $$"; sleep 600 & echo "$!" >&2; exit 5')
    process, stdin = plugins.start("parent", True, env={"PATH": os.defpath})
    began = time.monotonic()
    stdout, stderr = process.communicate(stdin, timeout=20)
    child = int(stderr)
    try:
        assert (5, b"out ", True) == (process.returncode, stdout[:4], alive(child))
        assert time.monotonic() - began < 15
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_that_talks_for_ever_does_not_hold_us(checkout: Plugins) -> None:
    """What a plugin left behind says after its end is nobody's answer."""
    checkout.add("parent", "cat >/dev/null; yes >&2 & echo $!; exit 0")
    process, stdin = checkout.start("parent", True, env={"PATH": os.defpath})
    stdout, _ = process.communicate(stdin, timeout=20)
    child = int(stdout)
    assert 0 == process.returncode
    until(lambda: not alive(child), "it has noticed that nobody listens")


def test_a_runtime_that_stops_listening_is_noticed_by_the_plugin(checkout: Plugins) -> None:
    """It gets SIGPIPE as it would have without us, and we die of that as well."""
    checkout.add("talker", "cat >/dev/null; while :; do echo words; done")
    process, stdin = checkout.start("talker", True, stderr=subprocess.DEVNULL, env={"PATH": os.defpath})
    assert process.stdin
    assert process.stdout
    process.stdin.write(stdin)
    process.stdin.close()
    waiting_bytes(process)
    process.stdout.close()
    assert -signal.SIGPIPE == process.wait(20)


# Says that it is there, and its process ID; then waits without end.
WAITER = 'cat >/dev/null; {trap} echo "$$"; while :; do sleep 0.05; done'


@contextmanager
def waiting(plugins: Plugins, trap: str = "") -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A wrapped plugin at work, and its process ID."""
    plugins.add("waiter", WAITER.format(trap=trap))
    process, stdin = plugins.start("waiter", True, env={"PATH": os.defpath})
    assert process.stdin
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    pid = int(waiting_bytes(process))
    try:
        yield process, pid
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        until(lambda: not alive(pid), "the plugin has ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_goes_to_the_plugin(plugins: Plugins, number: signal.Signals) -> None:
    """The plugin dies of it, and so do we."""
    with waiting(plugins) as (process, pid):
        process.send_signal(number)
        assert -number == process.wait(20)
        assert not alive(pid)


def test_a_plugin_that_handles_a_signal_may_end_as_it_likes(plugins: Plugins) -> None:
    """It cleans up on SIGTERM, and says what came of that."""
    with waiting(plugins, "trap 'echo cleaned; exit 7' TERM;") as (process, _):
        process.terminate()
        assert (b"cleaned\n", b"") == process.communicate(timeout=20)
        assert 7 == process.returncode


def test_a_plugin_does_not_outlive_us(plugins: Plugins) -> None:
    """A runtime whose patience is at an end kills us with SIGKILL, which nobody can pass on."""
    with waiting(plugins, "trap '' TERM INT HUP;") as (process, pid):
        process.kill()
        process.communicate(timeout=20)
        until(lambda: not alive(pid), "the plugin has been killed")
    assert ["entry"] == [record.facts["side"] for record in plugins.node.records()]


def test_a_signal_after_the_end_of_the_plugin_changes_nothing(checkout: Plugins) -> None:
    """While its end is being recorded: what it did is done, and its status stands."""
    import fcntl

    checkout.add("brief", "cat >/dev/null; echo done; echo $$ >&2")
    with checkout.node.lock.open("w") as held:
        checkout.node.lock.chmod(0o600)
        process, stdin = checkout.start("brief", True, env={"PATH": os.defpath, "CNI_CAPTURE_LOCK_TIMEOUT": "1"})
        assert process.stdin
        assert process.stderr
        fcntl.flock(held, fcntl.LOCK_EX)
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        pid = int(process.stderr.readline())
        until(lambda: not alive(pid), "the plugin has ended")
        until(lambda: not Path(f"/proc/{pid}").exists(), "somebody has waited for it")
        process.terminate()
        stdout, stderr = process.communicate(timeout=20)
    assert (0, b"done\n") == (process.returncode, stdout)
    assert b"recorded without the lock" in stderr


def test_version_is_the_plugins_where_it_is_known(plugins: Plugins) -> None:
    """With a configuration that names the plugin, it is asked; with libcni's, which names none, we answer."""
    plugins.add("old", 'echo "{\\"cniVersion\\":\\"0.3.1\\",\\"supportedVersions\\":[\\"0.3.1\\"]}"')
    answer = plugins.wrapped("old", env={"CNI_COMMAND": "VERSION"})
    assert Gone(0, b'{"cniVersion":"0.3.1","supportedVersions":["0.3.1"]}\n') == answer
    for stdin in (b'{"cniVersion":"1.1.0"}', b""):
        ours = plugins.node.execute(plugins.wrap, {"CNI_COMMAND": "VERSION"}, stdin)
        assert Answer(0, plugins.node.call("capture-pre", {"CNI_COMMAND": "VERSION"}).stdout) == ours
    assert [] == plugins.node.lines()


def test_version_is_answered_while_stdin_never_ends(plugins: Plugins) -> None:
    """A runtime that keeps its end of stdin open, and writes nothing, gets the versions."""
    reading, writing = os.pipe()
    try:
        answer = plugins.node.execute(plugins.wrap, {"CNI_COMMAND": "VERSION"}, reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (0, True, b"") == (answer.code, answer.stdout.startswith(b'{"cniVersion"'), answer.stderr)


def test_a_wrong_call_is_the_plugins_to_refuse(checkout: Plugins) -> None:
    """Without a container, with a verb of the future, without any: the plugin gets it, and its answer is the answer."""
    checkout.add("judge", 'cat; echo "$CNI_COMMAND $CNI_CONTAINERID"; exit 4')
    for environ in ({"CNI_CONTAINERID": ""}, {"CNI_COMMAND": "FUTURE"}, {"CNI_COMMAND": ""}):
        assert 4 == same(checkout, "judge", env={"PATH": os.defpath, **environ}).status


def test_a_plugin_that_is_being_written_is_waited_for(checkout: Plugins) -> None:
    """Text file busy: tried again a second later, and then it runs."""
    checkout.add("fresh", "cat >/dev/null; echo done")
    with (checkout.folder / "fresh").open("a"):
        process, stdin = checkout.start("fresh", True, env={"PATH": os.defpath})
        assert process.stdin
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        asleep = Path(f"/proc/{process.pid}/wchan")
        until(lambda: "nanosleep" in asleep.read_text(), "it sleeps")
    assert (b"done\n", b"") == process.communicate(timeout=20)
    assert 0 == process.returncode
    assert 0 == checkout.node.records()[1].facts["exitStatus"]
