"""`cni-capture splice` and `unsplice`: safe, reversible and boring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture.commands import main
from cni_capture.conf import splicing
from cni_capture.conf.backups import Backups, Left, digest
from tests.node import BIN, PROBES, PROGRAMS

BRIDGE = """{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge"
    }
  ]
}"""
STAY = (
    "cni-capture: the probes stay in the plugin directory: runtimes may call them for containers that started with "
    "them\n"
)

Run = Callable[..., tuple[int, str, str]]


class Node:
    """A folder of networks, and what the commands say of it."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.conf_dir = folder / "net.d"
        self.conf_dir.mkdir()
        self.state = folder / "state"
        self.bin = BIN
        self.log = folder / "cni.log"
        self._capfd = capfd

    def put(self, name: str, text: str) -> Path:
        path = self.conf_dir / name
        path.write_text(text)
        return path

    def words(self, verb: str, *options: str | Path) -> list[str]:
        log = ["--log-file", self.log, "--lock-file", self.log.with_suffix(".lock")] if verb == "splice" else []
        where = ["--conf-dir", self.conf_dir, "--state-dir", self.state]
        where += ["--cni-bin", self.bin] if verb == "splice" else []
        return [verb, *map(str, (*where, *log, *options))]

    def run(self, verb: str, *options: str | Path) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self._capfd.readouterr()
        return main(self.words(verb, *options)), *self._capfd.readouterr()

    def entry(self, probe: str, settings: str = "") -> str:
        paths = f'"logFile": "{self.log}", "lockFile": "{self.log.with_suffix(".lock")}"'
        return f'{{"type": "{probe}", "logFormat": "json", {paths}{settings}}}'

    def spliced(self, settings: str = "") -> str:
        pre, post = (self.entry(probe, settings) for probe in PROBES)
        middle = '{\n      "type": "bridge"\n    }'
        return BRIDGE.replace(middle, f"{pre},\n    {middle},\n    {post}")


@pytest.fixture
def node(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path, capfd)


def test_the_first_network_by_name_is_spliced_and_comes_back(node: Node) -> None:
    """What is broken or no network is passed over; what comes later is not touched; the bytes are what they were."""
    node.put("00-broken.conflist", BRIDGE[:40])
    node.put("05-list.conf", BRIDGE)
    last = node.put("99-last.conflist", BRIDGE)
    path = node.put("10-pods.conflist", BRIDGE)
    said = f"spliced {path}: capture-pre bridge capture-post\n"
    assert (0, said, "") == node.run("splice")
    assert node.spliced() == path.read_text()
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert (BRIDGE, BRIDGE) == (path.read_text(), last.read_text())
    assert (0, "", f"cni-capture: no probes in {node.conf_dir}\n") == node.run("unsplice")


def test_splicing_again_with_other_settings_replaces_the_entries(node: Node) -> None:
    """And with the same it writes nothing, which no runtime notices; the way back leads to the first bytes."""
    path = node.put("10-pods.conflist", BRIDGE)
    node.run("splice", "--interfaces")
    assert node.spliced(', "interfaces": true') == path.read_text()
    node.run("splice", "--label", "x")
    assert node.spliced(', "label": "x"') == path.read_text()
    before = path.stat()
    said = f"cni-capture: {path} is spliced like this already\n"
    assert (0, "", said) == node.run("splice", "--label", "x")
    assert before == path.stat()
    node.run("unsplice", path)
    assert BRIDGE == path.read_text()


