"""What the plugin behind capture-wrap answered, and what libcni makes of that (pkg/invoke). No I/O."""

from __future__ import annotations

import re
import signal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from cni_capture.call import CNIError, read_config
from cni_capture.libcni.gojson import GoError, SyntaxFault, parse, quote
from cni_capture.libcni.gotypes import Mismatch
from cni_capture.libcni.invoke import Answer, PluginError, ending, stdout_of
from cni_capture.libcni.result import from_stdout
from cni_capture.reading.records import Record, captured, decode, facts, text_of
from cni_capture.story.faults import SUCCESS, Fault

# Bytes of stdout. Reading as libcni does takes Python a second for four times as much, and no result is so large.
_MOST = 256 * 1024
# What stands in the log for a secret (redact.py).
_REDACTED = b"[redacted]"
# A limit of `gojson`, and not that of Go.
_TOO_DEEP = "exceeded max depth"


def fault(exit: Record) -> Fault | None:
    """What is wrong with an exit record of capture-wrap; None when the call went well, for libcni and the plugin."""
    if exit.error:
        error = decode(bytes(exit.error))
        return Fault(error if isinstance(error, dict) else {})
    if exit.signal or exit.exit_status:
        return _failure(exit)
    return None if _is_usual(exit) else _odd_success(exit)


def answer(exit: Record) -> Answer:
    """What libcni saw of the plugin: its two streams (of stderr the end), and how it ended.

    Of one that could not be run it saw what capture-wrap says then, and that this ends with 1.
    """
    code = -_number(exit.signal) if exit.signal else 1 if exit.error else exit.exit_status
    return Answer(captured(exit), stderr(exit), ending(code), code)


def stderr(exit: Record) -> bytes:
    """The last 64 KB of what the plugin wrote there."""
    raw = facts(exit).get("stderr", b"")
    return text_of(raw) if raw[:1] == b'"' else b""


def _odd_success(exit: Record) -> Fault | None:
    """Of a plugin that ended with 0 and did not print what is usual."""
    stdout = captured(exit)
    said = _error_object(stdout)
    if exit.env.command == "ADD":
        broken = _broken(exit, stdout)
        if broken:
            text = f"failed to unmarshal raw result: {broken.libcni}" if broken.libcni else ""
            return Fault(said, SUCCESS, broken.reason, text, broken.at)
        try:
            if len(stdout) <= _MOST:
                from_stdout(stdout, exit.cni_version)
        except GoError as error:
            if not _is_ours(exit, error):
                reason = f"{error} (libcni refuses this result)"
                return Fault(said, SUCCESS, reason, str(error), _place(stdout, error))
    if not said:
        return None
    taken = "takes the error object for an empty result" if exit.env.command == "ADD" else "reads no error object"
    return Fault(said, SUCCESS, f"with exit status 0 libcni {taken}")


def _failure(exit: Record) -> Fault:
    """Of a plugin that did not end with 0."""
    seen = answer(exit)
    ended = f"killed by {exit.signal}" if exit.signal else seen.failure
    if not seen.stdout:
        return Fault({}, ended, "", _words_of(seen) if _has_whole_stderr(exit, seen.stderr) else "")
    said = _error_object(seen.stdout)
    broken = _broken(exit, seen.stdout)
    if broken:
        is_whole = broken.libcni and len(seen.stdout) <= _MOST and "redacted" not in facts(exit)
        return Fault(said, ended, broken.reason, _words_of(seen) if is_whole else "", broken.at)
    if len(seen.stdout) > _MOST:
        return Fault(said, ended)
    try:
        stdout_of(seen)
    except PluginError as error:
        why = error.msg.partition(f"{quote(seen.stdout)}: ")[2]
        if why == _TOO_DEEP:
            return Fault(said, ended)
        if why:  # JSON, and not the members that an error object has
            key = re.search(r"field Error\.(\w+)", why)
            place = _place_of(seen.stdout, key[1] if key else "")
            return Fault(said, ended, f"stdout is no error object: {why}", str(error), place)
        if said.get("msg") != error.msg or said.get("details", "") != error.details:  # keys in other case, or twice
            read = {"code": error.code, "msg": error.msg, "details": error.details}
            said = {key: value for key, value in read.items() if value}
    if said.get("msg") or said.get("details"):
        return Fault(said, ended)
    return Fault({}, ended, "stdout is no error object, and libcni's error is empty")


def _words_of(seen: Answer) -> str:
    """libcni's, of a failure."""
    try:
        stdout_of(seen)
    except PluginError as error:
        return str(error)
    return ""


def _has_whole_stderr(exit: Record, said: bytes) -> bool:
    """Whether the log has all of it, and no secret was cut out."""
    return _REDACTED not in said and decode(facts(exit).get("stderrBytes", b"")) == len(said)


def _error_object(stdout: bytes) -> dict[str, Any]:
    """The error object of the spec (section 5, "Error") on stdout, as a person reads it; empty when there is none."""
    found = decode(stdout)
    is_one = isinstance(found, dict) and isinstance(found.get("msg"), str) and bool(found.get("code"))
    return found if is_one else {}


