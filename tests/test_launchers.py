"""The probes as they are installed: put in place whole, replaced whole, and removed with nothing left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cni_capture import __version__, launchers
from cni_capture.errors import UserError
from tests.node import PROGRAMS, Answer, Node
from tests.pythons import CHECKOUT, SYSTEM

CALL = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "x"}
REPLY = Answer(0, b'{"cniVersion": "0.1.0"}')


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def _code(tmp_path: Path) -> list[Path]:
    """The folders of code, the oldest first."""
    return sorted((tmp_path / "prefix" / "probes").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def _edition(tmp_path: Path, number: int, module: str, line: str) -> str:
    """Install another edition of the package, with one more `line` in `module`; return what that said."""
    package = tmp_path / f"edition{number}" / "cni_capture"
    shutil.copytree(CHECKOUT / "cni_capture", package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / module).open("a") as source:
        source.write(f"{line}\n")
    places = ["--prefix", str(tmp_path / "prefix"), "--cni-bin", str(tmp_path / "bin")]

    command = [sys.executable, "-m", "cni_capture", "install", *places]
    done = subprocess.run(command, cwd=package.parent, capture_output=True, text=True, timeout=60)
    return f"{done.stdout}{done.stderr}"


def test_an_installation_is_three_launchers_and_their_code(tmp_path: Path) -> None:
    """The plugin directory gets three executables that anybody may run, and nothing else; the code has its folder."""
    placed = launchers.install(tmp_path / "prefix", tmp_path / "bin")
    assert [tmp_path / "bin" / probe for probe in PROGRAMS] == placed
    assert set(PROGRAMS) == _files(tmp_path / "bin")
    assert [0o755] * 3 == [stat.S_IMODE(path.stat().st_mode) for path in placed]
    (code,) = _code(tmp_path)
    assert (True, 0o755) == (code.name.startswith(f"{__version__}-"), stat.S_IMODE(code.stat().st_mode))
    first = placed[0].read_text().splitlines()[0]
    assert f"#!{os.path.realpath(sys.executable)} -ISOO" == first


def test_a_launcher_does_all_that_a_call_can_ask_of_it(node: Node, installed: Callable[[str], Path]) -> None:
    """Secrets, rotation, a torn record, deep nesting: whatever is imported only then was installed as well."""
    launcher = installed(SYSTEM) / "capture-pre"
    node.environ["CNI_CAPTURE_LOG_FORMAT"] = "json"
    assert REPLY == node.execute([launcher], CALL, b'{"token": "s3cret", "logOptions": {"maxSize": 1}}')
    with node.log.open("ab") as log:
        log.write(node.log.read_bytes()[:100])
    answer = Answer(0, REPLY.stdout, b"capture-pre: removed a torn record of 100 bytes; hint: cni-capture doctor\n")
    assert answer == node.execute([launcher], CALL, b'{"a":' + b"[" * 9_999 + b"]" * 9_999 + b"}")
    assert REPLY == node.execute([launcher], CALL, b'{"logOptions": {"maxSize": 1e-6}}')
    rotated = Path(f"{node.log}.1").read_bytes()
    assert (2, 1, b"s3cret" in rotated) == (rotated.count(b"\n"), len(node.lines()), False)


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    """The same code has the same folder."""
    launchers.install(tmp_path / "prefix", tmp_path / "bin")
    before = _files(tmp_path)
    launchers.install(tmp_path / "prefix", tmp_path / "bin")
    assert before == _files(tmp_path)


def test_an_upgrade_leaves_the_calls_in_flight_their_code(node: Node, tmp_path: Path) -> None:
    """The code before the last one is there still, for who began with it; older code is gone."""
    (tmp_path / "kept").mkdir()
    for number in range(3):
        expected = "".join(f"installed {tmp_path}/bin/{probe}\n" for probe in PROGRAMS)
        assert expected == _edition(tmp_path, number, "reply.py", f"EDITION = {number}")
        shutil.copy(tmp_path / "bin" / "capture-pre", tmp_path / "kept" / str(number))
    assert 2 == len(_code(tmp_path))
    answers = [node.execute([tmp_path / "kept" / str(number)], CALL) for number in range(3)]
    assert [1, 0, 0] == [answer.code for answer in answers]
    assert set(PROGRAMS) == _files(tmp_path / "bin")


def test_a_launcher_that_does_not_run_never_takes_its_place(node: Node, tmp_path: Path) -> None:
    """Installing broken code is refused in one line, and the launchers of before go on."""
    launchers.install(tmp_path / "prefix", tmp_path / "bin")
    what, hint = _edition(tmp_path, 1, "probe.py", "raise SystemExit('broken')").splitlines()
    assert what.startswith(f"cni-capture: {tmp_path}/bin/")
    assert what.endswith(" did not answer VERSION: exit status 1, broken")
    assert hint.startswith("hint: does its interpreter run by hand, with -I -S?")
    assert REPLY == node.execute([tmp_path / "bin" / "capture-pre"], CALL)
    assert set(PROGRAMS) == _files(tmp_path / "bin")


def test_no_number_of_failed_upgrades_takes_the_code_from_the_launchers(node: Node, tmp_path: Path) -> None:
    """Code goes when launchers have taken the place of those that need it, not before."""
    launchers.install(tmp_path / "prefix", tmp_path / "bin")
    for number in range(3):
        _edition(tmp_path, number, "probe.py", f"raise SystemExit({number + 1})")
    assert REPLY == node.execute([tmp_path / "bin" / "capture-pre"], CALL)


def test_uninstalling_leaves_nothing(tmp_path: Path) -> None:
    """Launchers and code are gone, and named; another time there is nothing to do."""
    prefix, cni_bin = tmp_path / "prefix", tmp_path / "bin"
    placed = launchers.install(prefix, cni_bin)
    assert [*placed, prefix / "probes"] == launchers.uninstall(prefix, cni_bin)
    assert (set(), []) == (_files(tmp_path), launchers.uninstall(prefix, cni_bin))


def test_uninstalling_never_removes_what_is_not_ours(tmp_path: Path) -> None:
    """A program of somebody else's under our name stays, and the user is told."""
    prefix, cni_bin = tmp_path / "prefix", tmp_path / "bin"
    launchers.install(prefix, cni_bin)
    (cni_bin / "capture-pre").write_text("#!/bin/sh\n")
    with pytest.raises(UserError) as caught:
        launchers.uninstall(prefix, cni_bin)
    assert (
        f"{cni_bin}/capture-pre is not a launcher of ours",
        "remove it by hand if it is not needed",
        "#!/bin/sh\n",
    ) == (caught.value.message, caught.value.hint, (cni_bin / "capture-pre").read_text())