def test_every_setting_has_an_option(node: Node) -> None:
    """They stand in the entries as the probes read them."""
    path = node.put("10-pods.conflist", BRIDGE)
    node.run(
        *("splice", "--log-format", "text", "--lock-timeout", "1.5", "--max-size", "10", "--max-backups", "2"),
        *("--interfaces", "--redact", "mine", "--redact", "yours", "--label", "x", "--around", "bridge"),
    )
    pre, _, _ = json.loads(path.read_text())["plugins"]
    expected = {
        "type": "capture-pre",
        "logFormat": "text",
        "logFile": str(node.log),
        "lockFile": str(node.log.with_suffix(".lock")),
        "lockTimeout": 1.5,
        "logOptions": {"maxSize": 10.0, "maxBackups": 2},
        "interfaces": True,
        "redact": ["mine", "yours"],
        "label": "x",
    }
    assert expected == pre
    node.run("splice", "--no-redact", "--each")
    pre, _, _ = json.loads(path.read_text())["plugins"]
    assert (False, "bridge") == (pre["redact"], pre["label"])


def test_what_was_changed_since_keeps_its_changes(node: Node) -> None:
    """Only our entries go, when somebody has edited the file after the splice."""
    path = node.put("10-pods.conflist", BRIDGE)
    node.run("splice")
    path.write_text(path.read_text().replace('"pods"', '"mine"'))
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert BRIDGE.replace('"pods"', '"mine"') == path.read_text()


def test_what_another_edition_has_left_comes_back_from_its_backup(node: Node) -> None:
    """However that one may have made a list of a single plugin."""
    text = '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}'
    path = node.put("10-pods.conflist", node.spliced())
    left = Left(str(path), str(path.with_suffix(".json")), digest(path.read_bytes()), "2026-11-30T18:40:28Z")
    Backups(node.state).keep(left, text.encode())
    assert (0, f"unspliced {left.source}\n", STAY) == node.run("unsplice")
    assert (["10-pods.json"], text) == (os.listdir(node.conf_dir), Path(left.source).read_text())


def test_the_backup_is_the_file_itself_outside_of_the_folder(node: Node) -> None:
    """With the user's own name and bytes, for who has no cni-capture at hand; gone when it is no longer needed."""
    path = node.put("10-pods.conflist", BRIDGE)
    node.run("splice")
    (backup,) = node.state.rglob("10-pods.conflist")
    assert (BRIDGE, [path.name]) == (backup.read_text(), os.listdir(node.conf_dir))
    node.run("unsplice")
    assert ([], []) == (list(node.state.rglob("10-*")), list(Backups(node.state).all()))


@pytest.mark.parametrize("suffix", [".conf", ".json"])
def test_the_file_of_a_single_plugin_becomes_a_list_and_back(node: Node, suffix: str) -> None:
    """The list takes its place; the old file must not stay, as it would come first or be a second network."""
    text = '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}\n'
    path = node.put(f"10-pods{suffix}", text)
    node.put("20-last.conflist", BRIDGE)
    target = path.with_suffix(".conflist")
    assert (0, f"spliced {target}: capture-pre bridge capture-post\n", "") == node.run("splice")
    pre, post = (node.entry(probe) for probe in PROBES)
    assert (0, "", f"cni-capture: {target} is spliced like this already\n") == node.run("splice", path)
    list_ = f'{{"cniVersion": "0.3.1", "name": "pods", "plugins": [\n{pre},\n{text[:-1]},\n{post}\n\n]}}\n'
    assert ({target.name, "20-last.conflist"}, list_) == (set(os.listdir(node.conf_dir)), target.read_text())
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice", path)
    assert ({path.name, "20-last.conflist"}, text) == (set(os.listdir(node.conf_dir)), path.read_text())


