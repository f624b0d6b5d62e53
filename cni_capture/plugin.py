"""Run the real plugin as libcni would, and let all that it says through as it comes (libcni, pkg/invoke).

On the hot floor, so without `subprocess`, whose import costs more than all the rest.
"""

import _signal as signal  # type: ignore[import-not-found]
import errno
import fcntl
import posix
import select
import time

from cni_capture.call import quote
from cni_capture.capture import LAST_WORDS
from cni_capture.libc import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# Bytes that are read or fed at a time: what a pipe holds.
_CHUNK = 65536
# What a pipe that has any room takes at once (pipe(7), PIPE_BUF). It is the runtime's pipe: no O_NONBLOCK for us.
_ATOMIC = 4096
# Of what a plugin says, this much may wait to be passed on before it has to wait itself.
_BACKLOG = 65536
# Twice what is recorded: a secret at its beginning may be named in what came before.
_KEPT = 2 * LAST_WORDS
_FILE_TYPE, _REGULAR = 0o170000, 0o100000  # stat(7)

_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
# The interpreter ignores these at its start; how it had found them nobody knows, and runtimes leave them alone.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

# As libcni (pkg/invoke/raw_exec.go) means to do with a program that is being written, seconds apart. What it makes of
# one that stays so depends on the Go that it was built with: a plugin that said nothing, or "exec: already started".
_BUSY_TRIES, _BUSY_PAUSE = 6, 1


class CannotRun(Exception):
    """The plugin was not found, or could not be started. The words are those of libcni."""


class Ended:
    """What a plugin said, and how it ended."""

    __slots__ = ("maxrss", "nanoseconds", "status", "stderr", "stderr_length", "stdout", "system_time", "user_time")

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()  # the end of it
        self.stderr_length = 0  # all of it, bytes
        self.status = 0  # as of waitpid(2)
        self.nanoseconds = 0  # from its start to its end
        self.user_time = self.system_time = 0.0  # seconds
        self.maxrss = 0  # KiB

    def keep(self, stream: int, said: bytes) -> None:
        if stream == 1:
            self.stdout += said
        else:
            self.stderr_length += len(said)
            self.stderr += said
            del self.stderr[:-_KEPT]


def find(plugin: str, paths: "Sequence[str]") -> str:
    """The file of a plugin: the first regular one of that name (pkg/invoke/find.go). Raises CannotRun."""
    if "/" in plugin:
        raise CannotRun(f"invalid plugin name: {plugin}")
    if not paths:
        raise CannotRun("no paths provided")
    for folder in paths:
        path = _join(folder, plugin)
        try:
            if posix.stat(_encoded(path)).st_mode & _FILE_TYPE == _REGULAR:
                return path
        except (OSError, ValueError):  # a path that no file can have
            pass
    name = f'"{plugin}"' if plugin.isprintable() and not any(mark in plugin for mark in '"\\') else quote(plugin)
    raise CannotRun(f"failed to find plugin {name} in path [{' '.join(paths)}]")


def _encoded(path: str) -> bytes:
    """A path as the runtime wrote it, whatever encoding Python takes file names to have."""
    return path.encode("utf-8", "surrogateescape")


def _join(folder: str, name: str) -> str:
    """`filepath.Join` of Go, which also cleans."""
    parts: list[str] = []
    for part in f"{folder}/{name}".split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", ".") and not (part == ".." and folder[:1] == "/"):
            parts.append(part)
    return ("/" if folder[:1] == "/" else "") + "/".join(parts)


def run(path: str, environ: "Mapping[bytes, bytes]", stdin: bytes, streams: "Collection[int]") -> Ended:
    """Run the program at `path` with `stdin`, pass on what it says, and return how it ended. Raises CannotRun.

    `streams` are those of the descriptors 1 and 2 that we have been given ourselves; the plugin has no others. Its end
    is the end, whoever else still holds its pipes. Signals that would end us go to the plugin, and when it has ended,
    nowhere: what it did is done.
    """
    ended = Ended()
    for attempt in range(1, _BUSY_TRIES + 1):
        began = time.monotonic_ns()
        signals = _Signals()
        try:
            pid, to_plugin, flows = _start(path, environ, streams, signals)
        except OSError as error:
            signals.restore()
            if error.errno != errno.ETXTBSY or attempt == _BUSY_TRIES:
                why = f"fork/exec {path}: {posix.strerror(error.errno or errno.EINVAL).lower()}"
                raise CannotRun(f"netplugin failed with no error message: {why}") from None
            time.sleep(_BUSY_PAUSE)
        else:
            signals.pass_on_to(pid)
            _converse(pid, to_plugin, memoryview(stdin), flows, ended, signals, began)
            break
    return ended


