"""`cni-capture show` as a user sees it: whole outputs, compared."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pytest

from tests.show.command import ENVIRON, LOGS, MAIN, show
from tests.show.stories import Story, full, minimal, result, wrapped

GOLDEN = Path(__file__).parent / "golden"
FULL = LOGS / "v1-full.text"

# Name of the golden file, log, arguments. Logs of a format version stay as they are for ever.
VIEWS = [
    ("minimal", "v1-minimal.text", []),
    ("minimal", "v1-minimal.json", []),
    ("minimal-detail", "v1-minimal.text", ["3f9c1a"]),
    ("minimal-detail", "v1-minimal.json", ["default/web-5d9c"]),
    ("minimal-pair", "v1-minimal.text", ["-o", "pair"]),
    ("minimal-cat", "v1-minimal.json", ["-o", "cat"]),
    ("full", "v1-full.text", []),
    ("full", "v1-full.json", []),
    ("full-color", "v1-full.text", ["--color", "always"]),
    ("full-stats", "v1-full.text", ["--stats"]),
    ("full-stats-json", "v1-full.text", ["--stats", "-o", "json"]),
    ("full-pair", "v1-full.json", ["-o", "pair"]),
    ("full-cat", "v1-full.text", ["-o", "cat"]),
    ("full-failed", "v1-full.text", ["--failed"]),
    ("full-hops", "v1-full.text", ["a10b"]),
    ("full-hops-color", "v1-full.text", ["a10b", "--color", "always"]),
    ("full-warnings", "v1-full.text", ["e5d4"]),
    ("full-clean-up", "v1-full.text", ["kube-system/coredns-abc"]),
    ("wrapped", "v1-wrapped.text", []),
    ("wrapped", "v1-wrapped.json", []),
    ("wrapped-failed", "v1-wrapped.text", ["--failed"]),
    ("wrapped-color", "v1-wrapped.json", ["--color", "always"]),
    ("wrapped-detail", "v1-wrapped.text", ["shop/web-7f9c"]),
    ("wrapped-detail", "v1-wrapped.json", ["3f9c1a"]),
    ("wrapped-detail-color", "v1-wrapped.json", ["3f9c1a", "--since", "2026-11-30T12:03:51Z", "--color", "always"]),
    ("wrapped-pair", "v1-wrapped.json", ["-o", "pair"]),
    ("wrapped-stats", "v1-wrapped.text", ["--stats"]),
    ("wrapped-stats-json", "v1-wrapped.text", ["--stats", "-o", "json"]),
    ("damaged", "v1-damaged", []),
    ("damaged-json", "v1-damaged", ["-o", "json"]),
    ("unknown", "v1-full.text", ["nobody"]),
]


@pytest.mark.parametrize(
    ("golden", "log", "arguments"), VIEWS, ids=lambda value: "" if isinstance(value, list) else value
)
def test_every_view_of_every_log_is_as_it_was(golden: str, log: str, arguments: list[str]) -> None:
    """Standard output, standard error and exit status. WRITE_GOLDEN=1 rewrites what is expected."""
    done = show(*arguments, LOGS / log)
    seen = b"%b-- stderr, exit %d --\n%b" % (done.stdout, done.returncode, done.stderr)
    seen = seen.replace(str(LOGS).encode(), b"logs")
    file = GOLDEN / f"{golden}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_bytes(seen)
    assert file.read_bytes() == seen


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("name", "story"), [("minimal", minimal()), ("full", full()), ("wrapped", wrapped())])
def test_the_logs_are_what_the_probes_still_write(form: str, name: str, story: Story) -> None:
    """Within a format version nothing changes but for additions; this says when something does."""
    assert (LOGS / f"v1-{name}.{form}").read_bytes() == b"".join(story.lines(form))


def test_json_of_json_is_the_same_bytes() -> None:
    """The log, out of either format, through the command and back."""
    log = (LOGS / "v1-full.json").read_bytes()
    once = show("-o", "json", FULL).stdout
    assert (log, log) == (once, show("-o", "json", "-", stdin=once).stdout)


def test_what_filters_leave_can_be_read_again() -> None:
    """Records of chosen operations are a log, too, with the same story."""
    chosen = show("--failed", "-o", "json", FULL).stdout
    again = show("-", stdin=chosen).stdout
    assert show("--failed", FULL).stdout == again


def test_how_an_add_ended_is_known_whatever_is_shown(tmp_path: Path) -> None:
    """Its DEL is not among what was asked for, and has not even the name of the pod."""
    story = Story()
    story.enter("ADD", "web", pod="shop/web")
    story.leave("ADD", "web", result(), pod="shop/web")
    story.enter("DEL", "web", result(), milliseconds=4_000)
    story.leave("DEL", "web", result())
    log = tmp_path / "cni.log"
    log.write_bytes(b"".join(story.lines("json")))
    shown = show("--cmd", "add", "shop/web", log).stdout.decode().splitlines()
    assert ["  deleted 4s later"] == [line for line in shown if "later" in line or "never" in line]
    assert [True] == ["ADD shop/web" in line for line in shown if line[:1] not in ("", " ")]


def test_no_line_is_longer_than_the_terminal_is_wide() -> None:
    """80 columns are enough, and more are used."""
    for columns in (80, 100, 160):
        longest = max(map(len, show(FULL, COLUMNS=str(columns)).stdout.decode().splitlines()))
        assert columns - 10 < longest <= columns


def test_gzip_is_read_by_its_suffix(tmp_path: Path) -> None:
    """Also when it is torn: what could be read is shown, and what could not is said."""
    packed = gzip.compress(FULL.read_bytes())
    (tmp_path / "cni.log.gz").write_bytes(packed)
    (tmp_path / "torn.log.gz").write_bytes(packed[:-100])
    assert show(FULL).stdout == show(tmp_path / "cni.log.gz").stdout
    torn = show(tmp_path / "torn.log.gz")
    assert torn.stdout.startswith(show("-n0", FULL).stdout)
    assert (0, True) == (torn.returncode, b"damaged gzip data, read as far as possible" in torn.stderr)


def test_the_rotated_set_is_one_log(tmp_path: Path) -> None:
    """--all reads what was rotated away first, compressed or not, and an operation may span two files."""
    lines = full().lines("text")
    (tmp_path / "cni.log.10.gz").write_bytes(gzip.compress(b"".join(lines[:5])))
    (tmp_path / "cni.log.2").write_bytes(b"".join(lines[5:6]))
    (tmp_path / "cni.log.1").write_bytes(b"".join(lines[6:20]))
    (tmp_path / "cni.log").write_bytes(b"".join(lines[20:]))
    (tmp_path / "cni.log.bak").write_bytes(b"not a part of it\n")
    done = show("--all", tmp_path / "cni.log")
    assert (show(FULL).stdout, show(FULL).stderr) == (done.stdout, done.stderr)
    assert show("-n", "3", FULL).stdout == show("-n", "3", "--all", tmp_path / "cni.log").stdout


def test_logs_of_several_nodes_are_merged_by_time(tmp_path: Path) -> None:
    """Whatever their order on the command line."""
    lines = full().lines("json")
    (tmp_path / "even.log").write_bytes(b"".join(lines[::2]))
    (tmp_path / "odd.log").write_bytes(b"".join(lines[1::2]))
    assert b"".join(lines) == show("-o", "json", tmp_path / "odd.log", tmp_path / "even.log").stdout


def test_the_last_lines_are_those_of_the_whole(tmp_path: Path) -> None:
    """-n reads a large log from its end, and shows what the end of the full list would."""
    story = Story()
    story.enter("ADD", "slow", pod="default/slow")
    for number in range(2000):
        story.enter("ADD", f"{number:064}", pod=f"default/web-{number}")
        if number % 7:
            story.leave("ADD", f"{number:064}", result(), pod=f"default/web-{number}", milliseconds=20)
    # Its exit stands near the end of the log, its entry, and so its place in the list, far from there.
    story.leave("ADD", "slow", result(), pod="default/slow")
    log = tmp_path / "cni.log"
    log.write_bytes(b"".join(story.lines("json")))
    assert log.stat().st_size > 4 * 256 * 1024
    whole = show(log).stdout.splitlines()
    assert whole[:2] + whole[-20:] == show("-n", "20", log).stdout.splitlines()
    failed = show("--failed", log).stdout.splitlines()
    assert failed[:2] + failed[-200:] == show("--failed", "-n200", log).stdout.splitlines()


def test_damage_near_the_end_has_its_number(tmp_path: Path) -> None:
    """Lines are counted from the beginning of the file, also when that was not read."""
    lines = minimal().lines("json") * 500
    (tmp_path / "cni.log").write_bytes(b"".join([*lines, b"torn\n", *lines[:2]]))
    assert f"{tmp_path}/cni.log: damaged line left out: 2001\n" in show("-n1", tmp_path / "cni.log").stderr.decode()


def test_the_log_of_the_environment_is_the_default() -> None:
    """The variable that the probes obey."""
    assert show(LOGS / "v1-minimal.json").stdout == show(CNI_CAPTURE_LOG_FILE=str(LOGS / "v1-minimal.json")).stdout


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (
            "cni-capture: /nowhere/cni.log: No such file or directory\nhint: has a probe been called yet? ",
            ["/nowhere/cni.log"],
        ),
        ("cni-capture: /tmp/: Is a directory\n", ["/tmp/"]),
        ("'soon' is neither a time ago, as 42m, nor RFC 3339", ["--since", "soon"]),
        ("one ID or pod at a time, not a1 and b2", ["a1", "b2"]),
        ("--follow goes with one log", ["-f", "--stats"]),
        ("'--output': 'xml' is not one of", ["-o", "xml"]),
    ],
)
def test_mistakes_are_told_in_words(expected: str, arguments: list[str]) -> None:
    """Exit status 2, a message and often a hint, never a traceback."""
    done = show(*arguments)
    assert (2, b"") == (done.returncode, done.stdout)
    assert expected in done.stderr.decode()


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """As in `cni-capture show | head -1`."""
    log = tmp_path / "cni.log"
    log.write_bytes(b"".join(minimal().lines("json")) * 2000)
    command = subprocess.Popen([*MAIN, "-o", "json", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRON)
    assert command.stdout
    assert command.stderr
    command.stdout.readline()
    command.stdout.close()
    assert (0, b"") == (command.wait(30), command.stderr.read())
    command.stderr.close()


def on_terminal(*arguments: str | Path, **environ: str) -> bytes:
    """What the command writes to a terminal."""
    main, side = pty.openpty()
    command = subprocess.Popen([*MAIN, *map(str, arguments)], stdout=side, stderr=side, env={**ENVIRON, **environ})
    os.close(side)
    written = b""
    while select.select([main], [], [], 30)[0]:
        try:
            written += os.read(main, 65536)
        except OSError:
            break
    os.close(main)
    assert command.wait(30) == 0
    return written.replace(b"\r\n", b"\n")


def test_a_terminal_gets_colour_unless_it_is_not_wanted() -> None:
    """auto asks the terminal, NO_COLOR and TERM."""
    colored = show("--color", "always", "-n1", FULL).stdout
    plain = show("-n1", FULL).stdout
    hint = show("-n1", FULL).stderr
    assert colored + hint == on_terminal("-n1", FULL, TERM="xterm")
    assert plain + hint == on_terminal("-n1", FULL, TERM="xterm", NO_COLOR="1")
    assert plain + hint == on_terminal("-n1", FULL, TERM="dumb")


@pytest.mark.parametrize("view", ["short", "pair", "json", "cat"])
def test_nothing_in_a_log_reaches_the_terminal_as_a_command(view: str, tmp_path: Path) -> None:
    """Pod names, bodies and errors may hold escape sequences: of both control sets, and what turns writing round."""
    nasty = "\x1b[2J\x9b2J\x07\u202e\x7f"
    story = Story()
    story.enter("ADD", "c1", pod=f"{nasty}/{nasty}", network=nasty, label=nasty, error={"code": 1, "msg": nasty})
    log = tmp_path / "cni.log"
    body = json.dumps({"name": nasty}, ensure_ascii=False).encode()
    log.write_bytes(b"".join(story.lines("json")).replace(b'"name":"', b'"raw":' + body + b',"name":"'))
    written = on_terminal("-o", view, "--color", "never", log).decode()
    assert [] == re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", written)
    if view == "json":
        assert nasty == json.loads(written)["input"]["name"]


def test_help_ends_with_examples() -> None:
    """Every example names options that exist."""
    text = show("--help").stdout.decode()
    examples = text.partition("Examples:")[2]
    assert "cni-capture show shop/web-5d9c" in examples
    for option in set(re.findall(r" (--?[a-z][a-z-]*)", examples)) - {"-c"}:
        assert option in text.partition("Options:")[2].partition("Examples:")[0]


def test_the_shell_completes_pods_and_containers(tmp_path: Path) -> None:
    """Those of the log that is shown without more words."""
    log = str(LOGS / "v1-full.json")
    asked = {"_CNI_CAPTURE_COMPLETE": "bash_complete", "COMP_WORDS": "cni-capture show sho", "COMP_CWORD": "2"}
    code = "from cni_capture.commands import cli; cli(prog_name='cni-capture')"
    done = subprocess.run(
        [MAIN[0], "-c", code], env={**ENVIRON, **asked, "CNI_CAPTURE_LOG_FILE": log}, capture_output=True, timeout=30
    )
    assert b"plain,shop/a-very-long-name-7\nfile,sho\n" == done.stdout