CHAIN = """{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {"type": "bridge", "ipam": {"type": "host-local"}},
    {"type": "portmap"}
  ]
}"""


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        (["--wrap", "bridge"], "capture-wrap(bridge) portmap"),
        (["--wrap", "bridge", "--wrap", "portmap"], "capture-wrap(bridge) capture-wrap(portmap)"),
        (["--wrap-all"], "capture-wrap(bridge) capture-wrap(portmap)"),
        (["--wrap", "bridge", "--ipam"], "capture-wrap(bridge)+capture-wrap(host-local) portmap"),
        (["--wrap-all", "--ipam"], "capture-wrap(bridge)+capture-wrap(host-local) capture-wrap(portmap)"),
        (["--ipam"], "bridge+capture-wrap(host-local) portmap"),
    ],
)
def test_plugins_are_wrapped_and_come_back(node: Node, options: list[str], titles: str) -> None:
    """With or without what is in the state directory; a pair that was there before goes, and so does a wrap for one."""
    path = node.put("10-pods.conflist", CHAIN)
    node.run("splice")
    assert (0, f"spliced {path}: {titles}\n", "") == node.run("splice", *options)
    wrapped = path.read_text()
    assert (0, "", f"cni-capture: {path} is spliced like this already\n") == node.run("splice", *options)
    assert (0, f"spliced {path}: capture-pre bridge portmap capture-post\n", "") == node.run("splice")
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert CHAIN == path.read_text()
    path.write_text(wrapped)
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert CHAIN == path.read_text()


def test_a_wrap_stands_in_the_entry_of_its_plugin(node: Node) -> None:
    """As diff -u shows it: the type changes, and one line is new."""
    path = node.put("10-pods.conflist", BRIDGE)
    capture = node.entry("bridge", ', "label": "x"')
    expected = f"""\
--- {path}
+++ {path}
@@ -3,7 +3,8 @@
   "name": "pods",
   "plugins": [
     {{
-      "type": "bridge"
+      "type": "capture-wrap",
+      "capture": {capture}
     }}
   ]
 }}
\\ No newline at end of file
"""
    assert (0, expected, "") == node.run("splice", "--wrap", "bridge", "--label", "x", "--dry-run")
    assert BRIDGE == path.read_text()


@pytest.mark.parametrize("suffix", [".conf", ".json"])
@pytest.mark.parametrize("state", ["known", "lost"])
def test_the_file_of_a_single_plugin_is_wrapped_in_place(node: Node, suffix: str, state: str) -> None:
    """It needs no list: the same file and the same name, there and back; a pair instead makes a list of it."""
    text = '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}\n'
    path = node.put(f"10-pods{suffix}", text)
    assert (0, f"spliced {path}: capture-wrap(bridge)\n", "") == node.run("splice", "--wrap", "bridge")
    wrapped = text.replace('"bridge"', f'"capture-wrap", "capture": {node.entry("bridge")}')
    assert ([path.name], wrapped) == (os.listdir(node.conf_dir), path.read_text())
    if state == "lost":
        shutil.rmtree(node.state)
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert ([path.name], text) == (os.listdir(node.conf_dir), path.read_text())


def test_the_file_of_a_single_plugin_goes_from_wrap_to_pair_and_back(node: Node) -> None:
    """A list stays a list while it is ours; afterwards it is the first file, and nothing is kept of it."""
    text = '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}\n'
    path = node.put("10-pods.json", text)
    target = path.with_suffix(".conflist")
    node.run("splice", "--wrap-all")
    assert (0, f"spliced {target}: capture-pre bridge capture-post\n", "") == node.run("splice")
    assert [target] == [Path(left.path) for left in Backups(node.state).all()]
    assert (0, f"spliced {target}: capture-wrap(bridge)\n", "") == node.run("splice", "--wrap-all", path)
    assert [target.name] == os.listdir(node.conf_dir)
    assert (0, f"unspliced {path}\n", STAY) == node.run("unsplice")
    assert ([path.name], text, []) == (os.listdir(node.conf_dir), path.read_text(), list(Backups(node.state).all()))


def test_a_single_plugin_that_its_owner_has_put_there_again_stays(node: Node) -> None:
    """Unsplicing removes our list, and does not put an old version over the new."""
    path = node.put("10-pods.conf", '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}')
    node.run("splice")
    new = '{"cniVersion": "0.3.1", "name": "pods", "type": "ptp"}'
    path.write_text(new)
    node.run("unsplice")
    assert ([path.name], new) == (os.listdir(node.conf_dir), path.read_text())


