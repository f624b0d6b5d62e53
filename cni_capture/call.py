"""A CNI call, read from the environment and stdin, with exact slices of its JSON.

Part of the hot floor: imported at every container start, so only the cheapest parts of the standard library are used.
"""

try:
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner, scanstring
except ImportError:  # no Python promises that module
    from json.decoder import scanstring  # type: ignore[no-redef,attr-defined]
    from json.encoder import encode_basestring_ascii as quote

    make_scanner = None  # type: ignore[assignment,misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CNIError", "Call", "Config", "quote", "read_config", "read_verb", "scanner", "scanstring", "skip_space"]

# Spec, "CNI operations": the verbs of 0.1.0 to 1.1.0.
VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
# Spec, "Parameters": these three are about one attachment and need its container.
_NEED_CONTAINER = ("ADD", "DEL", "CHECK")

# Spec, "Error": 4, invalid necessary environment variables; 5, I/O failure; 6, failed to decode content.
BAD_ENVIRONMENT = 4
IO_FAILURE = 5
BAD_CONFIG = 6
# Not in the spec; what the reference code answers with when it has failed itself (pkg/types/types.go, ErrInternal).
INTERNAL = 999

# Characters. In an array of short strings the C scanner builds 16 times the text.
_LARGE = 1024 * 1024

# A configuration without a version is of the first (spec 0.3.0, "Network Configuration").
DEFAULT_VERSION = "0.1.0"


class CNIError(Exception):
    """An error as the runtime gets it (spec, "Error"): `code`, a short `msg`, and `details`."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details


class Config:
    """A network configuration: its `text`, and where in it each top-level value stands."""

    __slots__ = ("spans", "text")

    def __init__(self, text: str, spans: "dict[str, tuple[int, int]]") -> None:
        self.text = text
        self.spans = spans

    def raw(self, key: str) -> "str | None":
        """The exact JSON text of a top-level value; None when it is absent or `null`."""
        span = self.spans.get(key)
        if span is None:
            return None
        raw = self.text[span[0] : span[1]]
        return None if raw == "null" else raw

    def value(self, key: str) -> object:
        """A top-level value, decoded; None when it is absent or `null`, bytes of JSON where Python cannot hold it."""
        raw = self.raw(key)
        if raw is None:
            return None
        try:
            return scanner(Decode)(raw, 0)[0]
        except (ValueError, RecursionError):  # 5,000 digits, 5,000 levels: JSON, but not what any setting is
            return raw.encode()

    @property
    def cni_version(self) -> str:
        """The exact JSON text of `cniVersion`; that of 0.1.0 when there is none, or none that can be a version."""
        raw = self.raw("cniVersion")
        return raw if raw and raw[0] == '"' and raw != '""' and raw.isascii() else f'"{DEFAULT_VERSION}"'


class Call:
    """What a runtime asked of a plugin: CNI variables, verb, stdin, and what was wrong with them."""

    __slots__ = ("config", "environ", "error", "stdin", "verb")

    def __init__(self, environ: "Mapping[str, str]") -> None:
        self.environ = environ
        self.verb = ""
        self.stdin = b""
        self.config: Config | None = None
        self.error: CNIError | None = None


def read_verb(environ: "Mapping[str, str]") -> str:
    """The verb in `CNI_COMMAND`.

    Raises CNIError 4 when there is none, when it is unknown, and when an attachment's verb names no container. The
    words are those of the reference code (pkg/skel/skel.go), which people search for.
    """
    verb = environ.get("CNI_COMMAND", "")
    missing = [] if verb else ["CNI_COMMAND"]
    if verb not in VERBS and not missing:
        raise CNIError(BAD_ENVIRONMENT, f"unknown CNI_COMMAND: {verb}")
    if verb in _NEED_CONTAINER and not environ.get("CNI_CONTAINERID"):
        missing.append("CNI_CONTAINERID")
    if missing:
        raise CNIError(BAD_ENVIRONMENT, f"required env variables [{','.join(missing)}] missing")
    return verb


def read_config(stdin: bytes) -> Config:
    """The network configuration on stdin. Raises CNIError 6 when it is not one JSON object in UTF-8."""
    try:
        text = stdin.decode()
        try:
            spans = _outline(text)
        except SystemError:  # the C code raises the exception of `json.decoder`, and none where nobody imported that
            import json.decoder  # noqa: F401

            spans = _outline(text)
    except UnicodeDecodeError as error:
        raise CNIError(BAD_CONFIG, "network configuration is not UTF-8", str(error)) from None
    except (ValueError, StopIteration) as error:
        details = str(error) if isinstance(error, ValueError) else f"value expected at character {error.value}"
        raise CNIError(BAD_CONFIG, "network configuration is not a JSON object", details) from None
    return Config(text, spans)


def _outline(text: str) -> "dict[str, tuple[int, int]]":
    """Where each top-level value of an object begins and ends."""
    if len(text) < _LARGE:
        try:
            return _spans(text)
        except RecursionError:  # deeper than the C scanner goes, and still JSON
            pass
    from cni_capture.walk import outline

    return outline(text)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class Skip:
    """How a scanner walks over a value: strict JSON, numbers not converted, so of any size."""

    strict = True
    object_hook = object_pairs_hook = memo = None
    parse_float = parse_int = bool
    parse_constant = staticmethod(_no_constant)


class Decode(Skip):
    """How a scanner decodes a value."""

    parse_float = float  # type: ignore[assignment]
    parse_int = int  # type: ignore[assignment]


def scanner(shape: "type[Skip]") -> "Callable[[str, int], tuple[object, int]]":
    """A function from a JSON text and where a value begins to that value and where it ends.

    It raises ValueError, StopIteration where no value begins, and RecursionError where it is nested too deep.
    """
    try:
        return make_scanner(shape)  # type: ignore[arg-type]
    except (AttributeError, TypeError):  # what it asks of a shape is not documented, and may grow
        from json import JSONDecoder

        decoder = JSONDecoder(
            parse_float=shape.parse_float, parse_int=shape.parse_int, parse_constant=shape.parse_constant
        )
        return decoder.scan_once  # type: ignore[no-any-return,attr-defined]


def _spans(text: str) -> "dict[str, tuple[int, int]]":
    """Where each top-level value of an object begins and ends; of a key that stands twice the last, as Go decodes."""
    skip_value = scanner(Skip)
    spans = {}
    at = skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(f"'{{' expected at character {at}")
    at = skip_space(text, at + 1)
    closed = text[at : at + 1] == "}"
    while not closed:
        if text[at : at + 1] != '"':
            raise ValueError(f"key expected at character {at}")
        key, at = scanstring(text, at + 1, True)
        at = skip_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"':' expected at character {at}")
        start = skip_space(text, at + 1)
        at = skip_value(text, start)[1]
        spans[key] = (start, at)
        at = skip_space(text, at)
        mark = text[at : at + 1]
        if mark == ",":
            at = skip_space(text, at + 1)
        elif mark == "}":
            closed = True
        else:
            raise ValueError(f"',' or '}}' expected at character {at}")
    at = skip_space(text, at + 1)
    if at != len(text):
        raise ValueError(f"more text after the object, at character {at}")
    return spans


def skip_space(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\t", "\r"):
        at += 1
    return at
