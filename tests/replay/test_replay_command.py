"""`cni-capture replay` on the command line, with plugins that need no namespace and no root."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cni_capture.commands import main
from tests.decoder import decode
from tests.show.stories import VERSION, Story, result

WEB = "web-0123456789"
POD: dict[str, Any] = {"pod": "shop/web", "env": {"CNI_NETNS": ""}}
RESULT = result("10.1.0.7/24")
AT = "2026-11-30T12:03:44.119000Z"
ERROR = {"cniVersion": VERSION, "code": 7, "msg": "bad config", "details": "no bridge"}

Run = Callable[..., tuple[int, str, str]]


class Bench:
    """A log to be made, plugins to be called again, and what they were given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "old.log"
        self.new_log = folder / "cni.log"
        self.story = Story()

    def plugin(self, name: str, said: Any = RESULT, then: str = "exit 0", on_del: str = "exit 0") -> Path:
        """A plugin that keeps what it got, and says this."""
        path = self.folder / name
        said = said if isinstance(said, str) else json.dumps(said)
        path.write_text(
            f"#!/bin/sh\necho $CNI_COMMAND $CNI_CONTAINERID >>{self.folder}/calls\ncat >>{self.folder}/calls\n"
            f"echo >>{self.folder}/calls\n[ $CNI_COMMAND = DEL ] && {{ {on_del}; }}\n"
            f"cat <<'EOF'\n{said}\nEOF\n{then}\n"
        )
        path.chmod(0o755)
        return path

    def calls(self) -> list[str]:
        """Each call and its stdin, a line each."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def record(self, plugin: str, said: Any = RESULT, verb: str = "ADD", config: Any = None, **ended: Any) -> None:
        """A call of a plugin, as capture-wrap has recorded it."""
        who = {**POD, "path": str(self.folder / plugin)}
        pid = self.story.wrapped_entry(verb, WEB, plugin, config, **who)
        self.story.wrapped_exit(verb, WEB, plugin, pid, said, **who, **ended)

    def write(self) -> str:
        self.log.write_bytes(b"".join(self.story.lines("json")))
        return str(self.log)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def run(bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line after `cni-capture replay LOG`: exit code, stdout, stderr. Replays go to a log of their own."""
    for name in [name for name in os.environ if name.startswith("CNI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CNI_CAPTURE_LOG_FILE", str(bench.new_log))
    monkeypatch.setenv("CNI_CAPTURE_LOCK_FILE", str(bench.folder / "cni.lock"))
    monkeypatch.setenv("CNI_CAPTURE_LOG_FORMAT", "json")

    def run(*options: str) -> tuple[int, str, str]:
        code = main(["replay", bench.write(), *options])
        return code, *capfd.readouterr()

    return run


def test_a_call_becomes_a_script_and_nothing_is_run(bench: Bench, run: Run) -> None:
    """The script calls the plugin as the runtime did; only who runs it calls it."""
    bench.plugin("bridge")
    bench.record("bridge")
    code, script, said = run()
    assert (0, "", []) == (code, said, bench.calls())
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)
    assert RESULT == json.loads(done.stdout)
    config = '{"cniVersion":"1.0.0","name":"podnet","type":"bridge"}'
    assert [f"ADD {WEB}", config] == bench.calls()
    assert f"export CNI_CAPTURE_REPLAY={AT}\n" in script


def test_the_script_is_about_what_the_options_name(bench: Bench, run: Run) -> None:
    """Another plugin, namespace or container."""
    other = bench.plugin("other")
    bench.record("bridge")
    _, script, _ = run("--plugin", str(other), "--netns", "/run/netns/x", "--container-id", "y")
    assert {f'printf %s "$config" | {other}', "export CNI_NETNS=/run/netns/x", "export CNI_CONTAINERID=y"} <= set(
        script.splitlines()
    )


def test_the_same_answer_is_exit_status_0(bench: Bench, run: Run) -> None:
    """And nothing on stdout; stderr says with what it was compared."""
    bench.plugin("bridge")
    bench.record("bridge")
    said = f"cni-capture: the same as ADD of bridge for shop/web on podnet at {AT}: exit status 0\n"
    assert (0, "", said) == run("--exec")