@pytest.mark.parametrize(
    ("other", "message", "hint"),
    [
        ("10-pods.conflist", "which is there already", "remove the one that is not needed"),
        ("10-pods.conf.json", "and 10-pods.conf.json would come in another order then", "rename 10-pods.conf.json"),
    ],
)
def test_a_single_plugin_stays_when_its_list_has_no_place(node: Node, other: str, message: str, hint: str) -> None:
    """Another file has the name, or would come before it by name."""
    path = node.put("10-pods.conf", '{"cniVersion": "0.3.1", "name": "pods", "type": "bridge"}')
    node.put(other, BRIDGE)
    said = f"cni-capture: {path} has to become 10-pods.conflist, {message}\nhint: {hint}\n"
    assert (2, "", said) == node.run("splice", path)
    assert {path.name, other} == set(os.listdir(node.conf_dir))


def test_a_dry_run_prints_what_would_change(node: Node) -> None:
    """As diff -u, and nothing at all is written."""
    path = node.put("10-pods.conflist", BRIDGE)
    pre, post = (node.entry(probe) for probe in PROBES)
    expected = f"""\
--- {path}
+++ {path}
@@ -2,8 +2,10 @@
   "cniVersion": "1.0.0",
   "name": "pods",
   "plugins": [
+    {pre},
     {{
       "type": "bridge"
-    }}
+    }},
+    {post}
   ]
 }}
\\ No newline at end of file
"""
    assert (0, expected, "") == node.run("splice", "--dry-run")
    assert (BRIDGE, False, False) == (path.read_text(), node.state.exists(), node.log.exists())
    node.run("splice")
    code, diff, _ = node.run("unsplice", "--dry-run")
    assert (0, True, node.spliced()) == (code, f"-    {pre},\n" in diff, path.read_text())


def _refused(node: Node, *options: str | Path) -> tuple[str, str]:
    """What splice says when it refuses; the folder is as it was."""
    before = {path: path.read_bytes() for path in node.conf_dir.iterdir()}
    code, stdout, stderr = node.run("splice", *options)
    assert (2, "") == (code, stdout)
    assert before == {path: path.read_bytes() for path in node.conf_dir.iterdir()}
    message, hint = stderr.splitlines()
    return message.removeprefix("cni-capture: "), hint.removeprefix("hint: ")


def test_missing_probes_are_noticed_before_anything_is_written(node: Node, tmp_path: Path) -> None:
    """Else no pod could start."""
    node.put("10-pods.conflist", BRIDGE)
    node.bin = tmp_path / "bin"
    node.bin.mkdir()
    hint = f"cni-capture install --cni-bin {node.bin}, or say with --cni-bin where the runtime finds plugins"
    assert (f"there is no capture-pre in {node.bin}", hint) == _refused(node)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("#!/bin/sh\n", 0o644, "does not run: [Errno 13] Permission denied"),
        ("#!/no/such/python\n", 0o755, "does not run: [Errno 2] No such file or directory"),
        ("#!/bin/sh\nexit 3\n", 0o755, "did not answer VERSION: exit status 3"),
        ('#!/bin/sh\necho \'{"supportedVersions": ["0.1.0"]}\'\n', 0o755, "did not answer VERSION: exit status 0"),
    ],
)
def test_probes_that_do_not_run_are_noticed(node: Node, tmp_path: Path, content: str, mode: int, message: str) -> None:
    """Run bits, interpreter, answer: both are asked for VERSION."""
    node.put("10-pods.conflist", BRIDGE)
    node.bin = tmp_path / "bin"
    node.bin.mkdir()
    (node.bin / "capture-pre").symlink_to(BIN / "capture-pre")
    (node.bin / "capture-post").write_text(content)
    (node.bin / "capture-post").chmod(mode)
    assert f"{node.bin}/capture-post {message}" in _refused(node)[0]


