"""Go types as values: what encoding/json makes of a JSON tree when it decodes into one, and how it writes it again.

A *kind* is such a type. `unmarshal` decodes a tree into plain Python (a struct is a dict with every field, absent ones
at their zero value; a nil pointer, slice or map is None), `Kind.encode` gives what `gojson.marshal` is to write.
Rules and error texts follow encoding/json/decode.go of Go 1.26: a wrong type is remembered and decoding goes on, an
error of a type's own UnmarshalJSON ends it at once, and the first remembered error is the one reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cni_capture.libcni.gojson import GoError, Node, Number, Object, plain, word


class Mismatch(GoError):
    """JSON of one type where Go has another (json.UnmarshalTypeError)."""

    def __init__(self, found: str, go: str) -> None:
        super().__init__(found, go)
        self.found, self.go = found, go
        self.struct, self.path = "", ""

    def __str__(self) -> str:
        place = f"Go struct field {self.struct}.{self.path}" if self.struct else "Go value"
        return f"json: cannot unmarshal {self.found} into {place} of type {self.go}"


class Context:
    """Where a decoder is, and the first mismatch it met (decodeState.errorContext, savedError)."""

    def __init__(self) -> None:
        self.struct = ""
        self.path: list[str] = []
        self.saved: GoError | None = None

    def save(self, error: GoError) -> None:
        if self.saved is None:
            self.saved = self.locate(error)

    def locate(self, error: GoError) -> GoError:
        if isinstance(error, Mismatch) and self.struct:
            error.struct = self.struct
            error.path = ".".join([*self.path, error.path] if error.path else self.path)
        return error


class Kind(Protocol):
    """A Go type: its name in error texts, its zero value, and how it is read and written."""

    @property
    def go(self) -> str: ...
    def zero(self) -> Any: ...
    def decode(self, node: Node, old: Any, context: Context) -> Any: ...
    def encode(self, value: Any) -> Any: ...


def attempt(node: Node, kind: Kind) -> tuple[Any, GoError | None]:
    """The value as far as it could be decoded, and the error that `json.Unmarshal` would return."""
    context = Context()
    try:
        value = kind.decode(node, kind.zero(), context)
    except GoError as error:
        return kind.zero(), context.locate(error)
    return value, context.saved


def unmarshal(node: Node, kind: Kind) -> Any:
    """The value of a tree as `kind`. Raises GoError."""
    value, error = attempt(node, kind)
    if error is not None:
        raise error
    return value


@dataclass(frozen=True)
class String:
    go: str = "string"

    def zero(self) -> str:
        return ""

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if isinstance(node, str):
            return node
        if node is not None:
            context.save(Mismatch(word(node), self.go))
        return old

    def encode(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Bool:
    go: str = "bool"

    def zero(self) -> bool:
        return False

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if isinstance(node, bool):
            return node
        if node is not None:
            context.save(Mismatch(word(node), self.go))
        return old

    def encode(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Integer:
    """int and uint of a 64-bit machine; a number that is none is named in the error."""

    go: str
    low: int
    high: int

    def zero(self) -> int:
        return 0

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if isinstance(node, Number):
            # strconv.ParseUint takes no sign at all, so -0 is no uint. Nothing longer fits in 64 bits.
            if re.fullmatch("-?[0-9]{1,20}" if self.low < 0 else "[0-9]{1,20}", node.literal):
                number = int(node.literal)
                if self.low <= number <= self.high:
                    return number
            context.save(Mismatch(f"number {node.literal}", self.go))
        elif node is not None:
            context.save(Mismatch(word(node), self.go))
        return old

    def encode(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Pointer:
    to: Kind

    @property
    def go(self) -> str:
        return "*" + self.to.go

    def zero(self) -> None:
        return None

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if node is None:
            return None
        return self.to.decode(node, self.to.zero() if old is None else old, context)

    def encode(self, value: Any) -> Any:
        return None if value is None else self.to.encode(value)


@dataclass(frozen=True)
class Slice:
    """A list. One given a second time is decoded over the first, element by element, as Go does."""

    of: Kind

    @property
    def go(self) -> str:
        return "[]" + self.of.go

    def zero(self) -> None:
        return None

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if node is None:
            return None
        if not isinstance(node, list):
            context.save(Mismatch(word(node), self.go))
            return old
        before = (old or [])[: len(node)]
        before += [self.of.zero() for _ in node[len(before) :]]
        return [self.of.decode(item, value, context) for item, value in zip(node, before, strict=True)]

    def encode(self, value: Any) -> Any:
        return None if value is None else [self.of.encode(item) for item in value]


@dataclass(frozen=True)
class Map:
    """A map with string keys."""

    of: Kind

    @property
    def go(self) -> str:
        return "map[string]" + self.of.go

    def zero(self) -> None:
        return None

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if node is None:
            return None
        if not isinstance(node, Object):
            context.save(Mismatch(word(node), self.go))
            return old
        return (old or {}) | {key: self.of.decode(item, self.of.zero(), context) for key, item in node.pairs}

    def encode(self, value: Any) -> Any:
        return None if value is None else {key: self.of.encode(item) for key, item in sorted(value.items())}


@dataclass(frozen=True)
class Anything:
    """`interface{}`."""

    go: str = "interface {}"

    def zero(self) -> None:
        return None

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        try:
            return plain(node)
        except GoError as error:
            context.save(error)
            return old

    def encode(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Struct:
    """A struct: fields by JSON name, in the order of the Go source; those in `always` are written even when empty."""

    go: str
    fields: Mapping[str, Kind]
    always: frozenset[str] = frozenset()

    def zero(self) -> dict[str, Any]:
        return {name: kind.zero() for name, kind in self.fields.items()}

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if node is None:
            return old
        if not isinstance(node, Object):
            context.save(Mismatch(word(node), self.go))
            return old
        value = dict(old)
        outer = context.struct
        for key, item in node.pairs:
            name = self._field(key)
            if name is None:
                continue
            context.struct = self.go.rpartition(".")[2]
            context.path.append(name)
            value[name] = self.fields[name].decode(item, value[name], context)
            context.path.pop()
            context.struct = outer
        return value

    def _field(self, key: str) -> str | None:
        """The exact name, else the same in other case; the length keeps out folds that Go does not know (ß, ss)."""
        if key in self.fields:
            return key
        folded = key.casefold()
        return next((n for n in self.fields if n.casefold() == folded and len(n) == len(key)), None)

    def encode(self, value: Any) -> Any:
        # omitempty leaves out "", 0, false, nil and empty lists, but never a struct, and not a pointer to a zero.
        return {
            name: kind.encode(value[name])
            for name, kind in self.fields.items()
            if name in self.always or isinstance(kind, Struct) or not _is_empty(kind, value[name])
        }


def _is_empty(kind: Kind, value: Any) -> bool:
    return value is None if isinstance(kind, Pointer) else not value


@dataclass(frozen=True)
class Text:
    """A type with UnmarshalText, such as net.IP: `read` takes the text, raises GoError, gives what is kept."""

    go: str
    read: Callable[[str], str]

    def zero(self) -> str:
        return ""

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        if isinstance(node, str):
            return self.read(node)
        if node is None:
            return ""
        context.save(Mismatch(word(node), self.go))
        return old

    def encode(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Own:
    """A type with an UnmarshalJSON of its own, which decodes into another kind and is free to refuse what it finds."""

    go: str
    inner: Kind
    read: Callable[[Any], Any] = field(default=lambda value: value)
    unset: Any = None
    """What the zero value is written as, for a type that is not written as `inner` is."""

    def zero(self) -> Any:
        return self.inner.zero() if self.unset is None else self.unset

    def decode(self, node: Node, old: Any, context: Context) -> Any:
        return self.read(unmarshal(node, self.inner))

    def encode(self, value: Any) -> Any:
        return self.inner.encode(value)
