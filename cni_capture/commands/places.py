"""Options that several verbs share: where things are on this node, and what the probes are to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cni_capture.conf import backups, confdir
from cni_capture.conf.plan import Plan
from cni_capture.conf.splicing import Places, settings_of

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = click.Path(path_type=Path, file_okay=False, resolve_path=True)

conf_dir_option = click.option(
    "--conf-dir",
    type=_FOLDER,
    default=confdir.DEFAULT,
    show_default=True,
    help="Where the runtime keeps its networks.",
)


state_dir_option = click.option(
    "--state-dir",
    type=_FOLDER,
    default=backups.DEFAULT,
    show_default=True,
    help="Where backups and the lock of splices are kept.",
)
_cni_bin_option = click.option(
    "--cni-bin",
    type=_FOLDER,
    help="Plugin directory of the runtime. Default: where the plugins of the conflist are.",
)


def place_options(command: F) -> F:
    """--conf-dir, --cni-bin and --state-dir; places_of() takes them."""
    return conf_dir_option(_cni_bin_option(state_dir_option(command)))


def places_of(options: dict[str, Any]) -> Places:
    """Take the values of place_options out of a command's options."""
    return Places(options.pop("conf_dir"), options.pop("cni_bin"), options.pop("state_dir"))


def installation_options(command: F) -> F:
    """--prefix and --cni-bin, of those who put the probes there and remove them: `prefix` and `cni_bin`."""
    for option in (
        click.option(
            "--cni-bin",
            type=_FOLDER,
            default="/opt/cni/bin",
            show_default=True,
            help="Plugin directory of the runtimes.",
        ),
        click.option(
            "--prefix",
            type=_FOLDER,
            default="/opt/cni-capture",
            show_default=True,
            help="Folder of the probes' code.",
        ),
    ):
        command = option(command)
    return command


def plan_options(command: F) -> F:
    """Where the probes go and how they record; plan_of() takes them."""
    for option in (
        click.option("--max-backups", type=click.IntRange(min=0), help="How many rotated logs to keep."),
        click.option("--max-size", type=click.FloatRange(min=0), metavar="MB", help="Rotate the log at this size."),
        click.option("--lock-timeout", type=click.FloatRange(0, 60), metavar="SECONDS", help="Wait for the lock."),
        click.option("--no-redact", is_flag=True, help="Keep nothing out of the log, credentials neither."),
        click.option("--redact", multiple=True, metavar="KEY", help="Keep values of KEY out of the log. Repeatable."),
        click.option("--interfaces", is_flag=True, help="Record interfaces as well, on the host and in the container."),
        click.option("--label", metavar="TEXT", help="Goes into every record, to tell several pairs apart."),
        click.option("--lock-file", metavar="PATH", help="Shared by all probes of one log."),
        click.option("--log-file", metavar="PATH", help="Default: /tmp/cni.log."),
        click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True),
        click.option("--ipam", is_flag=True, help="Wrap the IPAM plugins that these call; alone: those of the chain."),
        click.option("--wrap-all", is_flag=True, help="Wrap every plugin."),
        click.option("--wrap", multiple=True, metavar="TYPE", help="Wrap the plugins of this type. Repeatable."),
        click.option("--each", is_flag=True, help="A pair around every plugin, labelled with the plugin's type."),
        click.option("--around", metavar="TYPE", default="", help="A pair around the plugin of this type only."),
    ):
        command = option(command)
    return command


def plan_of(options: dict[str, Any]) -> Plan:
    """Take the values of plan_options out of a command's options. Raises UserError, click.UsageError."""
    around, each = options.pop("around"), options.pop("each")
    wrap, wrap_all, ipam = tuple(dict.fromkeys(options.pop("wrap"))), options.pop("wrap_all"), options.pop("ipam")
    label, redact, no_redact = options.pop("label"), list(options.pop("redact")), options.pop("no_redact")
    pairs, wraps = {"--around": around, "--each": each}, {"--wrap": wrap, "--wrap-all": wrap_all, "--ipam": ipam}
    for one, other, both in (
        *((pair, wrap_, pairs[pair] and wraps[wrap_]) for pair in pairs for wrap_ in wraps),
        ("--around", "--each", around and each),
        ("--wrap", "--wrap-all", wrap and wrap_all),
        ("--label", "--each", label and each),
        ("--label", "--wrap-all", label and wrap_all),
        ("--redact", "--no-redact", redact and no_redact),
    ):
        if both:
            raise click.UsageError(f"{one} and {other} exclude each other")
    rotation = {"maxSize": options.pop("max_size"), "maxBackups": options.pop("max_backups")}
    settings = {
        "logFormat": options.pop("log_format"),
        "logFile": options.pop("log_file"),
        "lockFile": options.pop("lock_file"),
        "lockTimeout": options.pop("lock_timeout"),
        "logOptions": {key: value for key, value in rotation.items() if value is not None} or None,
        "interfaces": options.pop("interfaces") or None,
        "redact": False if no_redact else redact or None,
        "label": label,
    }
    plan = Plan(around, each, wrap, wrap_all, ipam, {k: value for k, value in settings.items() if value is not None})
    settings_of(plan)
    return plan
