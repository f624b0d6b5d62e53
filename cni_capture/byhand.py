"""What a probe says to a person who runs it by hand. Never imported in a call."""

from cni_capture import __version__
from cni_capture.reply import SUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cni_capture.process import Writer

_ROLES = {
    "capture-pre": "a CNI plugin that records what goes into the plugins after it",
    "capture-post": "a CNI plugin that records what comes out of the plugins before it",
    "capture-wrap": "a CNI plugin that runs another one in its place, and records what that got, said and died of",
}

_HELP = """\
{about}

{use}

Environment, where the entry in the conflist does not say otherwise (default):
    CNI_CAPTURE_LOG_FILE       where to record (/tmp/cni.log)
    CNI_CAPTURE_LOCK_FILE      what to lock (/var/run/lock/cni.lock)
    CNI_CAPTURE_LOG_FORMAT     text or json (text)
    CNI_CAPTURE_LOCK_TIMEOUT   seconds to wait for the lock (2)
    CNI_CAPTURE_INTERFACES     true: record the interfaces, too (false)
"""

_USE = """\
Container runtimes run it; it does nothing to the network. Name it in a .conflist in
/etc/cni/net.d, with its partner at the other end of what you want to see:

    {{"type": "capture-pre"}}, ... , {{"type": "capture-post"}}

and read /tmp/cni.log.

By hand:
    echo '{{"cniVersion":"1.0.0","name":"try"}}' |
        CNI_COMMAND=ADD CNI_CONTAINERID=try {probe}"""

_USE_OF_WRAP = """\
Container runtimes run it; the plugin behind it gets and does what it always does. In a
.conflist in /etc/cni/net.d, give the plugin's own entry (or its ipam) this type, and move
the real one under "capture", where our settings stand, too:

    {{"type": "bridge", "mtu": 1400}}
    {{"type": "capture-wrap", "capture": {{"type": "bridge"}}, "mtu": 1400}}

and read /tmp/cni.log.

By hand:
    echo '{{"cniVersion":"1.0.0","name":"try","type":"{probe}","capture":{{"type":"loopback"}}}}' |
        CNI_COMMAND=STATUS CNI_PATH=/opt/cni/bin {probe}"""


def answer(probe: str, arguments: "Sequence[str]", stdout: "Writer", stderr: "Writer") -> int:
    """Answer a command line that is not a call; return the exit status."""
    about = f"{probe} {__version__}: {_ROLES[probe]}; CNI versions {', '.join(SUPPORTED)}"
    if not arguments:
        stderr.write(f"{about}\n".encode())
        return 0
    if arguments[0] in ("-h", "--help"):
        use = _USE_OF_WRAP if probe == "capture-wrap" else _USE
        stdout.write(_HELP.format(about=about, use=use.format(probe=probe)).encode())
        return 0
    if arguments[0] in ("-V", "--version"):
        stdout.write(f"{probe} {__version__}\n".encode())
        return 0
    hint = "hint: a call comes by CNI_COMMAND and stdin, see --help"
    stderr.write(f"{probe}: {arguments[0]!a} is not understood; {hint}\n".encode())
    return 2