@pytest.mark.parametrize(("option", "program"), [("--wrap-all", "capture-wrap"), ("--each", "capture-post")])
def test_only_what_runtimes_will_call_must_be_there(node: Node, tmp_path: Path, option: str, program: str) -> None:
    """A wrap needs no pair, and a pair no wrap."""
    node.put("10-pods.conflist", BRIDGE)
    node.bin = tmp_path / "bin"
    node.bin.mkdir()
    for name in {*PROGRAMS} - {program}:
        (node.bin / name).symlink_to(BIN / name)
    assert f"there is no {program} in {node.bin}" == _refused(node, option)[0]
    (node.bin / program).symlink_to(BIN / program)
    for name in {"--wrap-all": PROBES, "--each": ["capture-wrap"]}[option]:
        (node.bin / name).unlink()
    assert 0 == node.run("splice", option)[0]


def test_a_wrap_that_cannot_be_undone_is_refused(node: Node) -> None:
    """By splice and by unsplice: only its author knows what it stands in for."""
    path = node.put("10-pods.conflist", BRIDGE.replace("bridge", "capture-wrap"))
    message = f'{path}, plugin 1: no object "capture" that names the plugin to stand in for'
    hint = 'to stand in for a bridge, {"type": "capture-wrap", "capture": {"type": "bridge"}, ...}'
    assert (message, hint) == _refused(node)
    assert (2, "", f"cni-capture: {message}\nhint: {hint}\n") == node.run("unsplice")


def test_a_version_that_the_probes_do_not_speak_is_refused(node: Node) -> None:
    """They would answer with an error."""
    path = node.put("10-pods.conflist", BRIDGE.replace("1.0.0", "0.5.0"))
    expected = (f"{path}: cniVersion 0.5.0", "the probes speak 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0")
    assert expected == _refused(node)


def test_a_log_that_cannot_be_written_is_refused(node: Node, tmp_path: Path) -> None:
    """It is tried in the way of the probes: a link is none of theirs."""
    node.put("10-pods.conflist", BRIDGE)
    node.log.symlink_to(tmp_path / "elsewhere")
    message = f"the probes could not write their log: not recorded: {node.log} is a symbolic link"
    assert (message, "choose another with --log-file") == _refused(node)


def test_a_log_where_runtimes_watch_is_refused(node: Node) -> None:
    """CRI-O calls every plugin at every record, each of which it would find recorded."""
    node.put("10-pods.conflist", BRIDGE)
    node.log = node.conf_dir / "cni.log"
    expected = (f"{node.log}: runtimes watch {node.conf_dir}", "keep log and lock file somewhere else")
    assert expected == _refused(node)


def test_a_setting_of_no_use_is_refused(node: Node) -> None:
    """The probes would complain at every call, and use the default."""
    node.put("10-pods.conflist", BRIDGE)
    node.log = Path("cni.log")
    expected = ("logFile: 'cni.log' is not an absolute path", "cni-capture splice --help says what they may be")
    assert expected == _refused(node)


def test_a_probe_in_a_harmful_first_place_takes_force(node: Node) -> None:
    """The reason and another way are named; nothing hinders who knows better."""
    path = node.put("10-pods.conflist", BRIDGE.replace("bridge", "cilium-cni"))
    reason = "behind a probe cilium-cni refuses to run: CNI PrevResult supplied, but not in chaining mode"
    hint = "wrap it: --wrap cilium-cni; --force does it all the same"
    assert (f"{path}: {reason}", hint) == _refused(node)
    assert (0, f"spliced {path}: capture-pre cilium-cni capture-post\n", "") == node.run("splice", "--force")
    assert (0, f"spliced {path}: capture-wrap(cilium-cni)\n", "") == node.run("splice", "--wrap", "cilium-cni")