class _Signals:
    """What we do about signals while a plugin runs: pass them on, and notice its end.

    Held back from the beginning until it is known to run. `arrived` is a pipe that gets a byte for each.
    """

    __slots__ = ("_before", "_mask", "_pid", "_write", "arrived")

    def __init__(self) -> None:
        self._pid = 0
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        self.arrived, self._write = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # With a handler for it children can be waited for, even where the runtime left it ignored (wait(2), ECHILD).
        self._before = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, self._pass_on)}
        for number in _PASSED_ON:
            if signal.getsignal(number) != signal.SIG_IGN:  # what we are to ignore, so is the plugin
                self._before[number] = signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, _: object) -> None:
        if self._pid and number != signal.SIGCHLD:
            try:
                posix.kill(self._pid, number)
            except OSError:  # it has another user's rights
                pass

    def pass_on_to(self, pid: int) -> None:
        """From now on they go to this process."""
        self._pid = pid
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def stop(self) -> None:
        """The process has ended: somebody else may get its number."""
        self._pid = 0

    def restore(self) -> None:
        """As it was before, for us or for the plugin."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        posix.close(self.arrived)
        posix.close(self._write)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


class _Flow:
    """One output of the plugin on its way from `source` (-1: it has ended) to `target`, with what is `waiting`."""

    __slots__ = ("source", "target", "waiting")

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        self.waiting = bytearray()

    def read(self, most: int = _CHUNK) -> bytes:
        """What is there now, of `most` bytes. After the end, b""."""
        try:
            said = posix.read(self.source, most)
        except BlockingIOError:
            return b""
        if not said:
            self.close()
        self.waiting += said
        return said

    def read_rest(self) -> bytes:
        """What is left of a plugin that has ended: no more than its pipe holds. Others may write there for ever."""
        rest = self.read(fcntl.fcntl(self.source, fcntl.F_GETPIPE_SZ))
        self.close()
        return rest

    def write(self) -> None:
        """As much as can be without waiting. If nobody listens any more, the plugin is to notice, too."""
        try:
            del self.waiting[: posix.write(self.target, self.waiting[:_ATOMIC])]
        except BlockingIOError:  # the runtime's own choice, and somebody was faster
            pass
        except OSError:
            self.waiting.clear()
            self.close()

    def close(self) -> None:
        if self.source >= 0:
            posix.close(self.source)
            self.source = -1


def _start(
    path: str, environ: "Mapping[bytes, bytes]", streams: "Collection[int]", signals: _Signals
) -> "tuple[int, int, list[_Flow]]":
    """Start the plugin; return its process ID, our end of its stdin, and its outputs. Raises OSError."""
    ends = {}
    ends[0], to_plugin = posix.pipe2(posix.O_CLOEXEC)
    flows = []
    for number in streams:
        source, ends[number] = posix.pipe2(posix.O_CLOEXEC)
        flows.append(_Flow(source, number))
    told, tell = posix.pipe2(posix.O_CLOEXEC)  # closed by exec when it succeeds
    parent = posix.getpid()
    pid = posix.fork()
    if pid == 0:
        _become(path, environ, ends, signals, parent, tell)
    for fd in (*ends.values(), tell):
        posix.close(fd)
    trouble = posix.read(told, 16)
    posix.close(told)
    if trouble:
        posix.waitpid(pid, 0)
        for fd in (to_plugin, *[flow.source for flow in flows]):
            posix.close(fd)
        raise OSError(int(trouble), "")
    for fd in (to_plugin, *[flow.source for flow in flows]):
        posix.set_blocking(fd, False)
    return pid, to_plugin, flows


def _become(
    path: str, environ: "Mapping[bytes, bytes]", ends: "Mapping[int, int]", signals: _Signals, parent: int, tell: int
) -> None:
    """In the child: become the plugin, or `tell` the number of the error."""
    try:
        for number, end in ends.items():  # exec closes what process.be() has put in place of the others
            posix.dup2(end, number)
        die_with_parent(parent)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signals.restore()
        posix.execve(_encoded(path), [_encoded(path)], environ)
    except OSError as error:
        posix.write(tell, str(error.errno).encode())
    except ValueError:  # a name or a value that no environment can have
        posix.write(tell, str(errno.EINVAL).encode())
    finally:
        posix._exit(127)


def _converse(
    pid: int, to_plugin: int, stdin: memoryview, flows: "Sequence[_Flow]", ended: Ended, signals: _Signals, began: int
) -> None:
    """Feed the plugin and pass on what it says, until it has ended and all that it had said has gone out."""
    running = True
    while running or any(flow.waiting for flow in flows):
        if to_plugin >= 0 and not stdin:
            posix.close(to_plugin)
            to_plugin = -1
        ready = _wait(running, signals.arrived, to_plugin, flows)
        if to_plugin in ready:
            try:
                stdin = stdin[posix.write(to_plugin, stdin[:_CHUNK]) :]
            except BrokenPipeError:  # it does not want to read
                stdin = stdin[:0]
        if signals.arrived in ready:
            posix.read(signals.arrived, _CHUNK)
            done, status, used = posix.wait4(pid, posix.WNOHANG)
            if done:
                signals.stop()
                running, stdin = False, stdin[:0]
                ended.nanoseconds = time.monotonic_ns() - began
                ended.status = status
                ended.user_time, ended.system_time, ended.maxrss = used.ru_utime, used.ru_stime, used.ru_maxrss
        for flow in flows:
            if flow.target in ready and flow.waiting:
                flow.write()
            if flow.source >= 0 and not running:
                ended.keep(flow.target, flow.read_rest())
            elif flow.source in ready:
                ended.keep(flow.target, flow.read())
    if to_plugin >= 0:
        posix.close(to_plugin)


def _wait(running: bool, arrived: int, to_plugin: int, flows: "Sequence[_Flow]") -> "set[int]":
    """The descriptors on which something can be done, as soon as there is one."""
    poll = select.poll()
    if running:
        poll.register(arrived, select.POLLIN)
    if running and to_plugin >= 0:
        poll.register(to_plugin, select.POLLOUT)
    for flow in flows:
        if flow.source >= 0 and len(flow.waiting) < _BACKLOG:
            poll.register(flow.source, select.POLLIN)
        if flow.waiting:
            poll.register(flow.target, select.POLLOUT)
    return {fd for fd, _ in poll.poll()}
