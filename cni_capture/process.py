"""The edge of a probe: the process that it is, from its environment and streams to its exit."""

# The C parts of `signal` and `io`: built into the interpreter, where the modules around them cost an import.
import _signal as signal  # type: ignore[import-not-found]
import _thread
import posix
import sys
from _io import FileIO

from cni_capture.call import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn, Protocol

    class Reader(Protocol):
        def read(self) -> bytes: ...

    class Writer(Protocol):
        def write(self, data: bytes, /) -> object: ...

    # Answers one call: the probe's name, environment and streams in, exit status out; -N is death by signal N.
    Run = Callable[[str, Mapping[str, str], Reader, Writer, Writer], int]

# What a reader looks for first.
_FIRST_VARIABLES = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_PATH")
# Where trouble with recording is explained to a person.
HINT = "hint: cni-capture doctor"
# Seconds that a call which could do without its stdin is given to bring it.
_SOON = 1.0


def be(probe: str, run: "Run") -> "NoReturn":
    """Be the plugin `probe` in this process, from its environment and streams to its exit."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as any plugin: no KeyboardInterrupt, no traceback
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # A closed descriptor would be given to the next file opened, and the log would get what is meant for stderr.
        while posix.open("/dev/null", posix.O_RDONLY) < 2:
            pass
    stdin, stdout, stderr = Stream(0), Stream(1), Stream(2)
    try:
        if len(sys.argv) > 1 or (not posix.environ.get(b"CNI_COMMAND") and posix.isatty(0)):
            from cni_capture.byhand import answer

            posix._exit(answer(probe, sys.argv[1:], stdout, stderr))
        environ = {
            name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
            for name, value in posix.environ.items()
        }
        status = run(probe, environ, stdin, stdout, stderr)
    except BrokenPipeError:  # the interpreter has SIGPIPE ignored; die of it, as the system would have it
        status = -signal.SIGPIPE
    except OSError as error:
        complain(stderr, f"{probe}: the answer could not be written: {error.strerror}")
        status = 1
    if status < 0:
        if -status not in _CANNOT_CHANGE:
            signal.signal(-status, signal.SIG_DFL)
        posix.kill(posix.getpid(), -status)
    posix._exit(status if status >= 0 else 128 - status)


# sigaction(2): no handler for these.
_CANNOT_CHANGE = (signal.SIGKILL, signal.SIGSTOP)


def variables(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Of an environment what is recorded: the CNI variables, what a reader looks for first in front."""
    found = {name: environ[name] for name in _FIRST_VARIABLES if name in environ}
    found.update({name: value for name, value in environ.items() if name[:4] == "CNI_" or name == "TRACEPARENT"})
    return found


def read_soon(stdin: "Reader") -> bytes:
    """What there is on the stdin of a call that could do without: nothing says that it will ever end."""
    read: list[bytes] = []
    finished = _thread.allocate_lock()
    finished.acquire()

    def reading() -> None:
        try:
            read.append(stdin.read())
        except Exception:
            pass
        finished.release()

    _thread.start_new_thread(reading, ())
    finished.acquire(True, _SOON)
    return b"".join(read)


def complain(stderr: "Writer", words: str) -> None:
    """One line for a person; control characters escaped, and nobody hurt if nobody is listening."""
    try:
        stderr.write((quote(words)[1:-1].replace('\\"', '"') + "\n").encode())
    except OSError:
        pass


class Stream:
    """A file descriptor of the process, read or written to its end."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        """All there is, however long it takes. Raises OSError."""
        if not posix.get_blocking(self.fd):  # a runtime's own choice for its end of a socket
            posix.set_blocking(self.fd, True)
        return FileIO(self.fd, closefd=False).readall()

    def write(self, data: bytes, /) -> None:
        """All of it. Raises OSError."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[posix.write(self.fd, rest) :]
            except BlockingIOError:
                posix.set_blocking(self.fd, True)
