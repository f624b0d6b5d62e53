"""One call into the log: what is known of it, without secrets, as one record."""

import posix

from cni_capture.call import Call, quote
from cni_capture.log import write
from cni_capture.record import LINES, Record, quoted
from cni_capture.settings import Settings, read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cni_capture.call import Config

# How much of a plugin's stderr is recorded, bytes from its end.
LAST_WORDS = 65536


class Sight:
    """What a probe saw at one time: `raw` as the `what` ("input", "output") of a call, on one `side` ("entry", "exit").

    `times` are when, in nanoseconds since the epoch and of the monotonic clock; `text` is `raw` decoded, where it is
    JSON. What only a stand-in for a plugin knows: more `facts`, as JSON texts, and the plugin's `stderr`.
    """

    __slots__ = ("facts", "raw", "side", "stderr", "text", "times", "what")

    def __init__(
        self,
        times: "tuple[int, int]",
        side: str,
        what: str,
        raw: bytes,
        text: "str | None",
        facts: "Mapping[str, str] | None" = None,
        stderr: "bytes | None" = None,
    ) -> None:
        self.times = times
        self.side = side
        self.what = what
        self.raw = raw
        self.text = text
        self.facts = facts or {}
        self.stderr = stderr


def capture(probe: str, call: Call, source: "Config | None", sight: Sight) -> str:
    """Record what `probe` saw of a call; `source` is the object with our settings.

    Never raises: returns what was in the way, in words, or "".
    """
    try:
        settings = read_settings(source, call.environ)
        facts = {"side": quote(sight.side), **_describe(call, settings, sight.times[1]), **sight.facts}
        body = _seal(sight.raw, sight.text, settings, facts)
        if sight.stderr is not None:
            facts["stderr"] = _last_words(sight.stderr, settings)
        record = Record(probe, posix.getpid(), sight.times[0], call.environ, facts, sight.what, body)

        def line(unlocked: str) -> "list[bytes]":
            if unlocked:
                facts["unlocked"] = quote(unlocked)
            return LINES[settings.log_format](record)

        trouble = write(settings, line)
        return "; ".join([*settings.complaints, trouble] if trouble else settings.complaints)
    except Exception as error:
        return f"not recorded: {type(error).__name__}: {error}"


def _describe(call: Call, settings: Settings, monotonic: int) -> "dict[str, str]":
    """The facts of a call besides its variables and stdin, as JSON texts. `monotonic` is in nanoseconds."""
    parent = posix.getppid()
    facts = {"monotonic": f"{monotonic // 1_000_000_000}.{monotonic // 1000 % 1_000_000:06}", "ppid": str(parent)}
    name = _command_name(parent)
    if name:
        facts["parent"] = quote(name)
    if call.config:
        network = call.config.value("name")
        if isinstance(network, str):
            facts["network"] = quote(network)
        facts["cniVersion"] = call.config.cni_version
    if settings.label:
        facts["label"] = quote(settings.label)
    if call.error:
        details = f',"details":{quote(call.error.details)}' if call.error.details else ""
        facts["error"] = f'{{"code":{call.error.code},"msg":{quote(call.error.msg)}{details}}}'
    if settings.interfaces:
        try:
            from cni_capture.interfaces import snapshot

            facts["interfaces"] = snapshot(call.environ.get("CNI_NETNS", ""))
        except Exception as error:  # from a checkout without netifaces, say: no reason to lose the record
            facts["interfaces"] = f'{{"error":{quote(f"{type(error).__name__}: {error}")}}}'
    return facts


def _seal(raw: bytes, text: "str | None", settings: Settings, facts: "dict[str, str]") -> bytes:
    """What of `raw` goes into the log: as it is, without secrets (then named in `facts`), quoted where it is not JSON.

    `text` is `raw` decoded where it is JSON, else None.
    """
    is_object = text is not None and text.lstrip(" \t\r\n")[:1] == "{"
    if raw and settings.redact and _may_hold(text, settings.redact):
        from cni_capture.redact import cut, redact

        if text is not None and is_object:
            text, keys = redact(text, settings.redact)
            raw = text.encode()
        else:
            raw, keys = cut(raw, settings.redact)
        if keys:
            facts["redacted"] = f"[{','.join(map(quote, keys))}]"
    return raw if is_object else quoted(raw)


def _last_words(stderr: bytes, settings: Settings) -> str:
    """The end of a plugin's stderr as JSON. Of a line that names a secret, nothing past the name: the rest is words."""
    if stderr and settings.redact:
        from cni_capture.redact import cut

        stderr = b"\n".join([cut(line, settings.redact)[0] for line in stderr.split(b"\n")])
    return quoted(stderr[-LAST_WORDS:]).decode()


def _may_hold(text: "str | None", names: "tuple[str, ...]") -> bool:
    """Whether one of `names` may be a key in `text`, at a glance.

    A key can be spelled with escapes: a value that libcni escaped (`<`, `>`, `&`) costs a closer look. So does a text
    that is not ASCII, which takes up to twelve times its size to casefold.
    """
    if text is None or not text.isascii():
        return True
    folded = text.casefold()
    return "\\u" in folded or any(name in folded for name in names)


def _command_name(pid: int) -> str:
    """The name of process `pid`; "" where the kernel does not tell."""
    try:
        fd = posix.open(f"/proc/{pid}/comm", posix.O_RDONLY | posix.O_CLOEXEC)
        name = posix.read(fd, 64)
    except OSError:  # no /proc, or the process has just ended
        return ""
    posix.close(fd)
    return name.decode("utf-8", "surrogateescape").rstrip("\n")
