"""`cni-capture doctor` finds what keeps a node from capturing, and says what to do."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from cni_capture import launchers
from cni_capture.commands import main
from cni_capture.conf import splicing
from cni_capture.conf.plan import Plan
from cni_capture.conf.splicing import Places
from cni_capture.errors import UserError
from tests.node import BIN, PROBES, PROGRAMS, Node

BRIDGE = '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}'


PAIR = Plan()


class Patient:
    """A node with one network, spliced and well."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.node = Node(folder)
        self.places = Places(folder / "net.d", folder / "bin", folder / "state")
        for directory in (folder / "net.d", folder / "bin"):
            directory.mkdir()
        for program in PROGRAMS:
            (folder / "bin" / program).symlink_to(BIN / program)
        for plugin in ("bridge", "host-local"):
            (folder / "bin" / plugin).touch()
        self.path = folder / "net.d" / "10-pods.conflist"
        self.path.write_text(BRIDGE)
        self.splice()
        self._capfd = capfd

    def splice(self, plan: Plan = PAIR, force: bool = False) -> None:
        paths = {"logFile": str(self.node.log), "lockFile": str(self.node.lock)}
        plan = replace(plan, settings={**paths, "lockTimeout": 0.2, "logFormat": "json"})
        splicing.splice(self.path, plan, self.places, force=force)

    def edit(self, old: str, new: str) -> None:
        assert old in self.path.read_text()
        self.path.write_text(self.path.read_text().replace(old, new))

    def call(self, verb: str, container: str = "web", netns: str = "/no/such/netns", **more: str) -> None:
        """A call of the chain, as a runtime makes it."""
        environ = {"CNI_COMMAND": verb, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0", "CNI_NETNS": netns, **more}
        stdin = b'{"cniVersion": "1.0.0", "name": "pods", "logFormat": "json"}'
        for probe in PROBES if verb == "ADD" else reversed(PROBES):
            assert 0 == self.node.execute([BIN / probe], environ, stdin).code

    def ask(self, *options: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self._capfd.readouterr()
        places = [f"--conf-dir={self.places.conf_dir}", f"--cni-bin={self.places.cni_bin}"]
        code = main(["doctor", *places, f"--state-dir={self.places.state}", *options])
        return code, *self._capfd.readouterr()

    def troubles(self) -> tuple[int, list[tuple[str, str, str]]]:
        """Exit code, and status, what and hint of all that is not ok; nothing on stderr."""
        code, found, stderr = self.ask("-o", "json")
        assert "" == stderr
        return code, [(f["status"], f["what"], f["hint"]) for f in json.loads(found) if f["status"] != "ok"]


@pytest.fixture
def patient(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Patient:
    return Patient(tmp_path, capfd)


def test_a_node_that_captures_is_well(patient: Patient) -> None:
    """Every check in its group, and ok; exit code 0."""
    patient.call("ADD", netns="/proc/self/ns/net")
    disk = os.statvfs(patient.node.log.parent)
    code, stdout, stderr = patient.ask()
    lines = [line for line in stdout.splitlines() if "MB free" not in line]
    assert len(stdout.splitlines()) == len(lines) + (disk.f_bavail > 0)
    expected = f"""\
network configuration
  ok    the runtimes use {patient.path}: network pods, cniVersion 1.0.0
  ok    the probes are in it: capture-pre bridge capture-post

probes in {patient.places.cni_bin}
  ok    capture-pre runs and answers VERSION
  ok    capture-post runs and answers VERSION

log {patient.node.log}
  ok    the lock {patient.node.lock} is free
  ok    {patient.node.log} can be written
  ok    2 records, the last one 0 seconds ago
"""
    assert (0, expected.splitlines(), "") == (code, lines, stderr)


IPAM = BRIDGE.replace('"bridge"', '"bridge", "ipam": {"type": "host-local"}')
WRAPS = Plan(wrap_all=True, ipam=True)


@pytest.mark.parametrize("name", ["10-pods.conflist", "10-pods.conf"])
def test_a_node_that_captures_with_wraps_is_well(patient: Patient, name: str) -> None:
    """They are shown as splice shows them; only what the file makes runtimes call is asked; theirs is the log."""
    patient.path.unlink()
    patient.path = patient.path.with_name(name)
    single = '{"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "ipam": {"type": "host-local"}}'
    patient.path.write_text(IPAM if name.endswith("list") else single)
    patient.splice(WRAPS)
    for probe in PROBES:
        (patient.path.parents[1] / "bin" / probe).unlink()
    code, stdout, _ = patient.ask()
    expected = f"""\
network configuration
  ok    the runtimes use {patient.path}: network pods, cniVersion 1.0.0
  ok    the probes are in it: capture-wrap(bridge)+capture-wrap(host-local)

probes in {patient.places.cni_bin}
  ok    capture-wrap runs and answers VERSION

log {patient.node.log}
  ok    the lock {patient.node.lock} is free
  ok    {patient.node.log} can be written
"""
    assert (0, expected.splitlines()) == (code, stdout.splitlines()[:10])


def test_all_programs_are_asked_where_none_is_in_use_yet(patient: Patient) -> None:
    """Whatever will be spliced."""
    splicing.unsplice(patient.path, patient.places)
    code, stdout, _ = patient.ask()
    assert [f"  ok    {program} runs and answers VERSION" for program in PROGRAMS] == stdout.splitlines()[-3:]
    assert 1 == code


def test_no_records_yet_is_a_warning(patient: Patient) -> None:
    """Nobody may have started a container."""
    expected = ("warn", "no records yet", "start a container; those that run already are seen when they end")
    assert (0, [expected]) == patient.troubles()


Break = Callable[[Patient], tuple[str, str, str]]


def _nothing_there(patient: Patient) -> tuple[str, str, str]:
    patient.path.unlink()
    where = patient.places.conf_dir
    return "FAIL", f"no network in {where}", "say with --conf-dir where the runtime has its"


def _never_spliced(patient: Patient) -> tuple[str, str, str]:
    splicing.unsplice(patient.path, patient.places)
    return "FAIL", "no probes in it", "cni-capture splice"


def _written_anew(patient: Patient) -> tuple[str, str, str]:
    left = patient.places.backups.left(patient.path)
    assert left
    patient.path.write_text(BRIDGE)
    what = f"no probes in it any more: it was spliced at {left.time} and has been written anew since"
    return "FAIL", what, "cni-capture watch keeps it spliced"


def _preempted(patient: Patient) -> tuple[str, str, str]:
    patient.path.with_name("00-first.conflist").write_text(BRIDGE)
    what = "no probes in it; they are in 10-pods.conflist, and 00-first.conflist comes before that"
    return "FAIL", what, "cni-capture splice, or cni-capture watch, which follows the file in use"


def _edited(patient: Patient) -> tuple[str, str, str]:
    left = patient.places.backups.left(patient.path)
    assert left
    patient.path.write_text(patient.path.read_text() + "\n")
    what = f"it was changed after it was spliced at {left.time}"
    return "warn", what, "unsplice takes the probes out and leaves the rest"


def _broken_neighbour(patient: Patient) -> tuple[str, str, str]:
    path = patient.path.with_name("00-broken.conf")
    path.write_text("{")
    what = f"{path}, line 1: not JSON: unexpected end of JSON input"
    return "warn", what, "CRI-O passes over it, containerd has no network until it is mended or removed"


def _post_missing(patient: Patient) -> tuple[str, str, str]:
    splicing.unsplice(patient.path, patient.places)
    settings = f'"logFile": "{patient.node.log}", "lockFile": "{patient.node.lock}"'
    patient.path.write_text(BRIDGE.replace("[", f'[{{"type": "capture-pre", "label": "x", {settings}}}, '))
    return "warn", "a capture-pre with the label x without its capture-post", "cni-capture splice puts both"


def _harmful_place(patient: Patient) -> tuple[str, str, str]:
    patient.path.write_text(BRIDGE.replace("bridge", "loopback"))
    patient.splice(force=True)
    hint = "wrap it: --wrap loopback; --force does it all the same"
    return "warn", "behind a probe loopback leaves lo out of its result", hint


def _no_plugin_named(patient: Patient) -> tuple[str, str, str]:
    patient.path.write_text(BRIDGE.replace("bridge", "capture-wrap"))
    what = f'{patient.path}, plugin 1: no object "capture" that names the plugin to stand in for'
    return "FAIL", what, 'to stand in for a bridge, {"type": "capture-wrap", "capture": {"type": "bridge"}, ...}'


def _wrapped(patient: Patient, text: str = IPAM, plan: Plan = WRAPS, force: bool = False) -> Path:
    """Wrapped, whatever was there before; the plugin directory."""
    patient.path.write_text(text)
    patient.splice(plan, force)
    assert patient.places.cni_bin
    return patient.places.cni_bin


def _plugin_missing(patient: Patient) -> tuple[str, str, str]:
    plugins = _wrapped(patient)
    (plugins / "bridge").unlink()
    what = f"{patient.path}, plugin 1: there is no bridge in {plugins}, and capture-wrap stands in for it"
    return "FAIL", what, 'put it there, or correct its name in "capture"'


def _ipam_plugin_missing(patient: Patient) -> tuple[str, str, str]:
    plugins = _wrapped(patient, plan=Plan(ipam=True))
    (plugins / "host-local").unlink()
    what = f"{patient.path}, plugin 1: there is no host-local in {plugins}, and capture-wrap stands in for it"
    return "FAIL", what, 'put it there, or correct its name in "capture"'


def _settings_beside(patient: Patient) -> tuple[str, str, str]:
    _wrapped(patient)
    patient.edit('"capture": {"type": "bridge"', '"logFormat": "json", "logFile": "/x", "capture": {"type": "bridge"')
    beside = 'logFile, logFormat beside "capture": bridge gets that, and capture-wrap does not'
    hint = 'our settings stand in "capture"; cni-capture splice writes them there'
    return "warn", f"{patient.path}, plugin 1: {beside}", hint


def _settings_beside_in_ipam(patient: Patient) -> tuple[str, str, str]:
    _wrapped(patient)
    patient.edit('"capture": {"type": "host-local"', '"lockTimeout": 1, "capture": {"type": "host-local"')
    beside = 'lockTimeout beside "capture": host-local gets that, and capture-wrap does not'
    hint = 'our settings stand in "capture"; cni-capture splice writes them there'
    return "warn", f"{patient.path}, plugin 1: {beside}", hint


def _harmful_wrap(patient: Patient) -> tuple[str, str, str]:
    _wrapped(patient, IPAM.replace('"bridge"', '"bridge", "bridge": "cni-podman0"'), Plan(ipam=True), force=True)
    what = "podman would no longer find the network's subnets, and give the subnets to the next network as well"
    return "warn", what, "--force does it all the same"


def _bad_setting_of_a_wrap(patient: Patient) -> tuple[str, str, str]:
    _wrapped(patient, BRIDGE, Plan(wrap_all=True))
    patient.edit('"json"', '"yaml"')
    what = 'logFormat: \'yaml\' is neither "text" nor "json"; ignored'
    return "warn", what, "the probes use the default; cni-capture splice writes it anew"


def _wrap_missing(patient: Patient) -> tuple[str, str, str]:
    plugins = _wrapped(patient)
    (plugins / "capture-wrap").unlink()
    return "FAIL", "there is no capture-wrap", f"cni-capture install --cni-bin {plugins}"


def _nothing_but_probes(patient: Patient) -> tuple[str, str, str]:
    patient.edit('{"type": "bridge"},', "")
    return "FAIL", f"{patient.path}: nothing but probes in it", "put the plugins in by hand, or remove the file"


def _probe_missing(patient: Patient) -> tuple[str, str, str]:
    assert patient.places.cni_bin
    (patient.places.cni_bin / "capture-post").unlink()
    return "FAIL", "there is no capture-post", f"cni-capture install --cni-bin {patient.places.cni_bin}"


def _probe_with(patient: Patient, text: str, mode: int) -> Path:
    assert patient.places.cni_bin
    path = patient.places.cni_bin / "capture-pre"
    path.unlink()
    path.write_text(text)
    path.chmod(mode)
    return path


def _no_run_bit(patient: Patient) -> tuple[str, str, str]:
    path = _probe_with(patient, "#!/bin/sh\n", 0o644)
    return "FAIL", f"{path} has no run bit", f"chmod 755 {path}"


def _no_interpreter(patient: Patient) -> tuple[str, str, str]:
    path = _probe_with(patient, "#!/opt/gone/python3 -I\n", 0o755)
    what = f"{path}: its interpreter /opt/gone/python3 is gone"
    return "FAIL", what, f"cni-capture install --cni-bin {path.parent}"


def _no_version(patient: Patient) -> tuple[str, str, str]:
    path = _probe_with(patient, "#!/bin/sh\necho oh >&2; exit 1\n", 0o755)
    with pytest.raises(UserError, match="did not answer VERSION: exit status 1, oh") as caught:
        launchers.check(path)
    return "FAIL", caught.value.message, caught.value.hint


def _unknown_version(patient: Patient) -> tuple[str, str, str]:
    patient.path.write_text(patient.path.read_text().replace("1.0.0", "0.9.9"))
    return (
        "FAIL",
        "capture-pre does not speak cniVersion 0.9.9",
        "it speaks 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    )


def _log_is_a_link(patient: Patient) -> tuple[str, str, str]:
    patient.node.log.unlink()
    patient.node.log.symlink_to("elsewhere")
    what = f"not recorded: {patient.node.log} is a symbolic link"
    return "FAIL", what, "cni-capture splice --log-file writes another one"


def _log_is_watched(patient: Patient) -> tuple[str, str, str]:
    log = patient.places.conf_dir / "cni.log"
    patient.path.write_text(patient.path.read_text().replace(str(patient.node.log), str(log)))
    what = f"{log} is in {patient.places.conf_dir}, which runtimes watch"
    return "FAIL", what, "cni-capture splice --log-file elsewhere"


def _bad_setting(patient: Patient) -> tuple[str, str, str]:
    patient.path.write_text(patient.path.read_text().replace('"json"', '"yaml"'))
    what = 'logFormat: \'yaml\' is neither "text" nor "json"; ignored'
    return "warn", what, "the probes use the default; cni-capture splice writes it anew"


def _damaged(patient: Patient) -> tuple[str, str, str]:
    patient.call("ADD", netns="/proc/self/ns/net")
    with patient.node.log.open("a") as log:
        log.write("what is this\n")
    what = f"{patient.node.log}: damaged line left out: 3"
    return "warn", what, "what is damaged is left out of everything else"


def _clock_went_back(patient: Patient) -> tuple[str, str, str]:
    patient.call("ADD", netns="/proc/self/ns/net")
    record = json.loads(patient.node.log.read_text().splitlines()[-1])
    later = datetime.now(timezone.utc) + timedelta(hours=1, milliseconds=500)
    record["time"] = later.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with patient.node.log.open("a") as log:
        log.write(json.dumps(record) + "\n")
    return "warn", "the last record is 3600 s in the future", "set this node's clock"


def _never_deleted(patient: Patient) -> tuple[str, str, str]:
    for container in ("web", "db"):
        patient.call("ADD", container)
    patient.call("ADD", "alive", netns="/proc/self/ns/net")
    patient.call("DEL", "db")
    for verb, container in (("ADD", "replayed"), ("DEL", "web")):
        patient.call(verb, container, CNI_CAPTURE_REPLAY="2026-11-30T18:40:28.123456Z")
    what = "1 ADD without a DEL, though the network namespace is gone: web"
    return "warn", what, "their addresses may still be taken; cni-capture show web"


@pytest.mark.parametrize(
    "break_",
    [
        _nothing_there,
        _never_spliced,
        _written_anew,
        _preempted,
        _edited,
        _broken_neighbour,
        _post_missing,
        _harmful_place,
        _no_plugin_named,
        _plugin_missing,
        _ipam_plugin_missing,
        _settings_beside,
        _settings_beside_in_ipam,
        _harmful_wrap,
        _bad_setting_of_a_wrap,
        _wrap_missing,
        _nothing_but_probes,
        _probe_missing,
        _no_run_bit,
        _no_interpreter,
        _no_version,
        _unknown_version,
        _log_is_a_link,
        _log_is_watched,
        _bad_setting,
        _damaged,
        _clock_went_back,
        _never_deleted,
    ],
    ids=lambda break_: break_.__name__.lstrip("_"),
)
def test_what_is_wrong_is_found(patient: Patient, break_: Break) -> None:
    """With one line about it and one about what to do; exit code 1 where nothing is captured."""
    expected = break_(patient)
    code, troubles = patient.troubles()
    assert expected in troubles
    assert int("FAIL" in {status for status, _, _ in troubles}) == code
    assert int(expected[0] == "FAIL") == code


def test_settings_that_the_plugin_has_for_itself_are_no_mistake(patient: Patient) -> None:
    """multus has a log of its own under the same key."""
    plugins = _wrapped(patient, BRIDGE.replace('"bridge"', '"multus", "logFile": "/x"'), Plan(wrap_all=True))
    (plugins / "multus").touch()
    assert ["no records yet"] == [what for _, what, _ in patient.troubles()[1]]


def test_a_held_lock_is_told_with_its_holder(patient: Patient) -> None:
    """The log can be written without it, as the probes do."""
    with patient.node.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, troubles = patient.troubles()
    comm = Path("/proc/self/comm").read_text().strip()
    hint = f"records wait 0.2 s and are written without it then; fuser -v {patient.node.lock}"
    held = ("warn", f"{patient.node.lock} is held by process {os.getpid()} ({comm})", hint)
    assert (0, held) == (code, troubles[0])
    assert troubles[1][1].startswith("recorded without the lock: ")


def test_a_full_disk_is_told(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call goes on, but its record is lost."""
    real = os.statvfs(patient.node.log.parent)
    full = os.statvfs_result((4096, 4096, *real[2:4], 10, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    code, troubles = patient.troubles()
    assert 1 == code
    assert troubles[0][:2] == ("FAIL", f"0 MB free where the log is, and {real.f_favail:,} inodes")


def test_a_named_file_that_is_not_in_use_is_examined(patient: Patient) -> None:
    """podman uses it, the others do not."""
    other = patient.path.with_name("20-more.conflist")
    other.write_text(BRIDGE)
    code, stdout, _ = patient.ask(str(other))
    what = (
        f"{other}: network pods, cniVersion 1.0.0; containerd and CRI-O use {patient.path}, which comes first by name"
    )
    assert (1, f"  warn  {what}") == (code, stdout.splitlines()[1])