def test_another_answer_is_exit_status_1_and_a_diff(bench: Bench, run: Run) -> None:
    """The plugin that is named is run, and what it says on stderr is passed on."""
    other = bench.plugin("other", ERROR, "echo words >&2; exit 1")
    bench.record("bridge", {**ERROR, "code": 11}, exitStatus=1)
    expected = f"""\
--- ADD of bridge for shop/web on podnet at {AT}
+++ now, {other}
@@ -1,7 +1,7 @@
 exit status 1
 {{
   "cniVersion": "1.0.0",
-  "code": 11,
+  "code": 7,
   "details": "no bridge",
   "msg": "bad config"
 }}
"""
    assert (1, expected, "words\n") == run("--exec", "--plugin", str(other))


def test_a_replay_is_recorded_and_marked(bench: Bench, run: Run) -> None:
    """As capture-wrap would record it, with the time of the old record among the variables."""
    path = bench.plugin("bridge", ERROR, "echo words >&2; exit 1")
    bench.record("bridge", ERROR, exitStatus=1)
    run("--exec")
    entry, exit = map(decode, bench.new_log.read_bytes().splitlines())
    assert [("cni-capture", AT, "entry", "input"), ("cni-capture", AT, "exit", "output")] == [
        (record.probe, record.env["CNI_CAPTURE_REPLAY"], record.facts["side"], record.what) for record in (entry, exit)
    ]
    assert b'{"cniVersion":"1.0.0","name":"podnet","type":"bridge"}' == entry.body
    told = {name: exit.facts.get(name) for name in ("plugin", "path", "exitStatus", "stderr", "stderrBytes")}
    assert {"plugin": "bridge", "path": str(path), "exitStatus": 1, "stderr": "words\n", "stderrBytes": 6} == told
    assert ERROR == json.loads(exit.body)


def test_a_replay_is_not_replayed(bench: Bench, run: Run) -> None:
    """It is not the call that somebody looks for."""
    bench.record("bridge")
    bench.story.now += 10**9
    pid = bench.story.wrapped_entry("ADD", WEB, "bridge", pod="shop/web", env={"CNI_CAPTURE_REPLAY": AT})
    bench.story.wrapped_exit("ADD", WEB, "bridge", pid, RESULT, pod="shop/web", env={"CNI_CAPTURE_REPLAY": AT})
    assert (0, "") == run()[::2]


def test_of_several_calls_the_failed_add_is_taken(bench: Bench, run: Run) -> None:
    """Rather than its clean-up or a later success, and it is said which."""
    bench.record("bridge", ERROR, exitStatus=1)
    bench.record("bridge", b"", "DEL", exitStatus=1)
    bench.record("bridge")
    bench.record("bridge", b"", "DEL")
    _, _, said = run()
    call = f"ADD of bridge for shop/web on podnet at {AT}"
    assert f"cni-capture: of 4 calls, {call} (choose another with --cmd, --label, --since, --until)\n" == said
    assert "export CNI_COMMAND=DEL" in run("--cmd", "del")[1]


@pytest.mark.parametrize("subject", ["web-01", "shop/web"])
def test_a_container_or_a_pod_can_be_named(bench: Bench, run: Run, subject: str) -> None:
    """As for `show`."""
    bench.record("bridge")
    assert 0 == run(subject)[0]


@pytest.mark.parametrize(
    ("ended", "then", "diff", "now"),
    [
        ({"signal": "SIGKILL"}, "exit 0", ["-signal: killed", "+exit status 0"], {"exitStatus": 0}),
        ({"exitStatus": 3}, "kill -TERM $$", ["-exit status 3", "+signal: terminated"], {"signal": "SIGTERM"}),
    ],
)
def test_how_a_plugin_ended_is_compared(
    bench: Bench, run: Run, ended: dict[str, Any], then: str, diff: list[str], now: dict[str, Any]
) -> None:
    """A signal, an exit status; and it is recorded."""
    bench.plugin("bridge", "", then)
    bench.record("bridge", b"\n", **ended)
    code, out, _ = run("--exec")
    assert (1, diff) == (code, [line for line in out.splitlines()[2:] if line[0] in "+-"])
    facts = decode(bench.new_log.read_bytes().splitlines()[-1]).facts
    assert now == {name: value for name, value in facts.items() if name in ("exitStatus", "signal")}


