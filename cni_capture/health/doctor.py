"""Is it capturing, and if not, why? Checks in groups; each gives findings, a failed one says what to do.

Nothing is changed, but for an empty log where there is none: whether it can be written is found out by the probes' own
way of writing it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cni_capture import launchers
from cni_capture.call import DEFAULT_VERSION
from cni_capture.conf import confdir, conflist
from cni_capture.conf.backups import digest
from cni_capture.conf.confdir import Chosen
from cni_capture.conf.conflist import POST, PRE, PROGRAMS, Plugin
from cni_capture.conf.objections import objections_to_present
from cni_capture.conf.splicing import Places, plugin_dir
from cni_capture.conf.wraps import Unwrapped, title, unwrap
from cni_capture.errors import UserError
from cni_capture.health.logcheck import examine_log
from cni_capture.health.verdicts import FAIL, OK, WARN, Finding
from cni_capture.health.wrapcheck import examine_wraps
from cni_capture.libcni.network import Network
from cni_capture.reply import SUPPORTED
from cni_capture.settings import Settings, read_settings


@dataclass(frozen=True)
class Patient:
    """What is to be examined: a file of networks, its network, its bytes and its entries.

    `plugins` are those without the wraps around them; `mistakes` are about the wraps that name no plugin.
    """

    path: Path
    network: Network
    data: bytes
    chain: list[Plugin]
    plugins: list[Unwrapped]
    mistakes: list[UserError]


def examine(path: Path | None, places: Places) -> Iterator[tuple[str, Finding]]:
    """Findings, each with the title of its group; `path` None is the file that runtimes use. Raises UserError."""
    group = "network configuration"
    try:
        chosen, passed = confdir.find(places.conf_dir)
    except UserError as error:
        yield group, Finding(FAIL, error.message, error.hint)
        return
    for _, why in passed:
        hint = "CRI-O passes over it, containerd has no network until it is mended or removed"
        yield group, Finding(WARN, why, hint)
    if chosen is None:
        yield group, Finding(FAIL, f"no network in {places.conf_dir}", "say with --conf-dir where the runtime has its")
        return
    patient = _patient(path or chosen.path)
    plugins = plugin_dir(patient.network, places)
    for finding in (
        *_use(patient, chosen),
        *_probes_in(patient, chosen, places),
        *_places_in(patient),
        *examine_wraps(patient.plugins, plugins),
    ):
        yield group, finding
    for probe in _programs(patient):
        yield f"probes in {plugins}", _probe(plugins / probe, patient.network)
    for settings in _settings(patient):
        for finding in examine_log(settings, (patient.path.parent, plugins)):
            yield f"log {settings.log_file}", finding


def _patient(path: Path) -> Patient:
    path = Path(os.path.realpath(path.parent)) / path.name
    data = confdir.loaded_bytes(path)
    chain = conflist.chain(data, str(path))
    plugins, mistakes = [], []
    for plugin in chain:
        try:
            plugins.append(unwrap(plugin))
        except UserError as error:
            mistakes.append(error)
    return Patient(path, confdir.network(path), data, chain, plugins, mistakes)


def _use(patient: Patient, chosen: Chosen) -> Iterator[Finding]:
    words = f"network {patient.network.name}, cniVersion {patient.network.cni_version or DEFAULT_VERSION}"
    if patient.path == Path(os.path.realpath(chosen.path.parent)) / chosen.path.name:
        yield Finding(OK, f"the runtimes use {patient.path}: {words}")
    else:
        yield Finding(
            WARN,
            f"{patient.path}: {words}; containerd and CRI-O use {chosen.path}, which comes first by name",
            "podman uses them all; for the others leave the file out",
        )


def _probes_in(patient: Patient, chosen: Chosen, places: Places) -> Iterator[Finding]:
    """Whether ours are in it, and if not, where they have gone."""
    try:
        left = places.backups.left(patient.path)
    except OSError as error:
        left = None
        yield Finding(WARN, f"{error.filename}: {error.strerror}", "only root can read what splice has kept")
    others = [path for path in confdir.with_probes(patient.path.parent) if path != patient.path]
    if any(plugin.is_ours for plugin in patient.chain):
        yield Finding(OK, f"the probes are in it: {' '.join(map(title, patient.chain))}")
        if left and left.digest != digest(patient.data):
            yield Finding(
                WARN,
                f"it was changed after it was spliced at {left.time}",
                "unsplice takes the probes out and leaves the rest",
            )
    elif left:
        yield Finding(
            FAIL,
            f"no probes in it any more: it was spliced at {left.time} and has been written anew since",
            "cni-capture watch keeps it spliced",
        )
    elif others:
        yield Finding(
            FAIL,
            f"no probes in it; they are in {others[0].name}, and {patient.path.name} comes before that",
            "cni-capture splice, or cni-capture watch, which follows the file in use",
        )
    else:
        yield Finding(FAIL, "no probes in it", "cni-capture splice")


def _places_in(patient: Patient) -> Iterator[Finding]:
    """Whether each pre has its post behind it, and whether all that is ours stands in a good place."""
    open_: Counter[object] = Counter()
    for plugin in patient.chain:
        if plugin.is_probe:
            open_[plugin.config.value("label") or ""] += 1 if plugin.type == PRE else -1
    for label, count in open_.items():
        if count:
            one, other = (PRE, POST) if count > 0 else (POST, PRE)
            words = f" with the label {label}" if label else ""
            yield Finding(WARN, f"a {one}{words} without its {other}", "cni-capture splice puts both")
    for mistake in patient.mistakes:
        yield Finding(FAIL, mistake.message, mistake.hint)
    if patient.mistakes:
        return
    try:
        for reason, instead in objections_to_present(patient.data, str(patient.path)):
            yield Finding(WARN, reason, instead)
    except UserError as error:  # nothing but probes
        yield Finding(FAIL, error.message, error.hint)


def _programs(patient: Patient) -> Sequence[str]:
    """The programs that the file makes runtimes call; all, when it names none."""
    named = {plugin.type for plugin in patient.chain} | {plugin.ipam_type for plugin in patient.chain}
    return [program for program in PROGRAMS if program in named] or PROGRAMS


def _probe(path: Path, network: Network) -> Finding:
    install = f"cni-capture install --cni-bin {path.parent}"
    try:
        with path.open("rb") as file:
            first = file.readline(256)
    except FileNotFoundError:
        return Finding(FAIL, f"there is no {path.name}", install)
    except OSError as error:
        return Finding(FAIL, f"{path}: {error.strerror}", install)
    if not path.stat().st_mode & 0o111:
        return Finding(FAIL, f"{path} has no run bit", f"chmod 755 {path}")
    if first.startswith(b"#!"):
        interpreter = os.fsdecode(first[2:].split()[0]) if first[2:].split() else ""
        if not os.path.exists(interpreter):
            return Finding(FAIL, f"{path}: its interpreter {interpreter} is gone", install)
    try:
        launchers.check(path)
    except UserError as error:
        return Finding(FAIL, error.message, error.hint)
    version = network.cni_version or DEFAULT_VERSION
    if version not in SUPPORTED:
        return Finding(FAIL, f"{path.name} does not speak cniVersion {version}", f"it speaks {', '.join(SUPPORTED)}")
    return Finding(OK, f"{path.name} runs and answers VERSION")


def _settings(patient: Patient) -> list[Settings]:
    """The settings of the probes in it, one for each log."""
    configs = [plugin.config for plugin in patient.chain if plugin.is_probe]
    configs += [each for _, *both in patient.plugins for each in both if each]
    all_ = [read_settings(config, {}) for config in configs]
    return list({settings.log_file: settings for settings in reversed(all_)}.values())
