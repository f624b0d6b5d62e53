"""A call made again: where nobody is hurt, and recorded as capture-wrap would record it."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from cni_capture import call as calls
from cni_capture import netns
from cni_capture.call import CNIError, quote, read_config
from cni_capture.capture import Sight, capture
from cni_capture.libcni import invoke
from cni_capture.libcni.invoke import Answer
from cni_capture.process import variables
from cni_capture.replay.calls import Call
from cni_capture.wrap import ending

# The writer of these records: capture-wrap in all but name, so that who looks for real calls does not find them.
PROBE = "cni-capture"
_AS_SPLICED = read_config(b'{"logFormat":"json"}')


@dataclass(frozen=True)
class Place:
    """The namespace and the container ID of a replay; `is_ours` when we have made the namespace."""

    netns: str
    container_id: str
    is_ours: bool

    def names(self, call: Call) -> dict[str, str]:
        """What is called differently here, and what it is called in the log."""
        pairs = ((self.netns, call.netns), (self.container_id, call.container_id))
        return {new: old for new, old in pairs if new and old and new != old}

    def stdin(self, call: Call) -> bytes:
        """The recorded stdin, for this namespace: a prevResult names it."""
        return call.stdin.replace(call.netns.encode(), self.netns.encode()) if call.netns else call.stdin


@contextlib.contextmanager
def place(call: Call, netns_path: str | None, container_id: str | None) -> Iterator[Place]:
    """Where to make the call: in `netns_path`, else in a namespace that is made for it and gone afterwards.

    A container that is alive keeps its ID for itself, unless the caller names one: its plugins would take its addresses
    away together with those of the replay. Raises UserError.
    """
    is_alive = netns_path is None and bool(call.netns) and os.path.exists(call.netns)
    other = f"replay-{secrets.token_hex(6)}" if call.container_id and is_alive else call.container_id
    chosen = container_id or other
    if netns_path is not None or not call.netns:  # a DEL without a namespace is about what is gone already
        yield Place(call.netns if netns_path is None else netns_path, chosen, False)
        return
    name = f"replay-{os.getpid()}"
    path = netns.create(name)
    try:
        yield Place(str(path), chosen, True)
    finally:
        netns.remove(name)


def environment(call: Call, where: Place) -> dict[str, str]:
    """The environment of the call: ours, with the recorded variables, and with the settings of probes that we have."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("CNI_")}
    settings = {name: value for name, value in os.environ.items() if name.startswith("CNI_CAPTURE_")}
    named = {"CNI_NETNS": where.netns, "CNI_CONTAINERID": where.container_id}
    there = {name: value for name, value in named.items() if name in call.environ}
    return {**given, **settings, **call.environ, **there}


class Recorder:
    """Runs plugins as libcni does, and records each as capture-wrap would. `complain` is told what is in the way."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain

    def __call__(self, path: str, stdin: bytes, environ: Mapping[str, str]) -> Answer:
        """An invoke.Execute."""
        call = calls.Call(variables(environ))
        call.verb, call.stdin = environ.get("CNI_COMMAND", ""), stdin
        text = None
        with contextlib.suppress(CNIError):
            call.config = read_config(stdin)
            text = call.config.text
        facts = {"plugin": quote(PurePath(path).name), "path": quote(path)}
        self._record(call, Sight(_now(), "entry", "input", stdin, text, facts))
        began = time.monotonic_ns()
        answer = invoke.execute(path, stdin, environ)
        facts |= {"milliseconds": f"{(time.monotonic_ns() - began) / 1e6:.3f}", **_ending(answer)}
        try:
            text = read_config(answer.stdout).text
        except CNIError:
            text = None
        self._record(call, Sight(_now(), "exit", "output", answer.stdout, text, facts, answer.stderr))
        return answer

    def _record(self, call: calls.Call, sight: Sight) -> None:
        # Unless somebody has said otherwise, as `splice` has it: a text record would be in the way of jq.
        settings = None if "CNI_CAPTURE_LOG_FORMAT" in call.environ else _AS_SPLICED

        def work() -> None:
            if trouble := capture(PROBE, call, settings, sight):
                self._complain(trouble)

        # In a thread, since a look at the interfaces may leave it in the container's namespace.
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def _ending(answer: Answer) -> dict[str, str]:
    facts = {"stderrBytes": str(len(answer.stderr))}
    if answer.returncode is None:
        return facts | {"error": f'{{"code":{calls.INTERNAL},"msg":{quote(answer.failure)}}}'}
    return facts | ending(answer.returncode)


def _now() -> tuple[int, int]:
    return time.time_ns(), time.monotonic_ns()
