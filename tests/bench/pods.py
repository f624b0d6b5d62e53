"""What two probes add to the start of a pod: on each runtime, with and without them in turn, medians."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from _pytest.outcomes import Failed, Skipped

from tests.runtimes import containerd, image, podman, tools
from tests.runtimes.host import Host
from tests.runtimes.probes import Entry, around

# Of a chain, how long each of so many starts took, in seconds.
Start = Callable[[Sequence[Entry], int], list[float]]

_STARTS_IN_A_ROW = 5


def rows(scratch: Path, rounds: int) -> Iterator[str]:
    """The lines of a Markdown table. A row's machines are made anew in each round, five starts on each."""
    yield f"| start of a pod, median of {rounds * _STARTS_IN_A_ROW} | without, ms | with two probes, ms | added, ms |"
    yield "| --- | ---: | ---: | ---: |"
    for name, plugins, first, start in _runtimes(scratch):
        without: list[float] = []
        with_probes: list[float] = []
        try:
            tools.need("ip", "podman", "containerd", "runc")
            for _ in range(rounds):
                without += start(plugins, _STARTS_IN_A_ROW)
                with_probes += start(around(plugins, "text", first), _STARTS_IN_A_ROW)
        except (Failed, Skipped) as why:
            print(f"left out, {name}: {why}", file=sys.stderr)
            continue
        a, b = (statistics.median(values) * 1000 for values in (without, with_probes))
        yield f"| {name} | {a:.0f} | {b:.0f} | {b - a:+.0f} |"


def _runtimes(scratch: Path) -> Iterator[tuple[str, Sequence[Entry], int, Start]]:
    """Name, chain, where the pre goes in it, and what starts a pod on it."""
    archive = image.write_image(scratch / "image.tar")
    bridge = podman.bridge("cni-podman1", 1)
    yield "cnitool add: bridge, portmap, firewall, tuning", bridge, 0, _cnitool
    yield "podman run: the same", bridge, 1, lambda plugins, times: podman.start_seconds(archive, plugins, times)
    chain = containerd.CHAIN
    yield (
        "containerd RunPodSandbox, Debian: bridge, portmap, bandwidth, firewall, tuning",
        chain,
        0,
        lambda plugins, times: containerd.start_seconds(archive, plugins, times, tools.DEBIAN_PLUGINS),
    )
    yield (
        f"containerd {tools.go_version('containerd')} RunPodSandbox: the same",
        chain,
        0,
        lambda plugins, times: containerd.start_seconds(
            archive, plugins, times, tools.go_folder("plugins"), tools.go_folder("containerd")
        ),
    )


def _cnitool(plugins: Sequence[Entry], times: int) -> list[float]:
    seconds = []
    tools.need("ip")
    with Host() as host:
        host.write(
            "/etc/cni/net.d/web.conflist", json.dumps({"cniVersion": "1.0.0", "name": "web", "plugins": plugins})
        )
        host.run(["ip", "netns", "add", "pod"])
        env = {"CNI_PATH": f"{tools.DEBIAN_PLUGINS}:{tools.PROBES}"}
        command = [str(tools.go_tool("cnitool"))]
        for _ in range(times):
            began = time.perf_counter()
            host.run([*command, "add", "web", "/run/netns/pod"], env=env)
            seconds.append(time.perf_counter() - began)
            host.run([*command, "del", "web", "/run/netns/pod"], env=env)
    return seconds