def test_a_call_that_never_ended_differs_from_one_that_does(bench: Bench, run: Run) -> None:
    """It hung; now it answers."""
    bench.plugin("bridge")
    bench.story.wrapped_entry("ADD", WEB, "bridge", **POD, path=str(bench.folder / "bridge"))
    code, out, _ = run("--exec")
    assert (1, "-no end seen") == (code, out.splitlines()[3])


def test_a_plugin_that_cannot_be_run_is_an_answer_too(bench: Bench, run: Run) -> None:
    """In libcni's words, and recorded with an error."""
    bench.record("bridge")
    code, out, _ = run("--exec")
    assert (1, f"+fork/exec {bench.folder}/bridge: no such file or directory") == (code, out.splitlines()[-1])
    exit = decode(bench.new_log.read_bytes().splitlines()[-1])
    assert f"fork/exec {bench.folder}/bridge: no such file or directory" == exit.facts["error"]["msg"]


def test_a_plugin_that_was_not_found_has_to_be_named(bench: Bench, run: Run) -> None:
    """There is no path of it in the log."""
    other = bench.plugin("other")
    error = {"code": 999, "msg": 'failed to find plugin "bridge" in path [/opt/cni/bin]'}
    pid = bench.story.wrapped_entry("ADD", WEB, "bridge", **POD, path=None)
    bench.story.wrapped_exit("ADD", WEB, "bridge", pid, **POD, path=None, error=error)
    expected = (
        f"cni-capture: ADD of bridge for shop/web on podnet at {AT}: the plugin was not found then: {error['msg']}\n"
        "hint: name one with --plugin PATH\n"
    )
    assert (2, "", expected) == run()
    assert 0 == run("--plugin", str(other))[0]


def test_the_answer_without_a_namespace_is_left_as_it_is(bench: Bench, run: Run) -> None:
    """Only what was made in a namespace of the replay's own is deleted again: the call is made, and no other."""
    bench.plugin("bridge")
    bench.record("bridge")
    run("--exec")
    assert [f"ADD {WEB}"] == bench.calls()[::2]


