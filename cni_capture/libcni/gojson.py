"""JSON the way Go's encoding/json reads and writes it, as far as libcni lets a plugin or a user see it.

libcni hands a plugin's answer on through Go's decoder and encoder, so what the next plugin gets is Go's view of it:
numbers in maps are float64, keys of maps are sorted, `<` is written `\\u003c`, and a wrong answer is reported in that
decoder's words. Rules and texts are those of Go 1.26 (encoding/json/scanner.go, decode.go, encode.go).

Limit: a document nested deeper than DEEPEST is "exceeded max depth"; Go draws that line at 10000.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

DEEPEST = 200
"""How many lists and objects may lie within one another: few enough for Python's recursion, here and in `gotypes`."""


class GoError(Exception):
    """An error whose text is the one that Go or libcni gives."""


class SyntaxFault(GoError):
    """Not JSON. `line` is the line of the first byte that does not fit, counted from 1, and `at` its place, from 0."""

    def __init__(self, message: str, line: int, at: int) -> None:
        super().__init__(message)
        self.line, self.at = line, at


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    literal: str


@dataclass(frozen=True)
class Object:
    """An object as it was written: every pair in order, keys given twice included."""

    pairs: list[tuple[str, Node]]


Item = TypeVar("Item")
Node: TypeAlias = "bool | str | Number | list[Node] | Object | None"


def parse(data: bytes) -> Node:
    """The tree of one document. Raises SyntaxFault, in the words of scanner.go."""
    scanner = _Scanner(data)
    value = scanner.value()
    if scanner.after_space() is not None:
        raise scanner.unexpected("after top-level value")
    return value


def plain(node: Node) -> Any:
    """What Go makes of a tree when it decodes into `interface{}`: dict (sorted, the last of equal keys), list, str,
    float, bool, None. Raises GoError for a number that is no float64.
    """
    if isinstance(node, Object):
        return dict(sorted((key, plain(value)) for key, value in dict(node.pairs).items()))
    if isinstance(node, list):
        return [plain(item) for item in node]
    if isinstance(node, Number):
        number = float(node.literal)
        if math.isinf(number):
            raise GoError(f"json: cannot unmarshal number {node.literal} into Go value of type float64")
        return number
    return node


def plain_object(data: bytes) -> dict[str, Any]:
    """What Go makes of a document when it decodes into `map[string]interface{}`; null is the empty map.

    Raises GoError, also for JSON that is no object.
    """
    node = parse(data)
    if node is None:
        return {}
    if not isinstance(node, Object):
        raise GoError(f"json: cannot unmarshal {word(node)} into Go value of type map[string]interface {{}}")
    value: dict[str, Any] = plain(node)
    return value


def word(node: Node) -> str:
    """The word that decode.go has for a JSON value of this type."""
    if isinstance(node, Object):
        return "object"
    if isinstance(node, list):
        return "array"
    if isinstance(node, Number):
        return "number"
    if isinstance(node, bool):
        return "bool"
    return "null" if node is None else "string"


def marshal(value: Any, indent: str = "") -> bytes:
    """One document, compact, or with `indent` a line per member. Dicts are written in their own order."""
    return _encode(value, indent, "\n").encode()


def quote(text: bytes) -> str:
    """Bytes as Go's `%q` shows them (strconv.Quote)."""
    return '"' + "".join(map(_quoted, text.decode("utf-8", "surrogateescape"))) + '"'


def _replace_each(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are not UTF-8: Go replaces every single one, Python's "replace" a run of them at once."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("replace-each", _replace_each)

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'[^"\\\x00-\x1f]*')
_HEX = b"0123456789abcdefABCDEF"
_DIGITS = b"0123456789"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_HTML = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


