"""A network stays spliced, however its owner writes it; and who writes without end is not fought."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import watchfiles

from cni_capture.conf import probes
from cni_capture.conf.plan import Plan
from cni_capture.conf.splicing import Places
from cni_capture.conf.watching import SETTLED, Pace, Watcher
from cni_capture.errors import UserError
from tests.node import BIN
from tests.runtimes.waiting import until

CALICO = """{
  "name": "k8s-pod-network",
  "cniVersion": "0.3.1",
  "plugins": [
    {"type": "calico", "mtu": 0},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}"""
CILIUM = '{"cniVersion": "0.3.1", "name": "cilium", "plugins": [{"type": "cilium-cni", "enable-debug": false}]}'
MULTUS = '{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "delegates": [{"type": "calico"}]}'
LAST = '{"cniVersion": "1.0.0", "name": "podman", "plugins": [{"type": "bridge"}]}'


class Kept:
    """A folder of networks, and a watcher at work on it."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder / "net.d", BIN, folder / "state")
        self.places.conf_dir.mkdir()
        self.plan = Plan(settings={"logFile": str(folder / "log"), "lockFile": str(folder / "lock")})
        self.said: list[str] = []
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def path(self, name: str) -> Path:
        return self.places.conf_dir / name

    def watch(self, path: Path | None = None, *, pace: Pace | None = None, force: bool = False) -> Watcher:
        """Start to watch; an apart of no time at all, unless a pace is given."""
        pace = pace or Pace(apart=0)
        watcher = Watcher(path, self.plan, self.places, say=self.said.append, force=force, pace=pace)
        self.run(lambda: watcher.run(self.stop))
        return watcher

    def run(self, work: Callable[[], object]) -> None:
        """In a thread that ends with the test."""
        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self._threads)

    def is_spliced(self, name: str, text: str) -> bool:
        """Whether a file is `text` with the probes in it, and nothing else."""
        try:
            return self.path(name).read_bytes() == probes.splice(text.encode(), self.plan)
        except FileNotFoundError:
            return False

    def until_spliced(self, name: str, text: str) -> None:
        until(lambda: self.is_spliced(name, text), f"{name} is spliced; said: {self.said}")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    kept.end()


# In the exact manner of those who write there.


def as_calico(path: Path, text: str) -> None:
    """os.WriteFile: truncate, write, with nothing in between to wait for (cni-plugin/pkg/install; aws-node as well)."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def as_calico_on_a_slow_disk(path: Path, text: str) -> None:
    """The same, with time to look between the halves: an empty file, half of one, all of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for half in (text[:40], text[40:]):
        time.sleep(0.7)
        os.write(fd, half.encode())
    os.close(fd)


def as_cilium(path: Path, text: str) -> None:
    """renameio: a hidden file beside it, synced and renamed; then all other networks are renamed *.cilium_bak."""
    new = path.with_name(f".{path.name}2596623")
    new.write_text(text)
    new.chmod(0o644)
    with new.open() as file:
        os.fsync(file.fileno())
    new.rename(path)
    for other in path.parent.iterdir():
        if other != path and other.suffix in (".conf", ".conflist", ".json"):
            other.rename(f"{other}.cilium_bak")


