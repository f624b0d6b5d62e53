"""What the log says of a wrapped plugin: what it got, what it said, how it ended; and what is in the way of that."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.decoder import Decoded
from tests.node import Answer
from tests.runtimes.waiting import until
from tests.wrap.plugins import CONFIG, Gone, Plugins, alive, compact, waiting_bytes
from tests.wrap.test_standin import HINT

PATH = {"PATH": os.defpath}
STDIN = compact({**CONFIG, "type": "demo"})
MEASURED = ("milliseconds", "userMilliseconds", "systemMilliseconds", "maxRssKiB")


def told(record: Decoded) -> dict[str, Any]:
    """The facts of a record but for those that every probe's record has, and those that chance decides."""
    common = ("monotonic", "ppid", "parent", "network", "cniVersion")
    return {key: value for key, value in record.facts.items() if key not in (*common, *MEASURED)}


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_call_is_two_records(plugins: Plugins, log_format: str) -> None:
    """Entry with the plugin's stdin, exit with its stdout and all there is to say of its end, in both formats."""
    plugins.node.environ["CNI_CAPTURE_LOG_FORMAT"] = plugins.environ["CNI_CAPTURE_LOG_FORMAT"] = log_format
    plugins.add("demo", 'cat >/dev/null; echo "{\\"ips\\": [1.0e0]}"; echo "a=b \\"c\\"" >&2')
    result = b'{"ips": [1.0e0]}\n'
    assert Gone(0, result, b'a=b "c"\n') == plugins.wrapped("demo", env=PATH)
    entry, exit = plugins.node.records()
    named = {"plugin": "demo", "path": f"{plugins.folder}/demo"}
    ended = {"exitStatus": 0, "stderrBytes": 8, "stderr": 'a=b "c"\n'}
    assert [
        ("capture-wrap", {"side": "entry", **named}, "input", STDIN),
        ("capture-wrap", {"side": "exit", **named, **ended}, "output", result),
    ] == [(record.probe, told(record), record.what, record.body) for record in (entry, exit)]
    assert (entry.pid, entry.env) == (exit.pid, exit.env)
    assert {"network": "net", "cniVersion": "1.0.0"}.items() <= exit.facts.items()
    assert exit.facts["monotonic"] - entry.facts["monotonic"] >= exit.facts["milliseconds"] / 1000 > 0
    assert all(exit.facts[key] >= 0 for key in MEASURED)
    assert exit.facts["maxRssKiB"] > 500


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS", "FUTURE"])
def test_each_verb_has_its_entry_and_its_exit(checkout: Plugins, verb: str) -> None:
    """DEL, too, is entered with the input and left with the output: nothing of a wrap runs backward."""
    checkout.add("demo", "cat >/dev/null")
    assert Gone(0) == checkout.wrapped("demo", env={**PATH, "CNI_COMMAND": verb})
    assert [("entry", "input", STDIN), ("exit", "output", b"")] == [
        (record.facts["side"], record.what, record.body) for record in checkout.node.records()
    ]


def test_time_and_memory_are_the_plugins_own(checkout: Plugins) -> None:
    """A plugin that computes for 0.2 seconds and takes 100 MB."""
    script = "import time\nx = bytearray(100_000_000)\nwhile time.process_time() < 0.2: pass"
    checkout.add("demo", script, "/usr/bin/python3 -IS")
    checkout.wrapped("demo")
    facts = checkout.node.records()[1].facts
    assert facts["userMilliseconds"] + facts["systemMilliseconds"] >= 199
    assert facts["milliseconds"] >= 199
    assert facts["maxRssKiB"] >= 100_000_000 / 1024


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("exit 3", {"exitStatus": 3}),
        ("kill -9 $$", {"signal": "SIGKILL"}),
        ("kill -6 $$", {"signal": "SIGABRT"}),
        ("kill -40 $$", {"signal": "SIGRTMIN+6"}),
    ],
)
def test_an_end_has_its_status_or_its_signal(checkout: Plugins, script: str, ending: dict[str, Any]) -> None:
    """By name, and never both."""
    checkout.add("demo", f"cat >/dev/null; {script}")
    checkout.wrapped("demo", env=PATH)
    facts = checkout.node.records()[1].facts
    assert ending == {key: facts[key] for key in ("exitStatus", "signal") if key in facts}


@pytest.mark.parametrize(
    "output", [b"", b"oops\n", b"{}{}", b"[1]", b'log line\n{"ips":[]}', b"\xff\x00", b'{"ips":[]} trailing', b"null"]
)
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_stdout_that_is_no_json_object_is_kept_to_the_byte(checkout: Plugins, output: bytes, log_format: str) -> None:
    """Nothing, words, two documents, a list, log lines before the result, what is not UTF-8."""
    (checkout.folder / "said").write_bytes(output)
    checkout.add("demo", f"cat >/dev/null; cat {checkout.folder}/said")
    answer = checkout.wrapped("demo", env={**PATH, "CNI_CAPTURE_LOG_FORMAT": log_format})
    assert (Gone(0, output), output) == (answer, checkout.node.records()[1].body)
    line = checkout.node.lines()[1]
    assert b'output":"' in line or b'output="' in line


