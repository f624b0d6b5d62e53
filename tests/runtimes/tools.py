"""The real counterparts: Debian's plugins, and Go programs built once from the module proxy, at pinned versions.

Below `.cache/go` of the checkout is one folder for each program and version; to renew it, change the version here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from tests.runtimes.host import CHECKOUT, PLAIN_ENVIRONMENT

PROBES = CHECKOUT / "bin"
DEBIAN_PLUGINS = Path("/usr/lib/cni")
GO_CACHE = CHECKOUT / ".cache" / "go"


@dataclass(frozen=True)
class GoPackages:
    """`module`@`version`, and the packages in it that are the programs (Go's pattern, `...` for all below)."""

    module: str
    version: str
    packages: tuple[str, ...]


GO = {
    "cnitool": GoPackages("github.com/containernetworking/cni", "v1.3.1", ("cnitool",)),
    # What cni_capture.libcni follows; later releases word some failures otherwise.
    "cnitool-1.3.0": GoPackages("github.com/containernetworking/cni", "v1.3.0", ("cnitool",)),
    "noop": GoPackages("github.com/containernetworking/cni", "v1.3.1", ("plugins/test/noop",)),
    "plugins": GoPackages("github.com/containernetworking/plugins", "v1.10.0", ("plugins/...",)),
    # The last release of the reference plugins with flannel in it; github.com/flannel-io/cni-plugin, where it went, is
    # not in the module proxy. It speaks 0.3.1 and 0.4.0.
    "flannel": GoPackages("github.com/containernetworking/plugins", "v0.9.1", ("plugins/meta/flannel",)),
    "containerd": GoPackages(
        "github.com/containerd/containerd/v2",
        "v2.4.2",
        ("cmd/containerd", "cmd/containerd-shim-runc-v2", "cmd/ctr"),
    ),
    "crictl": GoPackages("sigs.k8s.io/cri-tools", "v1.37.0", ("cmd/crictl",)),
}


def cannot(why: str) -> NoReturn:
    """Skip the test, by name, where this machine cannot run it; with CI in the environment that is a failure."""
    pytest.skip(why)  # tests/conftest.py makes it one


def need(*programs: str) -> None:
    """The test needs root and these programs, found by name or path."""
    if os.geteuid() != 0:
        cannot("needs root")
    path = PLAIN_ENVIRONMENT["PATH"] + ":" + os.environ.get("PATH", "")
    for program in programs:
        if not shutil.which(program, path=path):
            cannot(f"needs {program}")


def go_version(name: str) -> str:
    """The version of GO[name] without its v."""
    return GO[name].version.removeprefix("v")


def go_folder(name: str) -> Path:
    """The folder with the programs of GO[name], built now if they were not before; needs go for that only."""
    wanted = GO[name]
    folder = GO_CACHE / f"{name}-{wanted.version}"
    if folder.is_dir():
        return folder
    need("go")
    GO_CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=GO_CACHE) as scratch:
        built = Path(scratch, "built")
        asked = subprocess.run(
            ["go", "install", *(f"{wanted.module}/{package}@{wanted.version}" for package in wanted.packages)],
            env={**os.environ, "GOBIN": str(built), "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode:
            cannot(f"needs {wanted.module} {wanted.version}, but go install said: {asked.stderr}")
        try:
            built.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was faster
                raise
    return folder


def go_tool(name: str) -> Path:
    """The program of GO[name] that bears that name."""
    return go_folder(name) / name


def debian_version(package: str) -> str:
    """The upstream version of an installed Debian package: 1.1.1 of 1.1.1+ds1-3+b5."""
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        cannot(f"needs the Debian package {package}")
    return asked.stdout.rpartition(":")[2].partition("-")[0].partition("+")[0].partition("~")[0]
