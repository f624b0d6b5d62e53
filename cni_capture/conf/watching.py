"""Keep a network spliced while its owner rewrites it: watch first, then check; repair, but do not fight.

Lessons of Istio's and Linkerd's installers, which keep themselves in a conflist in the same way (cni/pkg/install;
linkerd2-proxy-init, cni-plugin). Owners write in every manner: by rename, in place and so caught half way, removed and
made anew, under another name that comes first. What is half written is left alone until it is whole or stays as it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import watchfiles

from cni_capture.conf import confdir
from cni_capture.conf.plan import Plan
from cni_capture.conf.splicing import Places, as_list, planned, splice, unsplice
from cni_capture.errors import UserError

# Seconds until a file that is no network is taken to be finished, and another that comes first to stay.
SETTLED = 2.0
_TICK = 0.5


class Pace:
    """When the next repair may be made. Times are seconds of one clock that only goes forward.

    Repairs are `apart`; after `patience` of them that were undone within `memory` each, twice as long apart every time.
    """

    def __init__(self, apart: float = 5.0, patience: int = 3, memory: float = 60.0, longest: float = 300.0) -> None:
        self.apart = apart
        self.patience = patience
        self.memory = memory
        self.longest = longest
        self._repaired = float("-inf")
        self._noticed: float | None = None
        self._undone = 0
        """How many repairs in a row were undone soon."""

    @property
    def wait(self) -> float:
        """Seconds from the last repair to the next."""
        return min(self.longest, self.apart * 2.0 ** max(0, self._undone - self.patience + 1))

    @property
    def fights(self) -> bool:
        return self._undone >= self.patience

    def notice(self, now: float) -> bool:
        """There is something to repair. Returns whether that may be done now."""
        if self._noticed is None:
            self._noticed = now
            self._undone = self._undone + 1 if now - self._repaired <= self.memory else 0
        return now >= self._repaired + self.wait

    def repaired(self, now: float) -> None:
        self._repaired = now
        self._noticed = None


class Watcher:
    """Keeps a network spliced: that in `path`, or, for None, the one that runtimes use. `say` gets lines for a person.

    `kept` are the files that it keeps or has kept spliced.
    """

    def __init__(
        self,
        path: Path | None,
        plan: Plan,
        places: Places,
        *,
        say: Callable[[str], None],
        force: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self._path = path
        self.folder = path.parent if path else places.conf_dir
        self._plan = plan
        self._places = places
        self._say = say
        self._force = force
        self._pace = pace or Pace()
        self._said: set[str] = set()
        self._now: Path | None = None
        self._view: object = None
        self._since = self._retry = float("-inf")
        self.kept: set[Path] = set()

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set. Raises UserError when the first splice is refused."""
        first = True
        while not stop.is_set():
            folder = _identity(self.folder)
            if folder is None:
                self._say_once(f"there is no {self.folder} yet")
                stop.wait(_TICK)
                continue
            again = True
            for changed in self._changes(stop):
                if _identity(self.folder) != folder:  # removed or replaced: the watch is on one that is no more
                    break
                if changed or again:
                    again = self.look(time.monotonic(), first)
                    first = first and not self.kept

    def _changes(self, stop: threading.Event) -> Iterator[bool]:
        """Whether something has changed in the folder, soon after it has, and every now and then. Raises UserError."""
        try:
            for changes in watchfiles.watch(
                self.folder,
                watch_filter=None,
                debounce=200,
                rust_timeout=int(_TICK * 1000),
                yield_on_timeout=True,
                stop_event=stop,
                recursive=False,
            ):
                yield bool(changes)
        except FileNotFoundError:  # the folder is gone again
            return
        except OSError as error:
            raise UserError(
                f"cannot watch {self.folder}: {error}", hint="are there enough inotify instances? sysctl fs.inotify"
            ) from None

    def look(self, now: float, first: bool = False) -> bool:
        """See whether the network is spliced, and splice it. Returns whether to look again with nothing changed.

        Raises UserError when that is refused the first time: then there is nothing to keep.
        """
        if now < self._retry:
            return True
        try:
            path, again = self._find(now)
            if path is None:
                return again
            change = planned(path, self._plan, self._places, force=self._force)
            if not change.is_none:
                if self.kept and not self._pace.notice(now):
                    self._warn_of_fight(path)
                    return True
                splice(path, self._plan, self._places, force=self._force)
                self._said.clear()
                self._say(f"{'spliced again' if change.path in self.kept else 'spliced'}: {change.path}")
                if self.kept:
                    self._pace.repaired(now)
            self._now = change.path
            self.kept.add(change.path)
            return False
        except UserError as error:
            if first:
                raise
            self._say_once(f"{error.message} (hint: {error.hint})" if error.hint else error.message)
            self._retry = now + self._pace.apart
            return True

    def unsplice(self) -> None:
        """Take the probes out of all that was kept."""
        for path in sorted(self.kept):
            try:
                if path.exists() and not (change := unsplice(path, self._places)).is_none:
                    self._say(f"unspliced: {change.path}")
            except UserError as error:
                self._say(f"not unspliced: {error.message}")

    def _find(self, now: float) -> tuple[Path | None, bool]:
        """The file to keep spliced, if there is one that is whole and there to stay; and whether there may soon be."""
        chosen, passed = self._named() if self._path else confdir.find(self.folder)
        path = chosen.path if chosen else None
        view = path, [(broken, _signature(broken)) for broken, _ in passed]
        if view != self._view:
            self._view, self._since = view, now
        if now - self._since < SETTLED and (passed or self._now not in (None, path)):
            return None, True
        for _, why in passed:
            self._say_once(f"{why} (containerd has no network until that is mended)")
        if path is None:
            self._say_once(f"no network in {self._path or self.folder} yet")
        return path, False

    def _named(self) -> tuple[confdir.Chosen | None, list[tuple[Path, str]]]:
        """As confdir.find(), for a path that was named: itself, or the .conflist that we have made of it."""
        assert self._path
        path = as_list(self._path)
        if not path.exists():
            return None, []
        try:
            return confdir.Chosen(path, confdir.network(path)), []
        except UserError as error:
            return None, [(path, error.message)]

    def _warn_of_fight(self, path: Path) -> None:
        if self._pace.fights:
            self._say_once(
                f"{path} was rewritten again and again: the next repair comes {self._pace.wait:g} s after the last one "
                "(hint: change it where its owner has it from)"
            )

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self._say(words)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        stat = folder.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
