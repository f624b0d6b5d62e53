"""A conflist on a node, with the probes put in and taken out: checked, kept aside, saved whole, one at a time."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import filelock

from cni_capture import launchers, log
from cni_capture.call import DEFAULT_VERSION, read_config
from cni_capture.conf import confdir, conflist, probes
from cni_capture.conf.backups import Backups, Left, digest
from cni_capture.conf.confdir import loaded_bytes
from cni_capture.conf.objections import objections
from cni_capture.conf.plan import Plan
from cni_capture.conf.save import Changed, remove, save
from cni_capture.errors import UserError
from cni_capture.libcni.network import Network, Plugin
from cni_capture.reply import SUPPORTED
from cni_capture.settings import Settings, read_settings
from cni_capture.standin import WRAP

# Where runtimes look for plugins: upstream, Debian, Fedora.
PLUGIN_DIRS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
_LOCK_SECONDS = 10


@dataclass(frozen=True)
class Places:
    """Where things are on this node; `cni_bin` None: where the plugins of the conflist are."""

    conf_dir: Path = confdir.DEFAULT
    cni_bin: Path | None = None
    state: Path = Path("/var/lib/cni-capture")

    @property
    def backups(self) -> Backups:
        return Backups(self.state)


@dataclass(frozen=True)
class Change:
    """What is to become of a file: `new` at `path` instead of `old` at `source`; once `before`, out of `origin`."""

    source: Path
    path: Path
    old: bytes
    new: bytes
    before: bytes
    origin: Path

    @property
    def is_none(self) -> bool:
        return self.source == self.path and self.old == self.new


def splice(path: Path, plan: Plan, places: Places, *, force: bool = False) -> Change:
    """Put probes into the network in `path`. Raises UserError, and has then changed nothing."""
    with _alone(places):
        change = planned(path, plan, places, force=force)
        if not change.is_none:
            _check(change, plan, places)
            with _told(path):
                _commit(change, places.backups)
        return change


def planned(path: Path, plan: Plan, places: Places, *, force: bool = False) -> Change:
    """What splice() would do to the file. Raises UserError when it would refuse; `force` overrules objections."""
    path = _real(path)
    confdir.network(path)
    old = loaded_bytes(path)
    where = str(path)
    if not force:
        for reason, instead in objections(old, plan, where):
            raise UserError(f"{where}: {reason}", hint=instead)
    new = probes.splice(old, plan, where)
    target = path if conflist.is_single(new) else path.with_suffix(".conflist")
    with _told(path):
        left = places.backups.left(path)
        as_left = left is not None and left.digest == digest(old)
        before, origin = (places.backups.before(left), Path(left.source)) if left and as_left else (old, path)
        if target != path:
            _check_room(path, target, places)
    return Change(path, target, old, new, before, origin)


def unsplice(path: Path, places: Places) -> Change:
    """Take our entries out of `path`; if it is as we left it, it is afterwards what it was. Raises UserError."""
    with _alone(places):
        change = unplanned(path, places)
        with _told(path):
            if not change.is_none:
                _put(change)
            places.backups.drop(change.source)
        return change


def unplanned(path: Path, places: Places) -> Change:
    """What unsplice() would do to the file. Raises UserError when it would refuse."""
    path = _real(path)
    old = loaded_bytes(path)
    where = str(path)
    with _told(path):
        left = places.backups.left(path)
        as_left = left is not None and left.digest == digest(old)
        before, origin = (places.backups.before(left), Path(left.source)) if left and as_left else (old, path)
    new, single = probes.unsplice(before, where)
    if single:
        suffix = Path(left.source).suffix if left else ""
        origin = path.with_suffix(suffix if suffix in (".conf", ".json") else ".conf")
    return Change(path, origin, old, new, new, origin)


def plugin_dir(network: Network, places: Places) -> Path:
    """Where the runtime looks for this network's plugins: the first usual place that has one of them."""
    if places.cni_bin is not None:
        return places.cni_bin
    types = {_real_type(plugin) for plugin in network.plugins} - {*conflist.PROGRAMS, ""}
    return next((d for d in PLUGIN_DIRS if any((d / kind).exists() for kind in types)), PLUGIN_DIRS[0])


def _real_type(plugin: Plugin) -> str:
    """The plugin that an entry is about, wrapped or not; "" when a wrap names none."""
    if plugin.type != WRAP:
        return plugin.type
    capture = plugin.config.get("capture")
    return str(capture.get("type", "")) if isinstance(capture, dict) else ""


def watched(path: str, *folders: Path) -> Path | None:
    """The one of these folders that a file is in; at any change in those it watches, CRI-O calls every plugin."""
    parent = os.path.realpath(os.path.dirname(path))
    return next((folder for folder in folders if os.path.realpath(folder) == parent), None)


def settings_of(plan: Plan) -> Settings:
    """The settings of the probes of a plan. Raises UserError when one of them is of no use."""
    settings = read_settings(read_config(json.dumps(plan.settings).encode()), {})
    for complaint in settings.complaints:
        raise UserError(complaint.removesuffix("; ignored"), hint="cni-capture splice --help says what they may be")
    return settings