def as_multus(path: Path, text: str) -> None:
    """The thin one: NAME.new beside it, and renamed (cmd/thin_entrypoint)."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.rename(path)


def as_multus_thick(path: Path, text: str) -> None:
    """os.WriteFile with 0600 (pkg/server/config)."""
    as_calico(path, text)
    path.chmod(0o600)


def removed_and_made_anew(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    time.sleep(0.7)
    as_calico(path, text)


@pytest.mark.parametrize(
    "write",
    [as_calico, as_calico_on_a_slow_disk, as_cilium, as_multus, as_multus_thick, removed_and_made_anew],
    ids=lambda write: write.__name__,
)
def test_a_rewritten_network_is_spliced_again(kept: Kept, write: Callable[[Path, str], None]) -> None:
    """In whatever manner it is written, twice; another network, which comes later by name, is never touched."""
    first, last = kept.path("10-calico.conflist"), kept.path("87-podman.conflist")
    first.write_text(CALICO)
    last.write_text(LAST)
    kept.watch()
    kept.until_spliced(first.name, CALICO)
    for text in (CALICO, CALICO.replace('"mtu": 0', '"mtu": 1440')):
        write(first, text)
        kept.until_spliced(first.name, text)
    others = {path.read_text() for path in kept.places.conf_dir.glob("87-*")}
    assert {LAST} == others
    kept.end()
    assert [f"{word}: {first}" for word in ("spliced", "spliced again", "spliced again")] == kept.said


def test_plugins_of_a_rewritten_network_are_wrapped_again(kept: Kept) -> None:
    """In a list, and in the file of a single plugin, which stays what it is; a plugin that is new in it as well."""
    path, last = kept.path("10-calico.conflist"), kept.path("00-single.conf")
    kept.plan = replace(kept.plan, wrap_all=True)
    path.write_text(CALICO)
    watcher = kept.watch()
    kept.until_spliced(path.name, CALICO)
    more = CALICO.replace("]", ', {"type": "bandwidth"}]')
    as_calico(path, more)
    kept.until_spliced(path.name, more)
    single = '{"cniVersion": "0.3.1", "name": "x", "type": "calico"}'
    for _ in range(2):
        as_multus(last, single)
        kept.until_spliced(last.name, single)
    kept.end()
    watcher.unsplice()
    texts = {each.name: each.read_text() for each in kept.places.conf_dir.iterdir()}
    assert {last.name: single, path.name: more} == texts


def test_a_network_that_comes_first_is_followed(kept: Kept) -> None:
    """multus puts its own before Calico's: that one is spliced, as a list; Calico's stays as we left it."""
    kept.path("10-calico.conflist").write_text(CALICO)
    watcher = kept.watch()
    kept.until_spliced("10-calico.conflist", CALICO)
    as_multus(kept.path("00-multus.conf"), MULTUS)
    kept.until_spliced("00-multus.conflist", MULTUS)
    assert not kept.path("00-multus.conf").exists()
    as_multus(kept.path("00-multus.conf"), MULTUS.replace("calico", "flannel"))
    kept.until_spliced("00-multus.conflist", MULTUS.replace("calico", "flannel"))
    until(lambda: not kept.path("00-multus.conf").exists(), "the .conf is gone")
    assert kept.is_spliced("10-calico.conflist", CALICO)
    kept.end()
    watcher.unsplice()
    texts = {path.name: path.read_text() for path in kept.places.conf_dir.iterdir()}
    expected = {"00-multus.conf": MULTUS.replace("calico", "flannel"), "10-calico.conflist": CALICO}
    assert expected == texts


def test_a_folder_that_is_not_there_yet_is_waited_for(kept: Kept) -> None:
    """And one that is removed and made anew is followed, as is its first network."""
    kept.places.conf_dir.rmdir()
    kept.watch()
    for _ in range(2):
        until(lambda: f"there is no {kept.places.conf_dir} yet" in kept.said, "the folder is missed")
        kept.places.conf_dir.mkdir()
        as_calico(kept.path("10-calico.conflist"), CALICO)
        kept.until_spliced("10-calico.conflist", CALICO)
        kept.said.clear()
        kept.path("10-calico.conflist").unlink()
        kept.places.conf_dir.rmdir()


def test_a_named_file_is_kept_whatever_comes_first(kept: Kept) -> None:
    """Though it is not there at first, and broken for a while."""
    kept.path("00-first.conflist").write_text(LAST)
    path = kept.path("10-calico.conflist")
    kept.watch(path)
    until(lambda: kept.said == [f"no network in {path} yet"], "it is missed")
    path.write_text(CALICO[:30])
    until(lambda: len(kept.said) > 1, "it is found broken", SETTLED + 10)
    assert kept.said[1].startswith(f"{path}, line ")
    path.write_text(CALICO)
    kept.until_spliced(path.name, CALICO)
    assert LAST == kept.path("00-first.conflist").read_text()


def test_an_owner_who_rewrites_at_once_is_not_fought(kept: Kept) -> None:
    """cilium-agent answers to any change in the folder: after some repairs they get rare, and a warning says so."""
    path = kept.path("05-cilium.conflist")
    rewrites = 0

    def agent() -> None:
        nonlocal rewrites
        for _ in watchfiles.watch(kept.places.conf_dir, stop_event=kept.stop, rust_timeout=200, debounce=50, step=10):
            if path.read_text() != CILIUM:
                as_cilium(path, CILIUM)
                rewrites += 1

    as_cilium(path, CILIUM)
    kept.run(agent)
    kept.watch(force=True, pace=Pace(apart=0.1, longest=60))
    until(lambda: any("again and again" in words for words in kept.said), "the fight is noticed")
    begin, repairs = time.monotonic(), kept.said.count(f"spliced again: {path}")
    until(lambda: kept.said.count(f"spliced again: {path}") >= repairs + 3, "it is repaired three times more")
    assert time.monotonic() - begin > 0.4 + 0.8  # after the first of them
    assert rewrites < 12


def _repairs(pace: Pace, undone: float, until_: float) -> list[float]:
    """When a network is repaired that is undone after so many seconds, each time, from 0 on."""
    times, now, broken = [], 0.0, undone
    while now <= until_:
        if now >= broken and pace.notice(now):
            pace.repaired(now)
            times.append(now)
            broken = now + undone
        now += 0.5
    return times


def test_repairs_are_five_seconds_apart_and_ever_more_when_undone() -> None:
    """The fourth that is undone at once doubles the time, up to five minutes."""
    expected = [0, 5, 10, 20, 40, 80, 160, 320, 620, 920]
    assert expected == _repairs(Pace(), 0, 1000)


def test_one_who_rewrites_now_and_then_is_repaired_at_once() -> None:
    """A network that lasts longer than a minute starts no fight."""
    assert [70.0 * n for n in range(1, 15)] == _repairs(Pace(), 70, 1000)


def test_what_is_refused_at_first_ends_it(kept: Kept) -> None:
    """There is nothing to keep: an error, as of splice, and the file as it was."""
    kept.path("05-cilium.conflist").write_text(CILIUM)
    with pytest.raises(UserError, match="cilium-cni refuses to run"):
        Watcher(None, kept.plan, kept.places, say=kept.said.append).run(kept.stop)
    assert CILIUM == kept.path("05-cilium.conflist").read_text()


def _command(kept: Kept, verb: str, *options: str) -> list[str]:
    where = ["--conf-dir", kept.places.conf_dir, "--state-dir", kept.places.state]
    log = ["--cni-bin", BIN, "--log-file", f"{kept.places.state}.log", "--lock-file", f"{kept.places.state}.lock"]
    paths = [*where, *(log if verb == "watch" else [])]
    return [sys.executable, "-m", "cni_capture", verb, *map(str, paths), *options]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_leaves_the_network_as_it_was(kept: Kept, number: signal.Signals, code: int) -> None:
    """With --unsplice-on-exit, whether systemd or a person ends it; what it did is on stderr."""
    path = kept.path("10-calico.conflist")
    path.write_text(CALICO)
    words = _command(kept, "watch", "--unsplice-on-exit")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        until(lambda: path.read_text() != CALICO, "it is spliced")
        watching.send_signal(number)
        output = watching.communicate(timeout=20)
    said = f"cni-capture: spliced: {path}\ncni-capture: unspliced: {path}\n"
    said += "\n" * (number == signal.SIGINT)  # the line break after ^C
    assert (code, ("", said), CALICO) == (watching.returncode, output, path.read_text())


def test_the_command_wraps_as_splice_does(kept: Kept) -> None:
    """The options are the same."""
    path = kept.path("10-calico.conflist")
    path.write_text(CALICO)
    words = _command(kept, "watch", "--unsplice-on-exit", "--wrap", "portmap")
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as watching:
        until(lambda: '"capture": {"type": "portmap", "logFormat": "json", ' in path.read_text(), "it is wrapped")
        watching.terminate()
        watching.wait(20)
    assert CALICO == path.read_text()


def test_a_folder_is_watched_once_and_unsplice_knows(kept: Kept) -> None:
    """A second watch ends with an error; unsplice says that its work will be undone."""
    path = kept.path("10-calico.conflist")
    path.write_text(CALICO)
    with subprocess.Popen(_command(kept, "watch"), stderr=subprocess.DEVNULL) as watching:
        until(lambda: path.read_text() != CALICO, "it is spliced")
        second, unsplice = (
            subprocess.run(_command(kept, verb), capture_output=True, text=True, timeout=30)
            for verb in ("watch", "unsplice")
        )
        watching.terminate()
        watching.wait(20)
    error = f"cni-capture: another cni-capture watch is at work in {path.parent}\nhint: end it first\n"
    assert (2, error) == (second.returncode, second.stderr)
    warning = "cni-capture: cni-capture watch is at work there, and puts them back: end it first"
    assert (0, warning) == (unsplice.returncode, unsplice.stderr.splitlines()[0])
