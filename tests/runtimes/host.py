"""A throw-away machine: own network, mounts, processes and host name, on the kernel and the files of this one.

To add a runtime, read test_cnitool.py beside this file: put its configuration in with `Host.write`, start its daemon
with `Host.popen`, drive it with `Host.run`, compare what `observe` sees with and without probes, hand the table a row.

What is written below /etc, /opt, /var, /run and /tmp stays in the host's memory; everything else is this machine's own,
so leave it alone. The host lives as long as the process that holds it, and ends with it, even when that one is killed.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

CHECKOUT = Path(__file__).resolve().parents[2]
PLAIN_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}

UNSHARE = ("unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
PRIVATELY = ("--mount-proc", "--propagation", "private")
# The first process of the host: it adopts orphans, reaps them (SIGCHLD ignored survives the exec), and ends, taking
# everything with it, at the end of its input, which this process holds open. A checkout below /tmp or /run is put back
# on top of what was mounted there.
SETUP = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/checkout
mount --bind "$1" /mnt/checkout
hostname "$2"
ip link set lo up
for tree in etc opt var; do
    mkdir "/mnt/$tree" "/mnt/$tree.work"
    mount -t overlay overlay -o "lowerdir=/$tree,upperdir=/mnt/$tree,workdir=/mnt/$tree.work" "/$tree"
done
for fresh in /run /tmp /etc/cni /var/lib/cni /var/lib/containers /var/lib/containerd; do
    mkdir -p "$fresh"
    mount -t tmpfs tmpfs "$fresh"
done
mkdir -m 1777 /run/lock
if ! [ -e "$1/tests" ]; then
    mkdir -p "$1"
    mount --bind /mnt/checkout "$1"
fi
echo ready
exec env --ignore-signal=CHLD cat
"""

_serial = itertools.count(1)


class Host:
    """A context manager. `name` is the host name, and the top cgroup that runtimes inside are to put theirs under."""

    def __init__(self) -> None:
        self.name = f"cni-capture-{os.getpid()}-{next(_serial)}"
        self._daemons: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Host:
        self._holder = subprocess.Popen(
            [*UNSHARE, *PRIVATELY, "sh", "-euc", SETUP, "host", str(CHECKOUT), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=PLAIN_ENVIRONMENT,
        )
        assert self._holder.stdin
        assert self._holder.stdout
        if self._holder.stdout.readline() != "ready\n":
            self._holder.communicate()
            raise RuntimeError("cannot make a host: unshare and mount need root; what they said is on stderr")
        space = f"/proc/{self._holder.pid}/ns"
        self._namespaces = {kind: f"{space}/{kind}" for kind in ("net", "mnt", "ipc", "uts")}
        self._namespaces["pid"] = f"{space}/pid_for_children"
        self._network = os.readlink(self._namespaces["net"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything inside; the last process of a PID namespace is gone only when all the others are."""
        self._holder.communicate()
        for daemon in self._daemons:
            daemon.wait(timeout=10)
        for hierarchy in ("", "*/"):  # cgroups v2 and v1
            for cgroup in Path("/sys/fs/cgroup").glob(hierarchy + self.name):
                for directory, _, _ in os.walk(cgroup, topdown=False):
                    os.rmdir(directory)
        left = [process.name for process in Path("/proc").glob("[0-9]*") if _network_of(process) == self._network]
        assert left == [], f"processes of {self.name} are left: {left}"

    def path(self, inside: str) -> Path:
        """Where this process sees the host's file `inside`, an absolute path without links (/run, not /var/run)."""
        return Path(f"/proc/{self._holder.pid}/root{inside}")

    def write(self, inside: str, text: str, mode: int = 0o644) -> str:
        """Write a file of the host, with the folders it needs, and return `inside`, its path there."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return inside

    def read(self, inside: str) -> str:
        return self.path(inside).read_text()

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the host, `env` added to a plain environment; its failure is an error, if asked to `check`.

        That there is no such command is an error always.
        """
        done = subprocess.run(
            self._inside(argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**PLAIN_ENVIRONMENT, **(env or {})},
        )
        if (check and done.returncode) or done.stderr.startswith("nsenter: "):
            raise RuntimeError(f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def popen(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a daemon whose output goes to the host's file `log`; it ends with the host at the latest."""
        with self.path(log).open("a") as output:
            daemon = subprocess.Popen(
                self._inside(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                env={**PLAIN_ENVIRONMENT, **(env or {})},
            )
        self._daemons.append(daemon)
        return daemon

    def _inside(self, argv: Sequence[str]) -> list[str]:
        nsenter = shutil.which("nsenter", path=PLAIN_ENVIRONMENT["PATH"])
        assert nsenter
        return [nsenter, *(f"--{_OPTION[kind]}={path}" for kind, path in self._namespaces.items()), "--", *argv]


_OPTION = {"net": "net", "mnt": "mount", "ipc": "ipc", "uts": "uts", "pid": "pid"}


def _network_of(process: Path) -> str | None:
    try:
        return os.readlink(process / "ns/net")
    except OSError:  # it ended meanwhile
        return None
