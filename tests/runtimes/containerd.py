"""containerd with its CRI plugin in a throw-away host, where kubelet would be its client.

containerd reads the first file in its folder of CNI configurations, and reads them again when one is written, renamed
or removed. It never asks for VERSION; since 2.1 it asks for STATUS, at each CRI Status, where cniVersion is 1.1.0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.runtimes import image, tools
from tests.runtimes.cri import Cri, CriError, pod_config
from tests.runtimes.host import PLAIN_ENVIRONMENT, Host
from tests.runtimes.probes import Entry
from tests.runtimes.waiting import until

SOCKET = "/run/containerd/containerd.sock"
NETWORKS = "/etc/cni/net.d"
NETWORK = f"{NETWORKS}/10-pods.conflist"
PLUGINS = "/opt/cni/bin"
"""Both folders are the defaults; `ctr run --cni` knows no others."""

GATEWAY = "10.88.0.1"
CHAIN: Sequence[Entry] = [
    {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [[{"subnet": "10.88.0.0/24", "gateway": GATEWAY}]],
        },
    },
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    {"type": "firewall"},
    {"type": "tuning", "sysctl": {"net.ipv4.conf.all.log_martians": "1"}},
]

# The kernel of a test machine may lack AppArmor, and a process there may be denied a lower OOM score.
CONFIG = f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image.NAME}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{NETWORKS}"
"""


class Containerd:
    """A running containerd, the image loaded; what is in `NETWORKS` by then is its network.

    `plugins` are files to link into `PLUGINS`; `programs` is a folder that goes before the rest of PATH.
    """

    def __init__(self, host: Host, archive: Path, plugins: Iterable[Path], programs: Path | None = None) -> None:
        self.env = {"PATH": f"{programs}:{PLAIN_ENVIRONMENT['PATH']}"} if programs else {}
        host.path(PLUGINS).mkdir(parents=True, exist_ok=True)
        for plugin in plugins:
            host.path(f"{PLUGINS}/{plugin.name}").symlink_to(plugin)
        host.write("/etc/containerd/config.toml", CONFIG)
        host.popen(["containerd"], log="/run/containerd.log", env=self.env)
        until(host.path(SOCKET).exists, "containerd listens")
        self.cri = Cri(host.path(SOCKET))
        until(self._answers, "containerd serves CRI")
        host.path("/run/image.tar").write_bytes(archive.read_bytes())
        for namespace in ("k8s.io", "default"):
            host.run(["ctr", "--namespace", namespace, "images", "import", "/run/image.tar"], env=self.env)

    def _answers(self) -> bool:
        try:
            return bool(self.cri.version())
        except CriError:
            return False


def start_seconds(
    archive: Path, chain: Sequence[Entry], times: int, plugins: Path, programs: Path | None = None
) -> list[float]:
    """How long each of some RunPodSandbox takes on a chain, in a host of its own; the folders are as in Containerd."""
    seconds = []
    with Host() as host:
        host.write(NETWORK, json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": chain}))
        cri = Containerd(host, archive, [*plugins.iterdir(), *tools.PROBES.glob("capture-*")], programs).cri
        pod = pod_config("a", cgroup_parent=f"/{host.name}", ports={18080: 80})
        for _ in range(times):
            begin = time.perf_counter()
            sandbox = cri.run_pod(pod)
            seconds.append(time.perf_counter() - begin)
            cri.stop_pod(sandbox)
            cri.remove_pod(sandbox)
    return seconds
