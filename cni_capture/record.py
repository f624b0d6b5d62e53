"""One record -> one line. Both formats carry the same facts, in the same words, and lose nothing.

JSON: one object a line, `"v":1` first, then the facts; keys are only ever added. Text: the facts as `key=value` words,
then the message that people grep for, `CNI_COMMAND=<verb>,CNI_CONTAINERID=<id>,input=<json>` (or `output=`). In a text
record a value is JSON when it begins with `"`, `{` or `[`, and else bare up to the next blank (in the message: comma).

What is captured stands in the line exactly as it was. Two things cannot, and the record says so:
- line feeds and carriage returns between JSON tokens become spaces; `newlines` and `returns` give their byte offsets;
- what is not a JSON object in UTF-8 (or has thousands of line breaks) becomes a JSON string in which a byte that is not
  UTF-8 is a lone surrogate, U+DC80 to U+DCFF (Python's "surrogateescape"). Where it was the call that was wrong,
  `error` says how.
"""

import time
from _io import BytesIO

from cni_capture.call import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
# These have their places in the message of a text record.
_MESSAGE = ("CNI_COMMAND", "CNI_CONTAINERID")
_BREAKS = ((b"\n", "newlines"), (b"\r", "returns"))
# What a person wrote has hundreds at most; a list of millions of offsets would cost more than it is worth.
_MOST_BREAKS = 4096
# Characters that are quoted at a time.
_PIECE = 65536


class Record:
    """One thing that one probe saw.

    `facts` are JSON texts by key, in the order of the line; `what` is "input" or "output" and `body` its exact JSON,
    or what quoted() made of something that is none. `environ` holds the CNI variables.
    """

    __slots__ = ("body", "environ", "facts", "nanoseconds", "pid", "probe", "what")

    def __init__(
        self,
        probe: str,
        pid: int,
        nanoseconds: int,
        environ: "Mapping[str, str]",
        facts: "dict[str, str]",
        what: str,
        body: bytes,
    ) -> None:
        self.probe = probe
        self.pid = pid
        self.nanoseconds = nanoseconds  # since the epoch
        self.environ = environ
        self.facts = facts
        self.what = what
        self.body = fold(body, facts)


def json_line(record: Record) -> "list[bytes]":
    """The record as a JSON object, in pieces, so that a large body need not be copied; a line feed at the end."""
    environ = ",".join([f"{quote(key)}:{quote(value)}" for key, value in record.environ.items()])
    facts = "".join([f'"{key}":{value},' for key, value in record.facts.items()])
    head = (
        f'{{"v":{VERSION},"time":"{timestamp(record.nanoseconds)}","probe":"{record.probe}","pid":{record.pid},'
        f'"env":{{{environ}}},{facts}"{record.what}":'
    )
    return [head.encode(), record.body, b"}\n"]


def text_line(record: Record) -> "list[bytes]":
    """The record as logfmt words and a message, in pieces as in json_line()."""
    words = [f"{timestamp(record.nanoseconds)} {record.probe}[{record.pid}]"]
    words += [f"{word(key)}={word(value)}" for key, value in record.environ.items() if key not in _MESSAGE]
    words += [f"{key}={fact(value)}" for key, value in record.facts.items()]
    verb, container = [word(record.environ[key], ",") if key in record.environ else "" for key in _MESSAGE]
    words.append(f"CNI_COMMAND={verb},CNI_CONTAINERID={container},{record.what}=")
    return [" ".join(words).encode(), record.body, b"\n"]


LINES = {"text": text_line, "json": json_line}


def timestamp(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as RFC 3339, UTC, to the microsecond."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest // 1000:06}Z"


def word(value: str, also: str = " ") -> str:
    """A string as the value of a text record's word: bare where it can be, else a JSON string in ASCII.

    Bare is: printable ASCII without blank, quotes, backslash, `=` or `also`, and not empty (an empty value is `""`,
    nothing at all means that there was none).
    """
    return bare(quote(value), also)


def bare(json_text: str, also: str = " ") -> str:
    """The same for a string that is JSON already."""
    inner = json_text[1:-1]
    if (
        not inner
        or inner[0] in "{["
        or "\\" in inner
        or " " in inner
        or "=" in inner
        or also in inner
        or "\x7f" in inner
    ):
        return json_text
    return inner


def fact(json_text: str) -> str:
    """Any JSON as the value of a word; a string that would read as a number or a constant stays quoted."""
    if json_text[0] != '"' or json_text in ('"true"', '"false"', '"null"'):
        return json_text
    try:
        float(json_text[1:-1])
    except ValueError:
        return bare(json_text)
    return json_text


def quoted(raw: bytes) -> bytes:
    """Any bytes as a JSON string in ASCII; see the module's docstring for what is not UTF-8."""
    text = raw.decode("utf-8", "surrogateescape")
    line = BytesIO()
    line.write(b'"')
    for at in range(0, len(text), _PIECE):  # all at once would be up to six times as long, and that twice
        line.write(quote(text[at : at + _PIECE])[1:-1].encode())
    line.write(b'"')
    return line.getvalue()


def fold(body: bytes, facts: "dict[str, str]") -> bytes:
    """JSON on one line; what became a space is noted in `facts`. With very many line breaks, a JSON string."""
    breaks = {key: body.count(mark) for mark, key in _BREAKS if mark in body}
    if sum(breaks.values()) > _MOST_BREAKS:
        return quoted(body)
    for mark, key in _BREAKS:
        if key in breaks:
            facts[key] = f"[{','.join(map(str, _offsets(body, mark)))}]"
            body = body.replace(mark, b" ")
    return body


def _offsets(body: bytes, mark: bytes) -> "list[int]":
    found = []
    at = body.find(mark)
    while at >= 0:
        found.append(at)
        at = body.find(mark, at + 1)
    return found