def _check(change: Change, plan: Plan, places: Places) -> None:
    """Refuse what would not record, or would fail calls. Raises UserError."""
    network = confdir.network(change.source)
    version = network.cni_version or DEFAULT_VERSION
    if version not in SUPPORTED:
        raise UserError(f"{change.source}: cniVersion {version}", hint=f"the probes speak {', '.join(SUPPORTED)}")
    plugins = plugin_dir(network, places)
    for probe in plan.programs:
        if not os.path.lexists(plugins / probe):
            raise UserError(
                f"there is no {probe} in {plugins}",
                hint=f"cni-capture install --cni-bin {plugins}, or say with --cni-bin where the runtime finds plugins",
            )
        launchers.check(plugins / probe)
    settings = settings_of(plan)
    for path in (settings.log_file, settings.lock_file):
        if folder := watched(path, change.path.parent, plugins):
            raise UserError(f"{path}: runtimes watch {folder}", hint="keep log and lock file somewhere else")
    # A record of no bytes, written as the probes write theirs.
    if trouble := log.write(settings, lambda why: []):
        raise UserError(f"the probes could not write their log: {trouble}", hint="choose another with --log-file")


def _check_room(path: Path, target: Path, places: Places) -> None:
    """A .conf is to become a .conflist: is the name free, and stays the order of the files the same?"""
    if target.exists() and not _is_made_of_single(target, places):
        raise UserError(
            f"{path} has to become {target.name}, which is there already", hint="remove the one that is not needed"
        )
    low, high = sorted((path.name, target.name))
    for other in confdir.files(path.parent):
        if low < other.name < high:
            raise UserError(
                f"{path} has to become {target.name}, and {other.name} would come in another order then",
                hint=f"rename {other.name}",
            )


def _is_made_of_single(target: Path, places: Places) -> bool:
    """Whether a .conflist is one that we have made of a .conf, by its form or, of another edition, by its digest."""
    data = loaded_bytes(target)
    left = places.backups.left(target)
    if left is not None and left.digest == digest(data):
        return left.source != left.path
    return conflist.has_probes(data) and probes.unsplice(data, str(target))[1]


def _commit(change: Change, backups: Backups) -> None:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    backups.keep(Left(str(change.path), str(change.origin), digest(change.new), now), change.before)
    _put(change)
    if change.source != change.path:
        backups.drop(change.source)


def _put(change: Change) -> None:
    """Old out, new in. Between the two steps of a change of name both files are there, each of them whole.

    Runtimes use the first by name: the .conf, until it is gone.
    """
    if change.source == change.path or not _rewritten(change):
        save(change.path, change.new, like=change.source, seen=change.old)
    if change.source != change.path:
        remove(change.source)


def _rewritten(change: Change) -> bool:
    """Whether the owner has put the .conf there again that we would put back: it is newer than what we know."""
    return change.path.suffix != ".conflist" and change.path.exists()


def watch_lock(folder: Path, places: Places) -> filelock.BaseFileLock:
    """What `cni-capture watch` holds on a folder of networks: a second one would undo the work of the first."""
    return filelock.FileLock(places.state / f"watch-{quote(os.fsencode(folder), safe='')}", blocking=False, mode=0o600)


def is_watched(path: Path, places: Places) -> bool:
    """Whether a `cni-capture watch` will put back what is taken out of a file. Raises OSError."""
    lock = watch_lock(path.parent, places)
    try:
        lock.acquire()
    except filelock.Timeout:
        return True
    lock.release()
    return False


@contextlib.contextmanager
def _alone(places: Places) -> Iterator[None]:
    """One splice at a time. Raises UserError."""
    lock = filelock.FileLock(places.state / "lock", timeout=_LOCK_SECONDS, mode=0o600)
    try:
        places.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(
            f"another splice has held {lock.lock_file} for {_LOCK_SECONDS} s", hint="wait for it, or end it"
        ) from None
    except OSError as error:
        raise UserError(
            f"{error.filename or places.state}: {error.strerror}", hint="splice as root, or choose another --state-dir"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except Changed:
        raise UserError(f"{path} was changed meanwhile", hint="try again; its owner is at work") from None
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}", hint="splice as root") from None


def _real(path: Path) -> Path:
    """The file with its folder's true path; for the .conf that was made a .conflist, that. Raises UserError.

    A link is not followed: runtimes watch this folder, not that of the file behind it.
    """
    path = Path(os.path.realpath(path.parent)) / path.name
    if path.is_symlink():
        raise UserError(
            f"{path} is a symbolic link to {os.readlink(path)}", hint="put a copy of that file in its place first"
        )
    return as_list(path)


def as_list(path: Path) -> Path:
    """The file, or, where there is only that, the .conflist that has been made of it."""
    return path if path.exists() else next(filter(Path.exists, [path.with_suffix(".conflist")]), path)
