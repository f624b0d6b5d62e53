"""capture-wrap: stands in for one plugin, runs it, and writes down what it got, what it said and how it ended."""

import _signal as signal  # type: ignore[import-not-found]
import _thread
import posix
import sys
import time
from _io import FileIO

from cni_capture import reply
from cni_capture.call import INTERNAL, IO_FAILURE, Call, CNIError, quote, read_config, read_verb
from cni_capture.capture import Sight, capture
from cni_capture.libc import leave_no_core
from cni_capture.plugin import CannotRun, Ended, find, run
from cni_capture.process import HINT, be, complain, read_soon, variables
from cni_capture.standin import StandIn, read_stand_in, settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from cni_capture.process import Reader, Writer


def main(probe: str) -> "NoReturn":
    """Be capture-wrap in this process."""
    be(probe, stand_in)


def stand_in(probe: str, environ: "Mapping[str, str]", stdin: "Reader", stdout: "Writer", stderr: "Writer") -> int:
    """Run the plugin that the configuration names as if we were not there, record it, and return how it ended.

    What the plugin says goes to the descriptors 1 and 2 of this process; `stdout` and `stderr` get what we have to say
    ourselves: that there is no such plugin, and, after a call that succeeded, what was in the way of recording.
    """
    times = time.time_ns(), time.monotonic_ns()
    call = Call(variables(environ))
    real = _read_call(call, stdin)
    if real is not None:
        return _Stand(probe, call, real).run(environ, times, stdout, stderr)
    if call.verb == "VERSION":  # nobody says whose; libcni sends no configuration with it
        stdout.write(reply.version().encode())
        return 0
    text = call.config.text if call.config else None
    source = settings_of(call.config) if call.config else None
    trouble = capture(probe, call, source, Sight(times, "entry", "input", call.stdin, text))
    stdout.write(reply.error(call.error, call.config).encode() if call.error else b"")
    if trouble:
        complain(stderr, f"{probe}: {trouble}; {HINT}")
    return 1


def _read_call(call: Call, stdin: "Reader") -> "StandIn | None":
    """Read the rest of a call; return for whom we stand in. None: then its `error` is set.

    A wrong call is for the plugin to refuse. It may do without stdin, and so does VERSION.
    """
    call.verb = call.environ.get("CNI_COMMAND", "")
    try:
        try:
            soon = read_verb(call.environ) == "VERSION"
        except CNIError:
            soon = True
        call.stdin = read_soon(stdin) if soon else stdin.read()
        call.config = read_config(call.stdin)
        return read_stand_in(call.config)
    except CNIError as error:
        call.error = error
    except OSError as error:
        call.error = CNIError(IO_FAILURE, "network configuration could not be read", str(error))
    except Exception as error:
        call.error = CNIError(INTERNAL, "the probe failed", f"{type(error).__name__}: {error}")
    return None


class _Stand:
    """One run of the real plugin, and its two records."""

    __slots__ = ("call", "facts", "probe", "real", "troubles")

    def __init__(self, probe: str, call: Call, real: StandIn) -> None:
        self.probe = probe
        self.call = call
        self.real = real
        self.facts = {"plugin": quote(real.type)}
        self.troubles: dict[str, None] = {}

    def run(self, environ: "Mapping[str, str]", times: "tuple[int, int]", stdout: "Writer", stderr: "Writer") -> int:
        """Find the plugin, record what it gets, run it, record what came of it; return its exit status, or -N."""
        config = self.real.config.encode()
        paths = environ.get("CNI_PATH", "")
        try:
            try:
                path = find(self.real.type, paths.split(":") if paths else [])
                self.facts["path"] = quote(path)
            finally:  # what it would have got is worth knowing, too
                self._record(Sight(times, "entry", "input", config, self.real.config, self.facts))
            streams = [number for number, stream in ((1, sys.stdout), (2, sys.stderr)) if stream is not None]
            ended = run(path, _environment(), config, streams)
        except CannotRun as error:
            return self._could_not_run(error, stdout)
        self._record_end(ended)
        status = posix.waitstatus_to_exitcode(ended.status)
        if status < 0 and not (posix.WCOREDUMP(ended.status) and _has_room_for_two_cores()):
            leave_no_core()
        if status == 0 and self.troubles:
            complain(stderr, f"{self.probe}: {'; '.join(self.troubles)}; {HINT}")
        return status

    def _could_not_run(self, error: CannotRun, stdout: "Writer") -> int:
        """Answer as libcni, which does not find or start the plugin now, would have seen it."""
        self.call.error = CNIError(INTERNAL, str(error))
        answer = reply.error(self.call.error, self.call.config)
        times = time.time_ns(), time.monotonic_ns()
        self._record(Sight(times, "exit", "output", answer.encode(), answer, self.facts))
        stdout.write(answer.encode())
        return 1

    def _record_end(self, ended: Ended) -> None:
        times = time.time_ns(), time.monotonic_ns()
        self.facts.update(ending(posix.waitstatus_to_exitcode(ended.status)))
        self.facts["milliseconds"] = f"{ended.nanoseconds / 1e6:.3f}"
        self.facts["userMilliseconds"] = f"{ended.user_time * 1e3:.3f}"
        self.facts["systemMilliseconds"] = f"{ended.system_time * 1e3:.3f}"
        self.facts["maxRssKiB"] = str(ended.maxrss)
        self.facts["stderrBytes"] = str(ended.stderr_length)
        raw = bytes(ended.stdout)
        try:
            text = read_config(raw).text
        except Exception:  # logs mixed in, two results, nothing at all: recorded as it is
            text = None
        self._record(Sight(times, "exit", "output", raw, text, self.facts, bytes(ended.stderr)))

    def _record(self, sight: Sight) -> None:
        if self.call.verb != "VERSION":
            done = _thread.allocate_lock()
            done.acquire()

            def work() -> None:
                trouble = capture(self.probe, self.call, self.real.settings, sight)
                if trouble:
                    self.troubles[trouble] = None  # said once, if it is the same with both records
                done.release()

            # In a thread, since a look at the interfaces may leave it in the container's namespace: the plugin is to
            # run in the runtime's.
            try:
                _thread.start_new_thread(work, ())
            except RuntimeError:
                self.troubles["not recorded: this user or group may have no more threads"] = None
            else:
                done.acquire()


def _environment() -> "Mapping[bytes, bytes]":
    """The environment as it was given to us: in the C locale Python has added LC_CTYPE to its own (PEP 538)."""
    try:
        given = FileIO("/proc/self/environ").readall()
    except OSError:
        return posix.environ
    found: dict[bytes, bytes] = {}
    for entry in given.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals:
            found.setdefault(name, value)
    return found


def _has_room_for_two_cores() -> bool:
    """Whether we can die as the plugin did, to the last bit of the status, and not write over its core (core(5))."""
    try:
        pattern = FileIO("/proc/sys/kernel/core_pattern").readall()
        return pattern[:1] == b"|" or b"%p" in pattern or FileIO("/proc/sys/kernel/core_uses_pid").readall() != b"0\n"
    except OSError:
        return False


def ending(status: int) -> "dict[str, str]":
    """How a plugin ended, as the fact of a record: an exit status, or -N for signal N."""
    return {"exitStatus": str(status)} if status >= 0 else {"signal": quote(_name(-status))}


def _name(number: int) -> str:
    """The name of a signal: SIGKILL, SIGRTMIN+2."""
    names = [name for name in dir(signal) if name[:3] == "SIG" and name[3] != "_" and getattr(signal, name) == number]
    return names[0] if names else f"SIGRTMIN+{number - signal.SIGRTMIN}"
