"""A chain, run as libcni runs it (libcni/api.go, release 1.3.0).

`run` is the whole of it: one verb, over one network, for one attachment. What a plugin is given is decided by `stdin`
and `environ`, which are pure; programs are started by the `execute` that a `Runtime` carries; every failure comes back
in an `Outcome`, in libcni's words.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cni_capture.libcni import invoke, versions
from cni_capture.libcni.attachments import Attachment, Cache
from cni_capture.libcni.gojson import GoError, marshal, quote
from cni_capture.libcni.invoke import PluginError
from cni_capture.libcni.network import Network, Plugin
from cni_capture.libcni.result import Result, from_stdout

VERBS = ("ADD", "CHECK", "DEL", "GC", "STATUS")


def to_stderr(text: bytes) -> None:
    """Pass on what a plugin has said there."""
    sys.stderr.flush()
    sys.stderr.buffer.write(text)
    sys.stderr.buffer.flush()


@dataclass(frozen=True)
class Runtime:
    """The runtime's side: where plugins are, where attachments are recorded, how a plugin is run.

    `stderr` is handed what a plugin that ended well wrote to its stderr, as libcni passes it on.
    """

    paths: Sequence[str]
    cache: Cache
    execute: invoke.Execute = invoke.execute
    stderr: Callable[[bytes], None] = to_stderr
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True)
class Outcome:
    """What came of a verb: the result of an ADD, or libcni's error.

    `stderr` is what the plugin that failed wrote there and libcni keeps to itself.
    """

    result: Result | None = None
    error: str | None = None
    stderr: bytes = b""


def run(
    verb: str,
    network: Network,
    attachment: Attachment,
    runtime: Runtime,
    *,
    valid: Iterable[Attachment] | None = None,
) -> Outcome:
    """Run one of VERBS over a network.

    GC and STATUS are about the network, so they leave `attachment` unused. `valid` is for GC: the attachments that
    are to stay; without it every one on record is deleted and the plugins are not told of any.
    """
    try:
        match verb:
            case "ADD":
                return Outcome(result=_add(network, attachment, runtime))
            case "CHECK":
                _check(network, attachment, runtime)
            case "DEL":
                _delete(network, attachment, runtime)
            case "GC":
                _collect(network, runtime, None if valid is None else list(valid))
            case "STATUS":
                _status(network, runtime)
            case _:
                raise ValueError(f"no such verb: {verb}")
    except _Failed as failed:
        return Outcome(error=str(failed), stderr=failed.stderr)
    return Outcome()


def stdin(network: Network, plugin: Plugin, prev_result: Result | None, capability_args: Mapping[str, Any]) -> bytes:
    """What a plugin gets on stdin for ADD, CHECK and DEL (buildOneConfig, injectRuntimeConfig)."""
    extra: dict[str, Any] = {}
    if prev_result is not None:
        extra["prevResult"] = prev_result.encode()
    runtime_config = {name: capability_args[name] for name in sorted(plugin.capabilities) if name in capability_args}
    if runtime_config:
        extra["runtimeConfig"] = runtime_config
    return _inject(network, plugin, extra)


def environ(base: Mapping[str, str], verb: str, attachment: Attachment, paths: Sequence[str]) -> dict[str, str]:
    """The environment of a plugin: the runtime's own, and all of CNI_* (invoke.Args.AsEnv)."""
    return {
        **base,
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": attachment.container_id,
        "CNI_NETNS": attachment.netns,
        "CNI_ARGS": ";".join(f"{key}={value}" for key, value in attachment.args),
        "CNI_IFNAME": attachment.ifname,
        "CNI_PATH": os.pathsep.join(paths),
    }


_NOBODY = Attachment(container_id="", ifname="")
"""GC and STATUS: about no attachment."""


