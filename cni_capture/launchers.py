"""The probes as they are installed: a launcher each in the plugin directory, and their code in a folder of its own.

    PREFIX/probes/<version>-<hash>/   cni_capture/, netifaces/; `hot-*`: what every call needs, precompiled, in one file
    CNI_BIN/capture-pre, ...          a launcher with an absolute interpreter, that names this folder

Nothing in place is ever changed: an upgrade makes a new folder and then renames new launchers over the old. A call that
began with the old ones ends with them, and never sees half of each.
"""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import importlib.util
import itertools
import json
import marshal
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import cni_capture
from cni_capture.errors import UserError
from cni_capture.reply import SUPPORTED

_PROGRAMS = {"capture-pre": "probe", "capture-post": "probe", "capture-wrap": "wrap"}

# What every call needs, in the order in which the modules import each other; the rest is imported where it is needed.
_EVERY_CALL = ("call", "reply", "record", "settings", "log", "capture", "process")
_HOT = {"probe": (*_EVERY_CALL, "probe"), "wrap": (*_EVERY_CALL, "libc", "standin", "plugin", "wrap")}
_NOW_AND_THEN = ("byhand", "interfaces", "redact", "remote", "repair", "rotate", "walk")

_MARK = "# Installed by cni-capture, which also removes it: cni-capture uninstall"

# -I -S: only the standard library, whatever PYTHON* variables a runtime has. -OO: no docstrings to load.
# The path is turned round because the few extension modules that are needed stand last on it, behind a large folder.
_LAUNCHER = """\
#!{interpreter} -ISOO
{mark}
import sys
from _io import FileIO
from marshal import loads

sys.path[:] = [{folder!r}, *reversed(sys.path)]
load, modules = loads(FileIO({hot!r}).read())
exec(load)
sys.modules["cni_capture.{module}"].main({probe!r})
"""

# Runs in the launcher: a package and its modules out of their code, as importing them one by one would have made them.
_LOAD = """\
for name, code in modules.items():
    module = sys.modules[name] = type(sys)(name)
    module.__package__ = "cni_capture"
    if name == "cni_capture":
        package = module
        package.__path__ = [sys.path[0] + "/cni_capture"]
    else:
        setattr(package, name[12:], module)
    exec(code, module.__dict__)
"""


def install(prefix: Path, cni_bin: Path) -> list[Path]:
    """Put the probes' code under `prefix` and their launchers into `cni_bin`; return the launchers.

    Each launcher has answered VERSION before it takes its place. Raises UserError.
    """
    interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if " " in interpreter or len(interpreter) > 100:  # Linux cuts the line at 127 bytes before 5.1, and at blanks
        raise UserError(
            f"{interpreter}: a script cannot name this interpreter",
            hint="install with a Python in a shorter path without blanks",
        )
    try:
        folder = _place_code(prefix / "probes")
        cni_bin.mkdir(parents=True, exist_ok=True)
        placed = [_place_launcher(probe, cni_bin, folder, interpreter) for probe in _PROGRAMS]
        _remove_older(folder)
        return placed
    except OSError as error:
        raise UserError(
            f"{error.filename or prefix}: {error.strerror}", hint="install as root, or choose --prefix and --cni-bin"
        ) from error


def uninstall(prefix: Path, cni_bin: Path) -> list[Path]:
    """Remove the launchers from `cni_bin` and the code under `prefix`; return what was removed. Raises UserError."""
    removed = []
    try:
        for probe in _PROGRAMS:
            launcher = cni_bin / probe
            if not launcher.exists():
                continue
            if _MARK.encode() not in launcher.read_bytes():
                raise UserError(f"{launcher} is not a launcher of ours", hint="remove it by hand if it is not needed")
            launcher.unlink()
            removed.append(launcher)
        code = prefix / "probes"
        if code.is_dir():
            shutil.rmtree(code)
            removed.append(code)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}", hint="uninstall as root") from error
    return removed


def check(launcher: Path) -> None:
    """Ask a launcher for its VERSION, as a runtime does. Raises UserError when the answer is not ours."""
    try:
        answer = subprocess.run(
            [launcher], env={"CNI_COMMAND": "VERSION"}, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        supported = json.loads(answer.stdout)["supportedVersions"] if answer.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise UserError(f"{launcher} does not run: {error}", hint="is its folder mounted noexec?") from error
    if supported != list(SUPPORTED):
        words = (answer.stderr or answer.stdout).decode(errors="replace").strip().splitlines()
        raise UserError(
            f"{launcher} did not answer VERSION: exit status {answer.returncode}{', ' + words[-1] if words else ''}",
            hint="does its interpreter run by hand, with -I -S?",
        )


def _place_code(probes: Path) -> Path:
    """The folder with the probes' code, made if it is not there."""
    probes.mkdir(parents=True, exist_ok=True)
    with _temporary_folder(probes) as made:
        _copy_modules(made)
        for module, needed in _HOT.items():
            (made / f"hot-{module}").write_bytes(_hot(made / "cni_capture", needed))
        compileall.compile_dir(
            made, quiet=1, optimize=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        folder = probes / f"{cni_capture.__version__}-{_hash(made)}"
        if not folder.exists():
            made.chmod(0o755)
            made.rename(folder)
    return folder


def _remove_older(folder: Path) -> None:
    """Remove the code that no launcher names any more, but the last: a call may be at work in it."""
    others = (path for path in folder.parent.glob("[!.]*") if path != folder)
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-1]:
        shutil.rmtree(path)


def _copy_modules(folder: Path) -> None:
    package = Path(cni_capture.__file__).parent
    (folder / "cni_capture").mkdir()
    for name in dict.fromkeys(("__init__", *itertools.chain(*_HOT.values()), *_NOW_AND_THEN)):
        shutil.copyfile(package / f"{name}.py", folder / "cni_capture" / f"{name}.py")
    for name in ("netifaces", "_netifaces"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise UserError(f"the package {name} is missing", hint="pip install netifaces-plus")
        if found.submodule_search_locations:
            shutil.copytree(Path(found.origin).parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found.origin, folder)


def _hot(package: Path, needed: Sequence[str]) -> bytes:
    modules = {}
    for name in ("__init__", *needed):
        source = package / f"{name}.py"
        full_name = "cni_capture" if name == "__init__" else f"cni_capture.{name}"
        modules[full_name] = compile(source.read_text(), f"cni_capture/{name}.py", "exec", optimize=2)
    return marshal.dumps((compile(_LOAD, "load", "exec", optimize=2), modules))


def _hash(folder: Path) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in [*sorted(folder.rglob("*.py")), *sorted(folder.glob("hot-*"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _place_launcher(probe: str, cni_bin: Path, folder: Path, interpreter: str) -> Path:
    module = _PROGRAMS[probe]
    hot = str(folder / f"hot-{module}")
    text = _LAUNCHER.format(
        interpreter=interpreter, mark=_MARK, folder=str(folder), hot=hot, module=module, probe=probe
    )
    # Beside its place, since only there can it be renamed; hidden, so that no runtime takes it for a plugin.
    fd, name = tempfile.mkstemp(prefix=f".{probe}.", dir=cni_bin)
    new = Path(name)
    try:
        with open(fd, "w") as file:
            file.write(text)
        new.chmod(0o755)
        check(new)
        new.rename(cni_bin / probe)
    finally:
        new.unlink(missing_ok=True)
    check(cni_bin / probe)
    return cni_bin / probe


@contextlib.contextmanager
def _temporary_folder(where: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
