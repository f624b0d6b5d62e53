"""A call, or the ADD of a chain, made again in its place; what an ADD has made there is deleted if that is ours."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from cni_capture.errors import UserError
from cni_capture.libcni import chain, invoke, versions
from cni_capture.libcni.attachments import Cache
from cni_capture.libcni.gojson import GoError, marshal
from cni_capture.libcni.invoke import Answer
from cni_capture.libcni.network import Network, load
from cni_capture.reading.records import decode
from cni_capture.replay.calls import Call
from cni_capture.replay.chains import Chain
from cni_capture.replay.trial import Place, environment
from cni_capture.story.operations import Verdict

Say = Callable[[str], None]

_ENDLESS = Answer(b"", b"", Verdict.NO_END.value)


def call_again(call: Call, where: Place, execute: invoke.Execute, say: Say) -> Answer:
    """Make a call. `say` is told, in words, when what it has made could not be deleted."""
    environ, stdin = environment(call, where), where.stdin(call)
    answer = Answer(b"")
    try:
        answer = execute(call.program, stdin, environ)
    finally:
        if where.is_ours and call.verb == "ADD":
            undone = execute(call.program, _stdin_of_del(stdin, answer), {**environ, "CNI_COMMAND": "DEL"})
            if undone.failure:
                said = (undone.stdout or undone.stderr).decode("utf-8", "replace").strip()
                say(f"what was made could not be deleted: {undone.failure}{': ' if said else ''}{said}")
    return answer


def chain_again(
    it: Chain, program: str, where: Place, execute: invoke.Execute, pass_on: Callable[[bytes], None], say: Say
) -> tuple[Answer, Answer]:
    """Run a chain, and return what a runtime got then and what it gets now: libcni's result, or its error as `failure`.

    `program` ("": none) takes the place of the plugin of its name; `pass_on` gets what plugins say on stderr. Raises
    UserError when a plugin is not there.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.conflist"
        path.write_text(it.conflist)
        network = load(path)
        _see_that_all_are_there(network, it.paths, program)
        answers = iter(it.answers)
        recorded = chain.Runtime(
            it.paths, Cache(Path(folder) / "then"), lambda *_: next(answers) or _ENDLESS, lambda _: None
        )
        then = chain.run("ADD", network, it.attachment, recorded)

        def run(path: str, stdin: bytes, environ: Mapping[str, str]) -> Answer:
            return execute(program if PurePath(program).name == PurePath(path).name else path, stdin, environ)

        runtime = chain.Runtime(it.paths, Cache(Path(folder) / "now"), run, pass_on, environment(it.call, where))
        attachment = replace(it.attachment, netns=where.netns, container_id=where.container_id)
        try:
            now = chain.run("ADD", network, attachment, runtime)
            pass_on(now.stderr)
        finally:
            undone = chain.run("DEL", network, attachment, runtime) if where.is_ours else chain.Outcome()
            if undone.error:
                say(f"what was made could not be deleted: {undone.error}")
    return _as_answer(then), _as_answer(now)


def _stdin_of_del(stdin: bytes, added: Answer) -> bytes:
    """What a plugin gets to delete what it has `added` for `stdin`: since 0.4.0 with its result (spec, section 2)."""
    config, result = decode(stdin), decode(added.stdout)
    if added.failure or not isinstance(config, dict) or not isinstance(result, dict):
        return stdin
    try:
        takes_it = versions.at_least(str(config.get("cniVersion", "")), "0.4.0")
    except GoError:  # no version that any plugin takes
        takes_it = False
    return json.dumps({**config, "prevResult": result}).encode() if takes_it else stdin


def _as_answer(outcome: chain.Outcome) -> Answer:
    return Answer(marshal(outcome.result.encode()) if outcome.result else b"", b"", outcome.error or "")


def _see_that_all_are_there(network: Network, paths: Sequence[str], program: str) -> None:
    """Else then and now would fail in the same way, and say nothing. Raises UserError."""
    types = [plugin.type for plugin in network.plugins]
    if program and PurePath(program).name not in types:
        raise UserError(f"{program}: no plugin of that name in the chain", hint=f"its plugins are: {', '.join(types)}")
    for plugin in types:
        try:
            invoke.find(plugin, paths)
        except GoError as error:
            raise UserError(str(error), hint="run it where the plugins are") from None