class _Failed(Exception):
    """A verb is over: libcni's text, and the stderr that it dropped."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self.stderr: bytes = getattr(cause, "stderr", b"")


def _inject(network: Network, plugin: Plugin, extra: Mapping[str, Any]) -> bytes:
    config = {**plugin.config, "name": network.name, "cniVersion": network.cni_version, **extra}
    return marshal(dict(sorted(config.items())))


def _call(verb: str, path: str, config: bytes, attachment: Attachment, runtime: Runtime) -> bytes:
    answer = runtime.execute(path, config, environ(runtime.environ, verb, attachment, runtime.paths))
    stdout = invoke.stdout_of(answer)
    if answer.stderr:
        runtime.stderr(answer.stderr)
    return stdout


def _add(network: Network, attachment: Attachment, runtime: Runtime) -> Result:
    result: Result | None = None
    for plugin in network.plugins:
        try:
            path = invoke.find(plugin.type, runtime.paths)
            _validate(network, attachment)
            config = stdin(network, plugin, result, attachment.capability_args)
            result = from_stdout(_call("ADD", path, config, attachment, runtime), network.cni_version)
        except GoError as error:
            raise _Failed(f"plugin {_description(plugin)} failed (add): {error}", error) from None
    assert result is not None
    try:
        runtime.cache.add(network, attachment, result)
    except GoError as error:
        raise _Failed(f"failed to set network {_quoted(network.name)} cached result: {error}") from None
    return result


def _check(network: Network, attachment: Attachment, runtime: Runtime) -> None:
    if not _gate(network, "0.4.0"):
        raise _Failed(f"configuration version {_quoted(network.cni_version)} does not support the CHECK command")
    if network.disable_check:
        return
    try:
        result = runtime.cache.result(network, attachment)
    except GoError as error:
        raise _Failed(f"failed to get network {_quoted(network.name)} cached result: {error}") from None
    for plugin in network.plugins:
        try:
            path = invoke.find(plugin.type, runtime.paths)
            _call("CHECK", path, stdin(network, plugin, result, attachment.capability_args), attachment, runtime)
        except GoError as error:
            raise _Failed(str(error), error) from None


def _delete(network: Network, attachment: Attachment, runtime: Runtime) -> None:
    result: Result | None = None
    if _gate(network, "0.4.0"):
        try:
            result = runtime.cache.result(network, attachment)
        except GoError:
            runtime.cache.remove(network, attachment)
    for plugin in reversed(network.plugins):
        try:
            path = invoke.find(plugin.type, runtime.paths)
            _call("DEL", path, stdin(network, plugin, result, attachment.capability_args), attachment, runtime)
        except GoError as error:
            raise _Failed(f"plugin {_description(plugin)} failed (delete): {error}", error) from None
    runtime.cache.remove(network, attachment)


def _collect(network: Network, runtime: Runtime, valid: list[Attachment] | None) -> None:
    """GC: DEL for every attachment on record that is not valid, then GC for every plugin, whatever failed before."""
    if network.disable_gc:
        return
    stay = {(attachment.container_id, attachment.ifname) for attachment in valid or ()}
    errors: list[str] = []
    dropped = b""
    for name, attachment in runtime.cache.attachments():
        if name != network.name or (attachment.container_id, attachment.ifname) in stay:
            continue
        try:
            _delete(network, attachment, runtime)
        except _Failed as failed:
            who = f"{attachment.container_id} {attachment.ifname}"
            errors.append(f"failed to delete stale attachment {who}: {failed}")
            dropped += failed.stderr
    extra: dict[str, Any] = {}
    if valid is not None:
        # The first name is the spec's (section 2, GC); its first text had the second, so libcni sends both.
        listed = [{"containerID": attachment.container_id, "ifname": attachment.ifname} for attachment in valid]
        extra = {"cni.dev/valid-attachments": listed, "cni.dev/attachments": listed}
    for plugin in network.plugins if _speaks_1_1(network) else ():
        try:
            path = invoke.find(plugin.type, runtime.paths)
            _call("GC", path, _inject(network, plugin, extra), _NOBODY, runtime)
        except GoError as error:
            errors.append(f"failed to GC plugin {plugin.type}: {error}")
            dropped += getattr(error, "stderr", b"")
    if errors:
        raise _Failed("\n".join(errors), PluginError("", stderr=dropped))


def _status(network: Network, runtime: Runtime) -> None:
    for plugin in network.plugins if _speaks_1_1(network) else ():
        try:
            path = invoke.find(plugin.type, runtime.paths)
            _call("STATUS", path, _inject(network, plugin, {}), _NOBODY, runtime)
        except GoError as error:
            raise _Failed(str(error), error) from None


def _gate(network: Network, version: str) -> bool:
    try:
        return versions.at_least(network.cni_version, version)
    except GoError as error:
        raise _Failed(str(error)) from None


def _speaks_1_1(network: Network) -> bool:
    """Whether the network's version has GC and STATUS. One that is no version has not, and nobody is told."""
    try:
        return versions.at_least(network.cni_version, "1.1.0")
    except GoError:
        return False


def _description(plugin: Plugin) -> str:
    name = f" name={_quoted(plugin.name)}" if plugin.name else ""
    return f"type={_quoted(plugin.type)}{name}"


def _quoted(text: str) -> str:
    return quote(text.encode())


NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
"""A network name and a container ID (spec, section 2)."""


def _validate(network: Network, attachment: Attachment) -> None:
    """What libcni refuses before it runs a plugin's ADD (pkg/utils/utils.go)."""
    if attachment.container_id == "":
        raise PluginError("missing containerID")
    if not NAME.fullmatch(attachment.container_id):
        raise PluginError("invalid characters in containerID", attachment.container_id)
    if not NAME.fullmatch(network.name):
        raise PluginError("invalid characters found in network name", network.name)
    ifname = attachment.ifname
    if ifname == "":
        raise PluginError("interface name is empty")
    if len(ifname.encode()) > 15:
        raise PluginError("interface name is too long", "interface name should be less than 16 characters")
    if ifname in (".", ".."):
        raise PluginError("interface name is . or ..")
    if re.search(r"[/:\s]", ifname):
        raise PluginError("interface name contains / or : or whitespace characters")
