"""A container runtime in two hosts, without probes in one and with them in the other, and the comparison of the two.

To add one: a module that starts it in a Host and talks to it (podman.py is the shortest); in its test a Lab of its own,
whose methods drive it and note in the transcript what it says; scenarios, which run_both() runs and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tests.runtimes import traffic
from tests.runtimes.host import Host
from tests.runtimes.probes import Entry, Seen, around, logged
from tests.runtimes.shown import assert_shown
from tests.runtimes.transcript import Transcript, assert_same


class Lab:
    """A host with an outside, the transcript of what is done in it, and the results that libcni got meanwhile.

    `results` are of network name, container ID and the last plugin's result.
    """

    def __init__(self, host: Host, spec: str, log_format: str, probes: bool) -> None:
        self.host = host
        self.transcript = Transcript(host)
        self.results: list[tuple[str, str, Any]] = []
        self._spec = spec
        self._log_format = log_format
        self._probes = probes
        traffic.add_outside(host)

    def spliced(self, plugins: Sequence[Entry], first: int = 0) -> Sequence[Entry]:
        """The plugins with probes around them, or, in the run without, as they are; `first` is where the pre goes."""
        return around(plugins, self._log_format, first) if self._probes else plugins

    def put(self, path: str, name: str, plugins: Sequence[Entry]) -> None:
        """Put a network where a runtime looks for it, as a careful editor does: whole, by rename."""
        conflist = {"cniVersion": self._spec, "name": name, "plugins": plugins}
        new = self.host.write(f"{path}.new", json.dumps(conflist))
        self.host.path(new).rename(self.host.path(path))

    def keep_result(self, network: str, container: str, ifname: str = "eth0") -> None:
        """Keep what libcni has cached of an attachment, once for each ADD."""
        cached = json.loads(self.host.read(f"/var/lib/cni/results/{network}-{container}-{ifname}"))
        kept = (network, self.transcript.names.get(container, container), cached["result"])
        if kept not in self.results:
            self.results.append(kept)


L = TypeVar("L", bound=Lab)
R = TypeVar("R")


def play_both(
    make: Callable[[Host, bool], L], scenario: Callable[[L], None], read: Callable[[Host], Sequence[R]]
) -> tuple[L, Sequence[R]]:
    """Run a scenario in a lab without and in one with probes: what was said, seen and sent must be the same.

    And `cni-capture show` must tell what the log holds. Returns the lab with probes, and what `read` made of its log.
    """
    transcripts = []
    for probes in (False, True):
        with Host() as host:
            lab = make(host, probes)
            scenario(lab)
            transcripts.append(lab.transcript)
            log = read(host)
            assert_shown(host)
    assert_same(*transcripts)
    return lab, log


def run_both(make: Callable[[Host, bool], L], scenario: Callable[[L], None], records: Sequence[Seen]) -> None:
    """The same with pairs of probes: the log must hold just these `records`, with the results that libcni got.

    Attachments of several networks or containers come in any order, so their records are sorted by network and
    container.
    """
    lab, read = play_both(make, scenario, logged)
    names = lab.transcript.names
    log = [(replace(seen, container=names.get(seen.container, seen.container)), body) for seen, body in read]
    log.sort(key=lambda record: (record[0].network, record[0].container))
    assert sorted(records, key=lambda seen: (seen.network, seen.container)) == [seen for seen, _ in log]
    results = sorted(lab.results, key=lambda result: result[:2])
    assert results == [(seen.network, seen.container, body) for seen, body in log if seen.what == "output"]