def test_a_hung_plugin_has_left_its_entry(checkout: Plugins) -> None:
    """Written before the plugin starts: there when nothing ever comes back."""
    checkout.add("demo", 'cat >/dev/null; echo "$$"; exec sleep 600')
    process, stdin = checkout.start("demo", True, env=PATH)
    assert process.stdin
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    pid = int(waiting_bytes(process))
    assert [("entry", STDIN)] == [(record.facts["side"], record.body) for record in checkout.node.records()]
    process.kill()
    process.communicate()
    until(lambda: not alive(pid), "the plugin has gone with it")


@pytest.mark.parametrize("size", [65_536, 65_537, 10_000_000])
def test_of_stderr_the_end_is_kept_and_all_of_it_counted(checkout: Plugins, size: int) -> None:
    """The last 64 KB; all of it has reached the runtime."""
    said = (b"0123456789abcde\n" * (size // 16 + 1))[-size:]
    (checkout.folder / "said").write_bytes(said)
    checkout.add("demo", f"cat >/dev/null; cat {checkout.folder}/said >&2; exit 1")
    assert Gone(1, b"", said) == checkout.wrapped("demo", env=PATH)
    facts = checkout.node.records()[1].facts
    assert (size, said[-65_536:].decode()) == (facts["stderrBytes"], facts["stderr"])


def test_secrets_stay_out_of_both_records_and_reach_the_plugin(checkout: Plugins) -> None:
    """In stdin, in stdout, in stderr; of a line of stderr that names one, what comes before it is kept."""
    checkout.add("demo", 'tee /dev/stderr; echo "\nfailed: bad password=hunter2 of x\nthe end" >&2')
    config = {**CONFIG, "etcd_key": "s3cret", "deep": [{"Token": {"a": "s3cret"}}]}
    stdin = compact({**config, "type": "demo"})
    answer = checkout.wrapped("demo", config, env=PATH)
    assert Gone(0, stdin, stdin + b"\nfailed: bad password=hunter2 of x\nthe end\n") == answer
    assert not re.search(rb"s3cret|hunter2", checkout.node.log.read_bytes())
    entry, exit = checkout.node.records()
    redacted = {**config, "etcd_key": "[redacted]", "deep": [{"Token": "[redacted]"}], "type": "demo"}
    assert [redacted] * 2 == [json.loads(record.body) for record in (entry, exit)]
    assert ["Token", "etcd_key"] == entry.facts["redacted"] == exit.facts["redacted"]
    words = exit.facts["stderr"].splitlines()
    assert ["failed: bad password[redacted]", "the end"] == words[1:]


def test_a_secret_across_the_cut_stays_out(checkout: Plugins) -> None:
    """Named before the last 64 KB of stderr begin, and told within them."""
    said = b"password: " + b"s3cret " * 20 + b"\n" + b"x" * 65_400 + b"\n"
    (checkout.folder / "said").write_bytes(said)
    checkout.add("demo", f"cat >/dev/null; cat {checkout.folder}/said >&2")
    checkout.wrapped("demo", env=PATH)
    assert b"s3cret" not in checkout.node.log.read_bytes()


def test_settings_are_those_in_capture_alone(checkout: Plugins, tmp_path: Path) -> None:
    """Keys of that name beside it belong to the real plugin; the log, the format, the label are ours."""
    ours = {"type": "demo", "label": "ipam", "logFormat": "json", "redact": ["mtu"], "interfaces": True}
    config = {**CONFIG, "label": "theirs", "logFile": "/nowhere", "type": "capture-wrap", "capture": ours}
    checkout.add("demo", "cat")
    answer = checkout.node.execute(checkout.wrap, {**checkout.environ, **PATH}, compact(config))
    assert (0, b"") == (answer.code, answer.stderr)
    assert {"label": "theirs", "logFile": "/nowhere"}.items() <= json.loads(answer.stdout).items()
    entry, exit = checkout.node.records()
    assert ["ipam"] * 2 == [entry.facts["label"], exit.facts["label"]]
    assert [["mtu"]] * 2 == [entry.facts["redacted"], exit.facts["redacted"]]
    assert {"interfaces"} <= entry.facts.keys() & exit.facts.keys()
    assert [b"{"] * 2 == [line[:1] for line in checkout.node.lines()]


def test_the_plugin_runs_on_the_host_after_a_look_into_the_container(plugins: Plugins, tmp_path: Path) -> None:
    """With `interfaces` we look into CNI_NETNS; the plugin's own namespace is the runtime's."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    import subprocess

    plugins.add("demo", "cat >/dev/null; readlink /proc/$$/ns/net")
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        waiting_bytes(holder)
        netns = f"/proc/{holder.pid}/ns/net"
        environ = {**PATH, "CNI_NETNS": netns, "CNI_CAPTURE_INTERFACES": "true"}
        answer = plugins.wrapped("demo", env=environ)
    finally:
        holder.communicate()
    assert Gone(0, os.readlink("/proc/self/ns/net").encode() + b"\n") == answer


def test_a_log_that_cannot_be_written_is_told_after_a_call_that_succeeded(plugins: Plugins, tmp_path: Path) -> None:
    """Once, after the plugin's own words, and the answer is the plugin's."""
    plugins.add("demo", "cat >/dev/null; echo out; echo err >&2; exit $STATUS")
    environ = {**PATH, "CNI_CAPTURE_LOG_FILE": str(tmp_path), "STATUS": "0"}
    trouble = f"capture-wrap: not recorded: {tmp_path}: Is a directory; hint: cni-capture doctor\n".encode()
    assert Gone(0, b"out\n", b"err\n" + trouble) == plugins.wrapped("demo", env=environ)
    bad = {**environ, "CNI_CAPTURE_LOCK_TIMEOUT": "soon"}
    both = (
        b"capture-wrap: CNI_CAPTURE_LOCK_TIMEOUT: 'soon' is not a number of seconds from 0 to 60; ignored; not recorded"
    )
    assert both in plugins.wrapped("demo", env=bad).stderr


def test_trouble_with_the_log_is_not_mixed_into_a_plugins_failure(plugins: Plugins, tmp_path: Path) -> None:
    """Without stdout, stderr is the message that the user gets: there it is the plugin's alone."""
    plugins.add("demo", "cat >/dev/null; echo err >&2; exit 1")
    assert Gone(1, b"", b"err\n") == plugins.wrapped("demo", env={**PATH, "CNI_CAPTURE_LOG_FILE": str(tmp_path)})


def test_a_mistake_in_the_entry_is_answered_and_recorded(checkout: Plugins) -> None:
    """Error 7 with a hint, in the log that the entry names, with what the runtime had sent."""
    stdin = compact({"type": "capture-wrap", "capture": {"logFormat": "json"}, "cniVersion": "0.4.0"})
    error = {"code": 7, "msg": '"capture" has no "type" of a plugin to stand in for', "details": HINT}
    answer = checkout.node.execute(checkout.wrap, {**checkout.environ, **PATH}, stdin)
    assert Answer(1, json.dumps({"cniVersion": "0.4.0", **error}).encode()) == answer
    (record,) = checkout.node.records()
    assert ({"side": "entry", "error": error}, "input", stdin) == (told(record), record.what, record.body)
    assert b"{" == checkout.node.lines()[0][:1]


def test_what_is_no_configuration_is_answered_and_recorded(checkout: Plugins) -> None:
    """Error 6, as every probe answers it."""
    for stdin in (b"", b"{", b"\xff"):
        answer = checkout.node.execute(checkout.wrap, {**checkout.environ, **PATH}, stdin)
        assert (1, 6) == (answer.code, json.loads(answer.stdout)["code"])
    assert [b"", b"{", b"\xff"] == [record.body for record in checkout.node.records()]


def test_a_plugin_that_cannot_be_run_is_recorded_as_that(checkout: Plugins) -> None:
    """Entry with what it would have got, exit with the error in libcni's words; with a path where one was found."""
    checkout.add("demo", "", mode=0o644)
    for plugin, path, why in (
        ("missing", {}, f'failed to find plugin "missing" in path [/nowhere {checkout.folder}]'),
        (
            "demo",
            {"path": f"{checkout.folder}/demo"},
            f"netplugin failed with no error message: fork/exec {checkout.folder}/demo: permission denied",
        ),
    ):
        error = {"code": 999, "msg": why}
        assert Gone(1, json.dumps({"cniVersion": "1.0.0", **error}).encode()) == checkout.wrapped(plugin)
        entry, exit = checkout.node.records()[-2:]
        assert {"side": "entry", "plugin": plugin, **path} == told(entry)
        assert {"side": "exit", "plugin": plugin, **path, "error": error} == told(exit)
        assert {"cniVersion": "1.0.0", **error} == json.loads(exit.body)


@pytest.mark.parametrize(
    ("cni_path", "why"),
    [
        ("", "no paths provided"),
        ("relative:/a//b/../c/.", 'failed to find plugin "demo" in path [relative /a//b/../c/.]'),
        (":", 'failed to find plugin "demo" in path [ ]'),
    ],
)
def test_a_plugin_is_looked_for_as_libcni_does(checkout: Plugins, cni_path: str, why: str) -> None:
    """In CNI_PATH, in its order."""
    answer = checkout.wrapped("demo", env={"CNI_PATH": cni_path})
    assert (1, why) == (answer.status, json.loads(answer.stdout)["msg"])


def test_a_plugin_is_called_by_the_path_that_libcni_would_make(checkout: Plugins) -> None:
    """The first regular file of its name, whatever else has that name before it; the path is cleaned, as Go does."""
    checkout.add("demo", 'cat >/dev/null; echo "$0"')
    (checkout.folder / "first" / "demo").mkdir(parents=True)
    odd = f"{checkout.folder}/first:/../{checkout.folder}/./first//../"
    assert Gone(0, f"{checkout.folder}/demo\n".encode()) == checkout.wrapped("demo", env={**PATH, "CNI_PATH": odd})
    answer = checkout.wrapped("../demo")
    assert (1, "invalid plugin name: ../demo") == (answer.status, json.loads(answer.stdout)["msg"])
