"""`cni-capture run`: a conflist, run as a runtime would, with no runtime."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cni_capture import netns
from cni_capture.errors import UserError
from cni_capture.libcni import chain
from cni_capture.libcni.attachments import Attachment, Cache
from cni_capture.libcni.gojson import GoError, plain_object
from cni_capture.libcni.network import Network, load

USUAL_PATH = "/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni"
TRIAL = "trial"

EXAMPLES = """\b
Examples:
  Try a conflist in a namespace made for it, look inside, and take it all away:
    cni-capture run add --new-netns /etc/cni/net.d/10-mynet.conflist
    ip netns exec cni-capture-trial ip address
    cni-capture run check /etc/cni/net.d/10-mynet.conflist
    cni-capture run del /etc/cni/net.d/10-mynet.conflist

\b
  Publish a port, as a container engine would:
    cni-capture run add --new-netns 10-mynet.conflist --capability-args \\
      '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'

\b
  A second interface for a container of your own, with a plugin you just built:
    cni-capture run add --path ./bin:/opt/cni/bin --netns /var/run/netns/web \\
      --container-id web --ifname eth1 20-storage.conflist

\b
  Is this the address that the pod would get?
    cni-capture run add --new-netns 10-mynet.conflist | jq -r '.ips[].address'
"""


@click.command(epilog=EXAMPLES)
@click.argument("verb", type=click.Choice([verb.lower() for verb in chain.VERBS]))
@click.argument("conflist", type=click.Path(path_type=Path))
@click.option("--netns", "netns_path", metavar="PATH", help="Network namespace of the container.")
@click.option(
    "--new-netns",
    is_flag=True,
    help="add: make a namespace, cni-capture-ID; del removes it with the last interface that run put there.",
)
@click.option(
    "--container-id",
    metavar="ID",
    help=f"Default: for --new-netns {TRIAL}; for --netns made from PATH; else the one on record.",
)
@click.option("--ifname", metavar="NAME", default="eth0", show_default=True, help="Interface in the container.")
@click.option("--args", "cni_args", metavar="K=V;...", help="CNI_ARGS. check and del default to those of the add.")
@click.option(
    "--capability-args",
    metavar="JSON",
    help="What plugins get as runtimeConfig, by the capabilities they declare. Default as for --args.",
)
@click.option(
    "--path",
    "plugin_path",
    metavar="DIR:...",
    envvar="CNI_PATH",
    default=USUAL_PATH,
    show_default=True,
    show_envvar=True,
    help="Where plugins are.",
)
@click.option(
    "--cache-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where attachments are recorded between add and del. Default: a place of cni-capture's own, "
    "/var/lib/cni-capture for root.",
)
@click.option(
    "--keep",
    metavar="ID/IFNAME",
    multiple=True,
    help="gc: an attachment that stays, besides those on record whose namespace still exists. May be repeated.",
)
def command(
    verb: str,
    conflist: Path,
    netns_path: str | None,
    new_netns: bool,
    container_id: str | None,
    ifname: str,
    cni_args: str | None,
    capability_args: str | None,
    plugin_path: str,
    cache_dir: Path | None,
    keep: tuple[str, ...],
) -> int:
    """Run CONFLIST as a container runtime would, with no runtime.

    Plugins are called in the order, with the input and with the error texts of libcni 1.3, and the result of add is
    printed as it would come out there. CONFLIST may be a .conflist or the .conf of a single plugin.

    add and del need root if the plugins do. gc makes plugins drop all that they know of the network but what is
    kept: do not point it at a network that a runtime on this machine uses.

    Exit status: 0 done, 1 a plugin said no, 2 a wrong command line or conflist.
    """
    network = load(conflist)
    cache = Cache(cache_dir or _cache_dir())
    runtime = chain.Runtime([path for path in plugin_path.split(os.pathsep) if path], cache)
    given: dict[str, Any] = {}
    if cni_args is not None:
        given["args"] = _pairs(cni_args)
    if capability_args is not None:
        given["capability_args"] = _capabilities(capability_args)
    if netns_path is not None:
        if new_netns:
            raise click.UsageError("--netns and --new-netns exclude each other")
        given["netns"] = os.path.abspath(netns_path)

    if verb in ("gc", "status"):
        valid = [*_living(cache, network), *map(_kept, keep)]
        return _tell(chain.run(verb.upper(), network, Attachment(""), runtime, valid=valid))

    if container_id is not None and not chain.NAME.fullmatch(container_id):
        raise UserError(
            f"no container ID: {container_id!r}", hint="letters and digits, and after the first one also _ . -"
        )
    if verb == "add":
        if new_netns:
            attachment = Attachment(container_id or TRIAL, ifname=ifname, **given)
            return _add_in_new_namespace(network, attachment, runtime, conflist)
        if netns_path is None:
            raise click.UsageError("add needs a namespace: --netns PATH, or --new-netns to make one")
        attachment = Attachment(container_id or _id_of(given["netns"]), ifname=ifname, **given)
        return _tell(chain.run("ADD", network, attachment, runtime), _undo_hint(attachment, conflist))

    recorded = [attachment for name, attachment in cache.attachments() if name == network.name]
    if container_id is None and new_netns:
        container_id = TRIAL
    elif container_id is None and netns_path is not None:
        container_id = _id_of(given["netns"])
    attachment = _chosen([at for at in recorded if at.ifname == ifname], container_id, ifname, network)
    attachment = replace(attachment, **given)
    code = _tell(chain.run(verb.upper(), network, attachment, runtime))
    if verb == "del" and code == 0:
        _remove_namespace_of(attachment, cache)
    return code


def _tell(outcome: chain.Outcome, hint: str = "") -> int:
    """Print a result to stdout, a failure to stderr; the exit code."""
    if outcome.error is None:
        if outcome.result is not None:
            click.echo(outcome.result.pretty())
        return 0
    # libcni drops this. Whoever tries a chain by hand is glad of it.
    sys.stderr.flush()
    sys.stderr.buffer.write(outcome.stderr)
    if outcome.stderr and not outcome.stderr.endswith(b"\n"):
        sys.stderr.buffer.write(b"\n")
    click.echo(f"cni-capture: {outcome.error}", err=True)
    if "failed to find plugin" in outcome.error:
        click.echo("hint: say with --path or CNI_PATH where plugins are", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return 1


def _undo_hint(attachment: Attachment, conflist: Path) -> str:
    return f"a runtime would now undo what came before it: {_undo(attachment, conflist)}"


def _undo(attachment: Attachment, conflist: Path) -> str:
    words = ["cni-capture", "run", "del", "--container-id", attachment.container_id, "--ifname", attachment.ifname]
    return shlex.join([*words, str(conflist)])


def _add_in_new_namespace(network: Network, attachment: Attachment, runtime: chain.Runtime, conflist: Path) -> int:
    """ADD in a namespace made for it, which is gone again unless the chain came through."""
    name = attachment.container_id
    if netns.path_for(name).exists():
        raise UserError(
            f"there is a namespace for container ID {name} already: {netns.path_for(name)}",
            hint=f"end that one with: {_undo(attachment, conflist)}, or choose another --container-id",
        )
    path = netns.create(name)
    outcome = None
    try:
        outcome = chain.run("ADD", network, replace(attachment, netns=str(path)), runtime)
    finally:
        if outcome is None or outcome.error is not None:
            netns.remove(name)
    return _tell(outcome, _undo_hint(attachment, conflist))


def _remove_namespace_of(attachment: Attachment, cache: Cache) -> None:
    """Remove the namespace that --new-netns made for a container, once nothing on record lives in it any more."""
    path = netns.path_for(attachment.container_id)
    ours = attachment.netns == str(path) and path.exists()
    if ours and all(other.netns != str(path) for _, other in cache.attachments()):
        netns.remove(attachment.container_id)


def _chosen(recorded: list[Attachment], container_id: str | None, ifname: str, network: Network) -> Attachment:
    """The attachment that check and del mean: the one with that container ID, else the only one on record."""
    if container_id is not None:
        path = netns.path_for(container_id)
        unknown = Attachment(container_id, netns=str(path) if path.exists() else "", ifname=ifname)
        return next((at for at in recorded if at.container_id == container_id), unknown)
    if len(recorded) == 1:
        return recorded[0]
    if recorded:
        raise UserError(
            f"several containers have {ifname} on network {network.name}",
            hint="choose one with --container-id: " + ", ".join(at.container_id for at in recorded),
        )
    raise UserError(
        f"no add of {ifname} on network {network.name} is on record",
        hint="name the container with --container-id and, if it is there, its namespace with --netns",
    )


def _living(cache: Cache, network: Network) -> list[Attachment]:
    return [at for name, at in cache.attachments() if name == network.name and os.path.exists(at.netns)]


def _kept(text: str) -> Attachment:
    container_id, slash, ifname = text.partition("/")
    if not (container_id and slash and ifname):
        raise click.BadParameter(f"{text!r} is not ID/IFNAME, as in web/eth0", param_hint="--keep")
    return Attachment(container_id, ifname=ifname)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(pair.split("=")) for pair in text.split(";")] if text else []
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise click.BadParameter(f"{text!r} is not K=V;K=V, as in IgnoreUnknown=1;IP=10.1.1.7", param_hint="--args")
    return tuple((key, value) for key, value in pairs)


def _capabilities(text: str) -> dict[str, Any]:
    try:
        return plain_object(text.encode())
    except GoError as error:
        raise click.BadParameter(
            f'{error}; it takes an object, as in {{"mac": "02:00:00:00:00:01"}}', param_hint="--capability-args"
        ) from None


def _id_of(netns_path: str) -> str:
    """A container ID for a namespace that somebody else made: the same for every run on it, as cnitool does it."""
    return f"cni-capture-{hashlib.sha512(netns_path.encode()).hexdigest()[:20]}"


def _cache_dir() -> Path:
    """A place of our own: in libcni's, a gc would find and delete what the runtimes of this machine recorded."""
    if os.geteuid() == 0:
        return Path("/var/lib/cni-capture")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cni-capture"