class _Scanner:
    """A recursive descent over the bytes, complaining where and as Go's state machine does."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.depth = data, 0, 0

    def fault(self, message: str) -> SyntaxFault:
        return SyntaxFault(message, self.data.count(b"\n", 0, self.at) + 1, self.at)

    def peek(self) -> int:
        """The next byte. At the end it is a space, because that is what Go feeds its state machine there."""
        return self.data[self.at] if self.at < len(self.data) else 0x20

    def after_space(self) -> int | None:
        """The next byte that is not space, or None at the end."""
        match = _SPACE.match(self.data, self.at)
        assert match is not None
        self.at = match.end()
        return self.data[self.at] if self.at < len(self.data) else None

    def unexpected(self, where: str) -> SyntaxFault:
        char = chr(self.peek())
        shown = {"'": "\\'", '"': '"'}.get(char) or _quoted(char)
        return self.fault(f"invalid character '{shown}' {where}")

    def cut_off(self) -> SyntaxFault:
        return self.fault("unexpected end of JSON input")

    def expect(self, chars: bytes, where: str) -> int:
        """Take the next byte that is not space; it must be one of `chars`."""
        char = self.after_space()
        if char is None:
            raise self.cut_off()
        if char not in chars:
            raise self.unexpected(where)
        self.at += 1
        return char

    def value(self) -> Node:
        match self.after_space():
            case None:
                raise self.cut_off()
            case 0x7B:  # {
                return Object(self.inside(self.pairs))
            case 0x5B:  # [
                return self.inside(self.items)
            case 0x22:  # "
                return self.string()
            case 0x74:  # t
                return self.literal("true", True)
            case 0x66:  # f
                return self.literal("false", False)
            case 0x6E:  # n
                return self.literal("null", None)
            case char if char in b"-0123456789":
                return self.number()
        raise self.unexpected("looking for beginning of value")

    def inside(self, read: Callable[[], list[Item]]) -> list[Item]:
        """Read an object or a list, one level down."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fault("exceeded max depth")
        items = read()
        self.depth -= 1
        return items

    def pairs(self) -> list[tuple[str, Node]]:
        self.at += 1
        pairs: list[tuple[str, Node]] = []
        if self.after_space() == 0x7D:  # }
            self.at += 1
            return pairs
        while True:
            self.expect(b'"', "looking for beginning of object key string")
            self.at -= 1
            key = self.string()
            self.expect(b":", "after object key")
            pairs.append((key, self.value()))
            if self.expect(b",}", "after object key:value pair") == 0x7D:
                return pairs

    def items(self) -> list[Node]:
        self.at += 1
        items: list[Node] = []
        if self.after_space() == 0x5D:  # ]
            self.at += 1
            return items
        while True:
            items.append(self.value())
            if self.expect(b",]", "after array element") == 0x5D:
                return items

    def literal(self, name: str, value: bool | None) -> bool | None:
        for char in name:
            if self.peek() != ord(char):
                raise self.unexpected(f"in literal {name} (expecting '{char}')")
            self.at += 1
        return value

    def number(self) -> Number:
        start = self.at
        if self.peek() == 0x2D:  # -
            self.at += 1
        if self.peek() == 0x30:  # 0
            self.at += 1
        else:
            self.digits("in numeric literal")
        if self.peek() == 0x2E:  # .
            self.at += 1
            self.digits("after decimal point in numeric literal")
        if self.peek() in b"eE":
            self.at += 1
            if self.peek() in b"+-":
                self.at += 1
            self.digits("in exponent of numeric literal")
        return Number(self.data[start : self.at].decode("ascii"))

    def digits(self, where: str) -> None:
        if self.peek() not in _DIGITS:
            raise self.unexpected(where)
        while self.peek() in _DIGITS:
            self.at += 1

    def string(self) -> str:
        start = self.at
        self.at += 1
        while True:
            match = _TEXT.match(self.data, self.at)
            assert match is not None
            self.at = match.end()
            if self.at == len(self.data):
                raise self.cut_off()
            if self.peek() == 0x22:  # "
                self.at += 1
                break
            if self.peek() != 0x5C:  # backslash
                raise self.unexpected("in string literal")
            self.at += 1
            self.escape()
        text: str = json.loads(self.data[start : self.at].decode("utf-8", "replace-each"))
        return _LONE_SURROGATE.sub("\ufffd", text)

    def escape(self) -> None:
        if self.peek() not in b'bfnrt\\/"u':
            raise self.unexpected("in string escape code")
        self.at += 1
        if self.data[self.at - 1] == 0x75:  # u
            for _ in range(4):
                if self.peek() not in _HEX:
                    raise self.unexpected("in \\u hexadecimal character escape")
                self.at += 1


def _encode(value: Any, indent: str, newline: str) -> str:
    if isinstance(value, dict):
        colon = ": " if indent else ":"
        members = [_string(key) + colon + _encode(item, indent, newline + indent) for key, item in value.items()]
        return _enclose("{}", members, indent, newline)
    if isinstance(value, list | tuple):
        return _enclose("[]", [_encode(item, indent, newline + indent) for item in value], indent, newline)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _enclose(brackets: str, members: list[str], indent: str, newline: str) -> str:
    if not members or not indent:
        return brackets[0] + ",".join(members) + brackets[1]
    return brackets[0] + newline + indent + ("," + newline + indent).join(members) + newline + brackets[1]


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_HTML)


def _float(number: float) -> str:
    """The shortest digits that read back as the same float64; an exponent below 1e-6 and from 1e21 on (encode.go)."""
    if number != 0 and not 1e-6 <= abs(number) < 1e21:
        return re.sub(r"e-0(\d)$", r"e-\1", repr(number))
    text = format(Decimal(repr(number)), "f")
    return text.removesuffix(".0")


def _quoted(char: str) -> str:
    if char in _QUOTED:
        return _QUOTED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