def test_a_link_is_not_followed(node: Node, tmp_path: Path) -> None:
    """The file behind it is in a folder that no runtime watches, and replacing the link would part them."""
    (tmp_path / "real").write_text(BRIDGE)
    path = node.conf_dir / "10-pods.conflist"
    path.symlink_to("../real")
    expected = (f"{path} is a symbolic link to ../real", "put a copy of that file in its place first")
    assert expected == _refused(node)


@pytest.mark.parametrize(
    "text", [BRIDGE.replace("[", "[ // mine\n"), "", '{"name": "x"}', '{"name": "x", "type": "a"}']
)
def test_what_is_no_conflist_is_refused(node: Node, text: str) -> None:
    """One line with the path, and a hint."""
    path = node.put("10-pods.conflist", text)
    message, hint = _refused(node, path)
    assert (True, True) == (message.startswith(str(path)), bool(hint))


@pytest.mark.parametrize(
    "options",
    [
        ["--around", "bridge", "--each"],
        ["--around", "bridge", "--wrap"],
        ["--around", "bridge", "--wrap-all"],
        ["--around", "bridge", "--ipam"],
        ["--each", "--wrap"],
        ["--each", "--wrap-all"],
        ["--each", "--ipam"],
        ["--wrap", "bridge", "--wrap-all"],
        ["--label", "x", "--each"],
        ["--label", "x", "--wrap-all"],
        ["--redact", "x", "--no-redact"],
    ],
)
def test_options_that_exclude_each_other_are_a_usage_error(node: Node, options: list[str]) -> None:
    """Exit code 2, and nothing done."""
    node.put("10-pods.conflist", BRIDGE)
    code, stdout, stderr = node.run("splice", *options, *(["x"] if options[-1] == "--wrap" else []))
    expected = f"Error: {options[0]} and {options[-1]} exclude each other"
    assert (2, "", expected) == (code, stdout, stderr.splitlines()[-1])


def test_a_file_that_is_not_in_use_is_spliced_with_a_warning(node: Node) -> None:
    """podman uses them all; the others only the first."""
    first, path = node.put("10-pods.conflist", BRIDGE), node.put("20-more.conflist", BRIDGE)
    said = f"cni-capture: containerd and CRI-O use {first}, which comes first by name\n"
    assert (0, f"spliced {path}: capture-pre bridge capture-post\n", said) == node.run("splice", path)


def test_splices_wait_for_each_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight at once, with settings of their own: one of them is the last, and the way back is still there."""
    path = node.put("10-pods.conflist", BRIDGE)
    commands = [
        [sys.executable, "-m", "cni_capture", *node.words("splice", "--label", f"{number}")] for number in range(8)
    ]
    running = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for words in commands]
    assert [0] * 8 == [each.wait(60) for each in running]
    assert path.read_text() in [node.spliced(f', "label": "{number}"') for number in range(8)]
    node.run("unsplice")
    assert BRIDGE == path.read_text()


def test_who_waits_too_long_is_told_for_what(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of another splice is named."""
    import filelock

    node.put("10-pods.conflist", BRIDGE)
    node.state.mkdir()
    monkeypatch.setattr(splicing, "_LOCK_SECONDS", 0.2)
    with filelock.FileLock(node.state / "lock"):
        expected = (f"another splice has held {node.state}/lock for 0.2 s", "wait for it, or end it")
        assert expected == _refused(node)


def test_the_plugin_directory_is_where_the_plugins_are(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --cni-bin: the first of the usual ones that has a plugin of this network; ours do not count."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, PROGRAMS), (second, ("bridge",))):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    monkeypatch.setattr(splicing, "PLUGIN_DIRS", (first, second))
    for text in (BRIDGE, BRIDGE.replace('"bridge"', '"capture-wrap", "capture": {"type": "bridge"}')):
        path = node.put("10-pods.conflist", text)
        assert 2 == main(["splice", f"--conf-dir={node.conf_dir}", f"--state-dir={node.state}", str(path)])
        assert f"there is no capture-pre in {second}" in node._capfd.readouterr().err
