"""capture-pre and capture-post: plugins that do nothing to the network, and write down what passes."""

# The C parts of `signal` and `io`: built into the interpreter, where the modules around them cost an import.
import _signal as signal  # type: ignore[import-not-found]
import _thread
import posix
import sys
import time
from _io import FileIO

from cni_capture import reply
from cni_capture.call import INTERNAL, IO_FAILURE, Call, CNIError, quote, read_config, read_verb
from cni_capture.capture import capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn, Protocol

    class Reader(Protocol):
        def read(self) -> bytes: ...

    class Writer(Protocol):
        def write(self, data: bytes, /) -> object: ...


# Spec, "Deriving execution parameters from plugin configuration": DEL runs the list backward, all else forward.
_SIDE = {"capture-pre": "entry", "capture-post": "exit"}
_SIDE_ON_DEL = {"capture-pre": "exit", "capture-post": "entry"}
# What a reader looks for first.
_FIRST_VARIABLES = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_PATH")

# Seconds that a call which is wrong anyway is given to bring its stdin.
_SOON = 1.0


def main(probe: str) -> "NoReturn":
    """Be the plugin `probe` in this process, from its environment and streams to its exit."""
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
        posix._exit(run(probe, environ, stdin, stdout, stderr))
    except BrokenPipeError:  # the interpreter has SIGPIPE ignored; die of it, as the system would have it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        posix.kill(posix.getpid(), signal.SIGPIPE)
    except OSError as error:
        _complain(stderr, f"{probe}: the answer could not be written: {error.strerror}")
    posix._exit(1)


def run(probe: str, environ: "Mapping[str, str]", stdin: "Reader", stdout: "Writer", stderr: "Writer") -> int:
    """Answer one call as `probe`, record it, and return the exit status: 0, or 1 with a CNI error object on stdout.

    The answer is decided before recording is tried, and nothing that happens there reaches it. Raises OSError when the
    answer could not be written.
    """
    times = time.time_ns(), time.monotonic_ns()
    call = read_call(environ, stdin)
    answer = _answer(call)
    side = (_SIDE_ON_DEL if call.verb == "DEL" else _SIDE)[probe]
    if call.verb == "VERSION":
        trouble = ""
    elif probe == "capture-post" and call.verb == "ADD" and not call.error:
        trouble = capture(probe, call, times, side, "output", answer.encode(), answer)
    else:
        text = call.config.text if call.config else None
        trouble = capture(probe, call, times, side, "input", call.stdin, text)
    try:
        stdout.write(answer.encode())
    finally:
        if trouble:
            _complain(stderr, f"{probe}: {trouble}")
    return 1 if call.error else 0


def read_call(environ: "Mapping[str, str]", stdin: "Reader") -> Call:
    """The call in environment and stdin; what is wrong with it, if anything, is its `error`."""
    variables = {name: environ[name] for name in _FIRST_VARIABLES if name in environ}
    variables.update({name: value for name, value in environ.items() if name[:4] == "CNI_" or name == "TRACEPARENT"})
    call = Call(variables)
    try:
        try:
            call.verb = read_verb(variables)
        except CNIError as error:
            call.error = error
        if call.verb != "VERSION":  # the reference code answers it without reading, so runtimes need not write
            call.stdin = _read_soon(stdin) if call.error else stdin.read()
            call.config = read_config(call.stdin)
    except CNIError as error:
        call.error = call.error or error
    except OSError as error:
        call.error = call.error or CNIError(IO_FAILURE, "network configuration could not be read", str(error))
    except Exception as error:
        call.error = call.error or CNIError(INTERNAL, "the probe failed", f"{type(error).__name__}: {error}")
    return call


def _read_soon(stdin: "Reader") -> bytes:
    """What a wrong call has on stdin, for the record only: nothing says that it will ever end."""
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


def _answer(call: Call) -> str:
    if call.error:
        return reply.error(call.error, call.config)
    if call.verb == "VERSION":
        return reply.version()
    if call.verb == "ADD" and call.config:
        return reply.result(call.config)
    return ""


def _complain(stderr: "Writer", words: str) -> None:
    """One line for a person; control characters escaped, and nobody hurt if nobody is listening."""
    try:
        stderr.write(f"{quote(words)[1:-1]}\n".encode())
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
