"""Finding plugins and running them: what they get, and what their failure is called (libcni's pkg/invoke)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cni_capture.libcni.gojson import GoError, parse, quote
from cni_capture.libcni.gotypes import Integer, String, Struct, attempt

_ERROR = Struct("types.Error", {"code": Integer("uint", 0, 2**64 - 1), "msg": String(), "details": String()})
_BUSY_TRIES = 6


@dataclass(frozen=True)
class Answer:
    """What a plugin did: its two streams, and, unless it ended with 0, what became of it in Go's words.

    `returncode` is its exit status, -N for signal N, None for a plugin that was not run.
    """

    stdout: bytes
    stderr: bytes = b""
    failure: str = ""
    returncode: int | None = None


Execute = Callable[[str, bytes, Mapping[str, str]], Answer]
"""Runs the program at a path with this stdin and exactly this environment."""


class PluginError(GoError):
    """A plugin failed. The text is libcni's: `msg; details`.

    `stderr` is what the plugin wrote there and libcni keeps from its caller.
    """

    def __init__(self, msg: str, details: str = "", *, code: int = 0, stderr: bytes = b"") -> None:
        super().__init__(f"{msg}; {details}" if details else msg)
        self.msg, self.details, self.code, self.stderr = msg, details, code, stderr


def find(plugin: str, paths: Sequence[str]) -> str:
    """The first regular file of that name on the path (invoke.FindInPath). Raises GoError."""
    if "/" in plugin:
        raise GoError(f"invalid plugin name: {plugin}")
    if not paths:
        raise GoError("no paths provided")
    for path in paths:
        candidate = os.path.normpath(os.path.join(path, plugin))
        if os.path.isfile(candidate):
            return candidate
    raise GoError(f"failed to find plugin {quote(plugin.encode())} in path [{' '.join(paths)}]")


def stdout_of(answer: Answer) -> bytes:
    """What a plugin printed, if it ended well. Raises PluginError (RawExec.pluginErr)."""
    if not answer.failure:
        return answer.stdout
    if not answer.stdout:
        if answer.stderr:
            raise PluginError(f"netplugin failed: {quote(answer.stderr)}")
        raise PluginError(f"netplugin failed with no error message: {answer.failure}")
    error: dict[str, Any] = _ERROR.zero()
    fault: GoError | None
    try:
        error, fault = attempt(parse(answer.stdout), _ERROR)
    except GoError as syntax:
        fault = syntax
    msg = error["msg"]
    if fault is not None:
        msg = f"netplugin failed but error parsing its diagnostic message {quote(answer.stdout)}: {fault}"
    raise PluginError(msg, error["details"], code=error["code"], stderr=answer.stderr)


def execute(
    path: str, stdin: bytes, environ: Mapping[str, str], *, pause: Callable[[], None] = lambda: time.sleep(1)
) -> Answer:
    """Run a plugin and wait for it, without a limit, as libcni does; an interrupt kills it.

    A program that is being written ("text file busy") is tried six times, a second apart; then, as in libcni,
    it counts as one that said nothing and ended well.
    """
    for _ in range(_BUSY_TRIES):
        try:
            return _ran(path, stdin, environ)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                return Answer(b"", b"", f"fork/exec {path}: {_as_go(os.strerror(error.errno or 0))}")
            pause()
    return Answer(b"")


def _ran(path: str, stdin: bytes, environ: Mapping[str, str]) -> Answer:
    pipe = subprocess.PIPE
    plugin = subprocess.Popen(
        [path], executable=os.path.abspath(path), stdin=pipe, stdout=pipe, stderr=pipe, env=environ
    )
    try:
        stdout, stderr = plugin.communicate(stdin)
    except BaseException:
        # subprocess.run would go without waiting, and leave the plugin to whoever comes after us.
        plugin.kill()
        plugin.wait()
        raise
    return Answer(stdout, stderr, ending(plugin.returncode), plugin.returncode)


def ending(returncode: int) -> str:
    """How a program ended, -N for signal N, as os.ProcessState.String of Go has it; "" for 0.

    That a core was dumped is not said: Python does not tell.
    """
    if returncode < 0:
        number = -returncode
        # Go has no names for real-time signals.
        name = signal.strsignal(number) if number < signal.SIGRTMIN else None
        return f"signal: {_as_go(name or f'signal {number}')}"
    return f"exit status {returncode}" if returncode else ""


def _as_go(text: str) -> str:
    """The C library's texts, in lower case as Go has them, save for abbreviations (CPU, I/O)."""
    return text if text[1:2].isupper() or text[1:2] == "/" else text[:1].lower() + text[1:]
