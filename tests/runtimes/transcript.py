"""What a container runtime said, did and let pass in one run, to be compared whole with another run's."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Sequence

from tests.runtimes import image, traffic
from tests.runtimes.host import Host
from tests.runtimes.observe import observe, steady


class Transcript:
    """Of one run in one host; `names` says what to call the IDs that chance chose, the longer first."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.names = {host.name: "HOST"}
        self._parts: list[str] = []

    def note(self, text: str) -> None:
        self._parts.append(text)

    def note_command(self, words: str, done: subprocess.CompletedProcess[str]) -> None:
        self.note(f"$ {words}\nexit {done.returncode}\n{done.stdout}{done.stderr}")

    def look(self, netns: str) -> None:
        """Note all that is to be seen of a pod."""
        self.note(observe(self.host, netns))

    def send(self, netns: str, gateway: str, ports: Sequence[int] = ()) -> None:
        """Note what passes from a pod to its gateway and outside, and back over `ports` of the host."""
        for address in (gateway, traffic.OUTSIDE_ADDRESS):
            self.note(f"{address} answers: {traffic.ping(self.host, netns, address)}")
        for port in ports:
            for client in ("outside", netns):
                greeting = image.greeting(self.host, client, traffic.HOST_ADDRESS, port)
                self.note(f"port {port} from {client}: {greeting}")

    def look_at_host(self) -> None:
        """Note all that is to be seen without a pod; the neighbour outside is nobody's pod."""
        self.note(observe(self.host, "outside"))

    def lines(self) -> list[str]:
        """The transcript without what chance decided, nor the time that logrus puts in front of a warning."""
        text = re.sub(r'time="[^"]+"', "time=now", "\n".join(self._parts))
        return steady(text, self.names).splitlines()


def assert_same(without: Transcript, with_probes: Transcript) -> None:
    """Two runs must have the same transcript; the error shows what differs as `diff -u` does, and all of it."""
    both = without.lines(), with_probes.lines()
    if both[0] != both[1]:
        raise AssertionError("\n".join(difflib.unified_diff(*both, "without probes", "with probes", lineterm="")))