@pytest.mark.parametrize("how", ["owner", "mode"])
@pytest.mark.parametrize("options", [(), ("--chain",)])
def test_a_log_of_somebody_else_is_not_executed(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch, how: str, options: Sequence[str]
) -> None:
    """It says which program is run; a script of it can be read first."""
    bench.plugin("bridge")
    bench.record("bridge")
    bench.write()
    if how == "mode":
        bench.log.chmod(0o646)
    elif os.geteuid() == 0:
        os.chown(bench.log, 65534, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    expected = (
        f"cni-capture: {bench.log}: somebody else may have written this, and it says which program is run\n"
        "hint: read it, and replay a copy of your own\n"
    )
    assert (2, "", expected) == run("--exec", *options)
    assert ([], 0) == (bench.calls(), run(*options)[0])


def test_no_name_of_a_log_makes_it_ours(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also not that by which standard input is called."""
    bench.plugin("bridge")
    bench.record("bridge")
    bench.write()
    bench.log.rename(bench.folder / "standard input").chmod(0o646)
    monkeypatch.chdir(bench.folder)
    assert 2 == main(["replay", "standard input", "--exec"])
    assert "somebody else may have written this" in capfd.readouterr().err
    assert [] == bench.calls()


def test_redacted_values_are_missed(bench: Bench, run: Run) -> None:
    """The script says at its head what has to be put in."""
    bench.record("bridge")
    bench.story.records[0].facts["redacted"] = '["token"]'
    _, script, said = run()
    assert "# Put in first what was kept out of the log: token.\n" in script
    assert "cni-capture: the log has no values of token: they are [redacted] here, too\n" == said


def test_the_call_of_a_probe_can_be_printed_but_has_no_answer(bench: Bench, run: Run) -> None:
    """Two probes do not see what the plugin between them gets."""
    bench.story.enter("ADD", WEB, **POD)
    bench.story.leave("ADD", WEB, RESULT, **POD)
    code, script, said = run()
    assert (0, 'printf %s "$config" | /opt/cni/bin/capture-pre') == (code, script.splitlines()[-1])
    assert said.endswith("this is its own call (hint: cni-capture splice --wrap TYPE)\n")
    assert 2 == run("--exec")[0]


def test_a_chain_becomes_a_script_that_runs_it(bench: Bench, run: Run) -> None:
    """With `cni-capture run`, in a namespace that it makes."""
    bench.record("bridge")
    bench.record("tuning", config={"cniVersion": VERSION, "name": "podnet", "type": "tuning", "prevResult": RESULT})
    code, script, _ = run("--chain")
    assert (0, True) == (code, script.startswith("#!/bin/sh\n# ADD of bridge+tuning for shop/web"))
    command = script.splitlines()[-2]
    assert command.endswith(
        f"run add --new-netns --container-id {WEB} --ifname eth0 --path /opt/cni/bin "
        "--args 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web' \"$conflist\""
    )


def test_a_chain_is_run_as_libcni_would_and_compared(bench: Bench, run: Run) -> None:
    """Each plugin gets the result of the one before it; the end is compared."""
    path = {"CNI_PATH": str(bench.folder), "CNI_NETNS": ""}
    changed = {**RESULT, "dns": {"domain": "tuned"}}
    bench.plugin("bridge")
    bench.plugin("tuning", changed)
    for plugin, said, more in (("bridge", RESULT, {}), ("tuning", changed, {"prevResult": RESULT})):
        config = {"cniVersion": VERSION, "name": "podnet", "type": plugin, **more}
        pid = bench.story.wrapped_entry("ADD", WEB, plugin, config, pod="shop/web", env=path)
        bench.story.wrapped_exit("ADD", WEB, plugin, pid, said, pod="shop/web", env=path)
    code, out, words = run("--chain", "--exec")
    assert (0, "") == (code, out)
    assert words.endswith(f"the same as ADD of bridge+tuning for shop/web on podnet at {AT}: exit status 0\n")
    stdin = [json.loads(line) for line in bench.calls()[1::2]]
    assert [None, RESULT["ips"]] == [config.get("prevResult", {}).get("ips") for config in stdin]
    other = bench.folder / "new"
    other.mkdir()
    bench.plugin("new/tuning", RESULT)
    code, out, _ = run("--chain", "--exec", "--plugin", str(other / "tuning"))
    assert (1, ['-  "dns": {', '-    "domain": "tuned"', "-  },"]) == (
        code,
        [line for line in out.splitlines()[2:] if line[0] in "+-"],
    )


def test_a_chain_needs_its_plugins(bench: Bench, run: Run) -> None:
    """A plugin that is not there would be missed then as well as now, and nothing would differ."""
    pid = bench.story.wrapped_entry("ADD", WEB, "bridge", env={"CNI_PATH": "/none", "CNI_NETNS": ""})
    bench.story.wrapped_exit("ADD", WEB, "bridge", pid, RESULT, env={"CNI_NETNS": ""})
    expected = 'cni-capture: failed to find plugin "bridge" in path [/none]\nhint: run it where the plugins are\n'
    assert (2, "", expected) == run("--chain", "--exec")
    other = bench.plugin("other")
    expected = f"cni-capture: {other}: no plugin of that name in the chain\nhint: its plugins are: bridge\n"
    assert (2, "", expected) == run("--chain", "--exec", "--plugin", str(other))


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("no such call in the log", ["nobody"]),
        ("a GC would take away what containers have got that started since", ["--exec", "--cmd", "gc"]),
        ("'/none' does not exist", ["--plugin", "/none"]),
        ("one ID or pod at a time", ["a", "b"]),
        ("--chain reads the log twice", ["-", "--chain"]),
    ],
)
def test_what_cannot_be_done_is_told_in_words(bench: Bench, run: Run, expected: str, options: list[str]) -> None:
    """A line, a hint, and exit status 2."""
    bench.record("bridge")
    pid = bench.story.wrapped_entry("GC", "", "bridge")
    bench.story.wrapped_exit("GC", "", "bridge", pid)
    code, out, said = run(*options)
    assert (2, "") == (code, out)
    assert expected in said


def test_a_log_that_is_not_there_is_told_in_words(bench: Bench, run: Run) -> None:
    """As by `show`."""
    assert 2 == main(["replay", str(bench.folder / "none.log")])
