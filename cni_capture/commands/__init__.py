"""The command `cni-capture`: one module per verb, imported only when that verb is typed.

Exit codes: 0 done, 1 the answer is no, 2 usage or an expected error, 3 a bug, 130 interrupted. A closed pipe is quiet.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from cni_capture import __version__
from cni_capture.errors import UserError

DONE, NO, USAGE, BUG, INTERRUPTED = 0, 1, 2, 3, 130

VERBS = {
    "doctor": "Is it capturing, and if not, why?",
    "install": "Put the probes into the plugin directory.",
    "replay": "Make a call of the log again, as a script or at once.",
    "run": "Run a conflist as a runtime would, with no runtime.",
    "show": "Say what happened: which pod, how long, what changed, who failed.",
    "splice": "Put probes into the network that the runtimes use.",
    "uninstall": "Take the probes out of the plugin directory.",
    "unsplice": "Take the probes out of a network again.",
    "watch": "Keep a network spliced when its owner rewrites it.",
}


class Verbs(click.Group):
    """Verbs are modules of this package; `--help` lists them without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"cni_capture.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # here, since click would make an exit status 1 of it
            return _reader_has_gone()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cni-capture")
def cli() -> None:
    """See what a CNI plugin got and returned: strace for a CNI chain."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; every error becomes an exit code and words on stderr, here and nowhere else."""
    try:
        code = cli.main(args=argv, prog_name="cni-capture", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except UserError as error:
        _say(error.message)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_has_gone()
    except Exception:
        traceback.print_exc()
        _say("this is a bug; the lines above say where")
        return BUG


def _reader_has_gone() -> int:
    """As after `| head`: point stdout at nothing, so that the flush at exit is quiet as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _say(words: str) -> None:
    print(f"cni-capture: {words}", file=sys.stderr)
