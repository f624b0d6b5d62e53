"""A recorded call as a shell script, for people to read, change and run. Text in, text out: no I/O."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence

from cni_capture.replay.calls import Call
from cni_capture.story.views.terminal import printable

# What sh can export.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a here-document and a shell variable carry unchanged: text, with no line feed at its end.
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*[^\x00-\x1f\x7f]")


def script(call: Call) -> bytes:
    """The script. Stdin is, byte for byte, what the plugin got."""
    words = [*_odd_variables(call.environ), shlex.quote(call.program)]
    lines = [*_head(call.title, call.redacted), *_exports(call.environ), "", *_feed(call.stdin, " ".join(words))]
    return _bytes(lines)


def chain_script(
    title: str,
    redacted: Sequence[str],
    environ: Mapping[str, str],
    conflist: str,
    add: Sequence[str],
    delete: Sequence[str],
) -> bytes:
    """A script that writes a conflist and has it run; the file's name is the last word of `add`, and of `delete`."""
    end = _delimiter(conflist)
    lines = [
        *_head(title, redacted),
        *_exports(environ),
        "",
        "conflist=$(mktemp -d)/replay.conflist",
        f"cat >\"$conflist\" <<'{end}'",
        conflist,
        end,
        f'{shlex.join(add)} "$conflist"',
        f"""printf 'To delete it again:\\n%s %s\\n' {shlex.quote(shlex.join(delete))} "$conflist" >&2""",
    ]
    return _bytes(lines)


def _head(title: str, redacted: Sequence[str]) -> list[str]:
    lines = [
        "#!/bin/sh",
        f"# {title}, again.",
        "# It does to this machine what the plugin does: name another container where this one is alive.",
    ]
    if redacted:
        lines.append(f"# Put in first what was kept out of the log: {printable(', '.join(redacted))}.")
    return lines


def _exports(environ: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in environ.items() if _NAME.fullmatch(name)]


def _odd_variables(environ: Mapping[str, str]) -> list[str]:
    """Those that sh cannot export, for `env`."""
    odd = [shlex.quote(f"{name}={value}") for name, value in environ.items() if not _NAME.fullmatch(name)]
    return ["env", *odd] if odd else []


def _feed(stdin: bytes, command: str) -> list[str]:
    """Stdin to the command: in plain text where sh leaves it as it is, else in Base64."""
    try:
        text = stdin.decode()
    except UnicodeDecodeError:
        text = ""
    if _PLAIN.fullmatch(text):
        end = _delimiter(text)
        return [f"config=$(cat <<'{end}'", text, end, ")", f'printf %s "$config" | {command}']
    if not stdin:
        return [f"{command} </dev/null"]
    return [f"base64 -d <<'CONFIG' | {command}", base64.encodebytes(stdin).decode().rstrip("\n"), "CONFIG"]


def _delimiter(text: str) -> str:
    """A line that is not in the text."""
    end = "CONFIG"
    lines = text.split("\n")
    while end in lines:
        end += "_"
    return end


def _bytes(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
