"""podman with its CNI backend in a throw-away host, as root.

podman asks every plugin of every conflist for its VERSION before it believes that a network exists; it keeps the
configuration of an ADD in libcni's cache and uses it for the DEL.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.runtimes import image, tools
from tests.runtimes.host import Host
from tests.runtimes.probes import Entry

NETWORKS = "/etc/cni/net.d"

# runc and cgroupfs, because crun and systemd want more of the machine than a namespace has; a k8s-file log and a file
# of events, because there is no journal.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "cni"
network_config_dir = "{networks}"
cni_plugin_dirs = [{plugin_dirs}]
"""


class Podman:
    """podman of one host, the image loaded."""

    def __init__(self, host: Host, archive: Path, plugin_dirs: Iterable[str | Path]) -> None:
        self.host = host
        directories = ", ".join(f'"{path}"' for path in plugin_dirs)
        settings = CONTAINERS_CONF.format(networks=NETWORKS, plugin_dirs=directories)
        host.write("/etc/containers/containers.conf", settings)
        host.path("/run/image.tar").write_bytes(archive.read_bytes())
        host.run(["podman", "load", "--quiet", "--input", "/run/image.tar"])

    def __call__(self, words: str) -> subprocess.CompletedProcess[str]:
        """Run `podman WORDS`, split as a shell would; no exit code is an error here."""
        return self.host.run(["podman", *shlex.split(words)], check=False)

    def start(self, name: str, options: str) -> subprocess.CompletedProcess[str]:
        """Run a detached container that serves, see `image.SERVE`."""
        ours = f"--detach --name {name} --cgroup-parent /{self.host.name}"
        return self(f"run {ours} {options} {image.NAME} {shlex.join(image.SERVE)}")


def bridge(name: str, number: int, routes: Sequence[Entry] = ({"dst": "0.0.0.0/0"},)) -> list[Entry]:
    """What `podman network create` writes: these four plugins in this order."""
    ranges = [[{"subnet": f"10.88.{number}.0/24", "gateway": f"10.88.{number}.1"}]]
    ipam = {"type": "host-local", "routes": routes, "ranges": ranges}
    return [
        {"type": "bridge", "bridge": name, "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "firewall", "backend": ""},
        {"type": "tuning", "capabilities": {"mac": True}},
    ]


def start_seconds(archive: Path, plugins: Sequence[Entry], times: int) -> list[float]:
    """How long each of some `podman run --detach` takes with Debian's plugins on one network, in a host of its own."""
    seconds = []
    with Host() as host:
        podman = Podman(host, archive, [tools.DEBIAN_PLUGINS, tools.PROBES])
        conflist = {"cniVersion": "1.0.0", "name": "web", "plugins": plugins}
        host.write(f"{NETWORKS}/web.conflist", json.dumps(conflist))
        for _ in range(times):
            begin = time.perf_counter()
            podman.start("a", "--network web --publish 18080:80").check_returncode()
            seconds.append(time.perf_counter() - begin)
            podman("rm --force --time 0 a").check_returncode()
    return seconds