def test_a_folder_with_any_name_will_do(node: Node, tmp_path: Path) -> None:
    """Blanks, quotes, braces and letters beyond ASCII in the prefix."""
    launchers.install(tmp_path / 'it\'s {a} "prefix" \\ é', tmp_path / "bin")
    assert REPLY == node.execute([tmp_path / "bin" / "capture-pre"], CALL)


@pytest.mark.parametrize("path", ["/a b/python3", "/" + "x" * 100])
def test_an_interpreter_that_no_script_can_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Linux cuts a script's first line at a blank, and at 127 bytes in older kernels: nothing is installed."""
    monkeypatch.setattr(sys, "_base_executable", path)
    with pytest.raises(UserError) as caught:
        launchers.install(tmp_path / "prefix", tmp_path / "bin")
    assert (f"{path}: a script cannot name this interpreter", set()) == (caught.value.message, _files(tmp_path))


@pytest.mark.parametrize("in_the_way", ["prefix", "bin"])
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, in_the_way: str) -> None:
    """A file where a folder should be: one line with its path, and no half of an installation in its other half."""
    (tmp_path / in_the_way).touch()
    with pytest.raises(UserError) as caught:
        launchers.install(tmp_path / "prefix", tmp_path / "bin")
    assert (str(tmp_path / in_the_way), "install as root, or choose --prefix and --cni-bin") == (
        caught.value.message.partition(":")[0].removesuffix("/probes"),
        caught.value.hint,
    )
