"""A directory of network configurations, read as the runtimes read it.

containerd (go-cni, opts.go) and CRI-O (ocicni) take the files that end in .conf, .conflist and .json and use the first
by name; the ending decides what a file must be. podman reads .conflist only, and all of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cni_capture.conf import conflist
from cni_capture.errors import UserError
from cni_capture.libcni.network import Network, load

DEFAULT = Path("/etc/cni/net.d")
CACHE = Path("/var/lib/cni")
LOADED = (".conf", ".conflist", ".json")


@dataclass(frozen=True)
class Chosen:
    """The file that runtimes use, and its network."""

    path: Path
    network: Network


def files(folder: Path) -> list[Path]:
    """What runtimes load, in their order: by name. Raises UserError."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in LOADED and not path.is_dir())
    except OSError as error:
        raise UserError(
            f"{folder}: {error.strerror}", hint="say with --conf-dir where the runtime keeps its networks"
        ) from None


def find(folder: Path) -> tuple[Chosen | None, list[tuple[Path, str]]]:
    """The file that runtimes use, the first that is a network, if there is one; and what they passed. Raises UserError.

    CRI-O passes over what is no network; containerd stops there, and has none until it is mended.
    """
    passed: list[tuple[Path, str]] = []
    for path in files(folder):
        try:
            return Chosen(path, network(path)), passed
        except UserError as error:
            passed.append((path, error.message))
    return None, passed


def choose(folder: Path) -> Path:
    """The file that runtimes use. Raises UserError when there is none."""
    chosen, passed = find(folder)
    if chosen is None:
        words = "".join(f"; {why}" for _, why in passed)
        raise UserError(
            f"no network in {folder}{words}", hint="say with --conf-dir where the runtime keeps its networks"
        )
    return chosen.path


def network(path: Path) -> Network:
    """The network in a file, which must be of the kind that its name says. Raises UserError."""
    loaded = load(path)
    single = conflist.is_single(loaded_bytes(path), str(path))
    if single is (path.suffix == ".conflist"):
        raise UserError(
            f"{path}: {'a single plugin' if single else 'a list of plugins'} in a {path.suffix}",
            hint="a list of plugins is a .conflist, a single plugin a .conf",
        )
    return loaded


def loaded_bytes(path: Path) -> bytes:
    """What is in a file. Raises UserError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None


def with_probes(folder: Path) -> Iterator[Path]:
    """The files that name a probe. Raises UserError."""
    for path in files(folder):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # gone meanwhile
            continue
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from None
        if conflist.has_probes(data):
            yield path


def started_with_probes(cache: Path) -> Iterator[str]:
    """IDs of the containers on record in libcni's cache (libcni/api.go, cachedInfo) whose conflist names a probe."""
    for path in sorted(cache.glob("results/*")):
        try:
            record = json.loads(path.read_bytes())
            if conflist.has_probes(base64.b64decode(record["config"])):
                yield str(record["containerId"])
        except (OSError, ValueError, KeyError, TypeError):  # gone meanwhile, or of an older libcni
            continue