class _Broken(NamedTuple):
    """Stdout that is not one JSON document: in a phrase, in the words of libcni, and the byte of which these are."""

    reason: str
    libcni: str = ""
    at: int | None = None


def _broken(exit: Record, stdout: bytes) -> _Broken | None:
    """What is wrong with stdout as JSON; None when nothing is.

    The beginning is read as libcni does. Where that does not tell, for want of the rest, there are no words of libcni.
    """
    is_cut = exit.body[:1] == b'"' and "redacted" in facts(exit) and stdout.endswith(_REDACTED)
    known = stdout.removesuffix(_REDACTED)[:_MOST] if is_cut else stdout[:_MOST]
    try:
        parse(known)
    except SyntaxFault as error:
        words = str(error)
        if words != _TOO_DEEP and (error.at < len(known) or len(known) == len(stdout)):
            return _Broken(_phrase(stdout, words), words, error.at)
    else:
        if len(known) == len(stdout):
            return None
    if is_cut:
        return _Broken("stdout is not JSON; where, is not in the log, since a secret was cut out")
    return None if _is_json(stdout) else _Broken("stdout is not JSON")


def _phrase(stdout: bytes, words: str) -> str:
    if not stdout.strip():
        return f"stdout is empty: {words}"
    if words.endswith("after top-level value"):
        return f"stdout goes on after the JSON: {words}"
    return f"stdout is not JSON: {words}"


def _is_json(text: bytes) -> bool:
    """Whether it is one document; too deep is not for us to judge."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    except RecursionError:
        pass
    return True


def _is_ours(exit: Record, error: GoError) -> bool:
    """Whether libcni may well have taken it: our reading has a limit of its own, and the log has "[redacted]" there."""
    if str(error).endswith(_TOO_DEEP):
        return True
    found = decode(facts(exit).get("redacted", b""))
    keys = [str(key).casefold() for key in found] if isinstance(found, list) else []
    is_mismatch = isinstance(error, Mismatch) and error.path.rpartition(".")[2].casefold() in keys
    return is_mismatch or (bool(keys) and _REDACTED.decode() in str(error))


def _place(stdout: bytes, error: GoError) -> int | None:
    """Where in stdout the value begins of which `error` complains; None where that is not to be found."""
    if isinstance(error, Mismatch):
        return _place_of(stdout, error.path.partition(".")[0])
    if "ersion" in str(error):
        return _place_of(stdout, "cniVersion")
    value = str(error).rpartition(": ")[2]  # invalid CIDR address: 10.1.0.7
    found = stdout.find(value.encode()) if value else -1
    return found if found >= 0 else None


def _place_of(stdout: bytes, key: str) -> int | None:
    """Where the value of a member of the object begins."""
    try:
        config = read_config(stdout)
    except CNIError:  # JSON, but no object
        return None
    span = config.spans.get(key)
    return len(config.text[: span[0]].encode()) if span else None


def _number(name: str) -> int:
    """The number of a signal by its name, SIGKILL or SIGRTMIN+2; of one that is none, that of SIGKILL."""
    base, _, more = name.partition("+")
    try:
        return signal.Signals[base].value + int(more or 0)
    except (KeyError, ValueError):
        return signal.SIGKILL.value


# What almost every plugin prints, recognized in microseconds, where libcni's own way takes a thousand times as long in
# Python. Narrower than what libcni takes: a key that is not here, or an address that is written in another way, is
# looked at closely.
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = Annotated[str, Meta(pattern=rf"^{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}\Z")]
_CIDR4 = Annotated[str, Meta(pattern=rf"^{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}/(3[0-2]|[12]?[0-9])\Z")]
_INT = Annotated[int, Meta(ge=0, le=2**31)]


class _Strict(Struct, gc=False, forbid_unknown_fields=True):
    pass


class _DNS(_Strict):
    nameservers: list[str] | None = None
    domain: str = ""
    search: list[str] | None = None
    options: list[str] | None = None


class _Route(_Strict):
    dst: _CIDR4
    gw: _IPV4 | None = None


class _Interface(_Strict):
    name: str
    mac: str = ""
    sandbox: str = ""
    mtu: _INT = 0


class _IP(_Strict):
    address: _CIDR4
    gateway: _IPV4 | None = None
    interface: _INT | None = None
    version: str = ""


class _Usual(_Strict):
    cniVersion: Literal["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
    interfaces: list[_Interface] | None = None
    ips: list[_IP] | None = None
    routes: list[_Route] | None = None
    dns: _DNS | None = None


_decode_usual = msgspec.json.Decoder(_Usual).decode


def _is_usual(exit: Record) -> bool:
    """Whether a call that ended with 0 printed what such calls print: on ADD a result, else nothing."""
    if exit.env.command != "ADD":
        return exit.body == b'""'
    try:
        _decode_usual(exit.body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
