"""The script: run by a shell, it gives the plugin what the runtime gave it, to the byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cni_capture.replay.calls import Call
from cni_capture.replay.script import chain_script, script

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
CONFIG = b'{"cniVersion":"1.0.0","name":"net","type":"bridge"}'
GIVEN = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "web", "CNI_PATH": "/opt/cni/bin"}

# A plugin that keeps what it was given.
KEEPER = f"""#!{sys.executable} -ISu
import os, sys
with open(sys.argv[0] + ".stdin", "wb") as file:
    file.write(sys.stdin.buffer.read())
with open(sys.argv[0] + ".environ", "wb") as file:
    file.write(b"\\0".join(name + b"=" + value for name, value in os.environb.items()))
"""

WHOLE = """\
#!/bin/sh
# ADD of bridge for shop/web at 12:00, again.
# It does to this machine what the plugin does: name another container where this one is alive.
# Put in first what was kept out of the log: token.
export CNI_COMMAND=ADD
export CNI_ARGS='K8S_POD_NAME=web;X=it'"'"'s'

config=$(cat <<'CONFIG'
{"type":"bridge"}
CONFIG
)
printf %s "$config" | env CNI_x.y=1 '/opt/my plugins/bridge'
"""


def call(stdin: bytes = CONFIG, program: str = "/opt/cni/bin/bridge", **environ: str) -> Call:
    return Call("ADD of bridge for shop/web at 12:00", environ or GIVEN, stdin, program, ())


def run(shell: str, written: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell], input=written, capture_output=True, env={"PATH": os.defpath}, timeout=20)


def test_a_person_can_read_it() -> None:
    """Title, warnings, variables, configuration, plugin."""
    environ = {"CNI_COMMAND": "ADD", "CNI_ARGS": "K8S_POD_NAME=web;X=it's", "CNI_x.y": "1"}
    made = Call(
        "ADD of bridge for shop/web at 12:00", environ, b'{"type":"bridge"}', "/opt/my plugins/bridge", ("token",)
    )
    assert WHOLE == script(made).decode()


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stdin=st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | st.sampled_from(
        [b"", b"\n", b"{}\n", b"CONFIG", b"a\nCONFIG\nCONFIG_\nb", b"'$(id)`id`\\", b"\xff\x00", b"%s\r\n{}"]
    ),
    args=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=50)
    | st.just("\udcff\udc80"),
)
def test_the_plugin_gets_the_same_bytes(
    shell: str, stdin: bytes, args: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever was on stdin and in the variables, and whatever shell it is."""
    plugin = tmp_path_factory.getbasetemp() / f"the {shell} 'plugin'"
    if not plugin.exists():
        plugin.write_text(KEEPER)
        plugin.chmod(0o755)
    environ = {"CNI_COMMAND": "ADD", "CNI_ARGS": args, "CNI_ODD.NAME": args, "CNI_EMPTY": ""}
    done = run(shell, script(call(stdin, str(plugin), **environ)))
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert stdin == Path(f"{plugin}.stdin").read_bytes()
    seen = dict(line.partition(b"=")[::2] for line in Path(f"{plugin}.environ").read_bytes().split(b"\0"))
    assert {os.fsencode(name): os.fsencode(value) for name, value in environ.items()} == {
        name: value for name, value in seen.items() if name.startswith(b"CNI_")
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_its_streams_and_exit_status_are_the_plugin_s(shell: str, tmp_path: Path) -> None:
    """What a runtime would see."""
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho result\necho words >&2\nexit 3\n")
    plugin.chmod(0o755)
    done = run(shell, script(call(program=str(plugin))))
    assert (3, b"result\n", b"words\n") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_in_a_log_becomes_a_command(shell: str, tmp_path: Path) -> None:
    """A log may come from anywhere; its title, keys and values stay words."""
    there = tmp_path / "there"
    harm = f"\n touch {there} #'\"`touch {there}`$(touch {there})"
    made = Call(
        f"ADD{harm}".replace("\n", "\\n"), {"CNI_ARGS": harm, f"CNI{harm}": harm}, harm.encode(), "/bin/true", (harm,)
    )
    assert 0 == run(shell, script(made)).returncode
    assert not there.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_chain_is_handed_to_run_as_a_conflist(shell: str) -> None:
    """The conflist as it was made, in a file that the command is given last; how to undo it is said."""
    conflist = '{\n  "name": "CONFIG\'s $HOME"\n}\nCONFIG'
    written = chain_script(
        "ADD of bridge+tuning", (), {"CNI_CAPTURE_REPLAY": "12:00"}, conflist, ["cat", "-u"], ["rm", "a b"]
    )
    done = run(shell, written)
    assert (0, conflist.encode() + b"\n") == (done.returncode, done.stdout)
    said, name = done.stderr.decode().rstrip("\n").rsplit(" ", 1)
    assert "To delete it again:\nrm 'a b'" == said
    assert conflist + "\n" == Path(name).read_text()
