"""capture-pre and capture-post: plugins that do nothing to the network, and write down what passes."""

import time

from cni_capture import reply
from cni_capture.call import INTERNAL, IO_FAILURE, Call, CNIError, read_config, read_verb
from cni_capture.capture import Sight, capture
from cni_capture.process import HINT, be, complain, read_soon, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from cni_capture.process import Reader, Writer


# Spec, "Deriving execution parameters from plugin configuration": DEL runs the list backward, all else forward.
_SIDE = {"capture-pre": "entry", "capture-post": "exit"}
_SIDE_ON_DEL = {"capture-pre": "exit", "capture-post": "entry"}


def main(probe: str) -> "NoReturn":
    """Be `probe` in this process."""
    be(probe, run)


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
        trouble = capture(probe, call, call.config, Sight(times, side, "output", answer.encode(), answer))
    else:
        text = call.config.text if call.config else None
        trouble = capture(probe, call, call.config, Sight(times, side, "input", call.stdin, text))
    try:
        stdout.write(answer.encode())
    finally:
        if trouble:
            complain(stderr, f"{probe}: {trouble}; {HINT}")
    return 1 if call.error else 0


def read_call(environ: "Mapping[str, str]", stdin: "Reader") -> Call:
    """The call in environment and stdin; what is wrong with it, if anything, is its `error`."""
    call = Call(variables(environ))
    try:
        try:
            call.verb = read_verb(call.environ)
        except CNIError as error:
            call.error = error
        if call.verb != "VERSION":  # the reference code answers it without reading, so runtimes need not write
            call.stdin = read_soon(stdin) if call.error else stdin.read()
            call.config = read_config(call.stdin)
    except CNIError as error:
        call.error = call.error or error
    except OSError as error:
        call.error = call.error or CNIError(IO_FAILURE, "network configuration could not be read", str(error))
    except Exception as error:
        call.error = call.error or CNIError(INTERNAL, "the probe failed", f"{type(error).__name__}: {error}")
    return call


def _answer(call: Call) -> str:
    if call.error:
        return reply.error(call.error, call.config)
    if call.verb == "VERSION":
        return reply.version()
    if call.verb == "ADD" and call.config:
        return reply.result(call.config)
    return ""
