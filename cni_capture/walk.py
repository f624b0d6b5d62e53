"""Every member of a JSON text, at any depth, without recursion and without a copy of what is in it.

The hot floor's way where the C scanner does not do: nested deeper than the interpreter's stack, so large that what it
builds would be many times the text, or values to be found at depth. Imported only then.
"""

from cni_capture.call import Skip, scanner, scanstring, skip_space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLOSING = {"{": "}", "[": "]"}
# Characters that the C scanner is given at a time.
_PIECE = 65536


def outline(text: str) -> "dict[str, tuple[int, int]]":
    """Where each top-level value of a JSON object begins and ends. Raises ValueError as members() does."""
    return {key: (start, end) for depth, key, start, end in members(text, lambda depth, _: depth > 1) if depth == 1}


def members(text: str, dull: "Callable[[int, str], bool]") -> "Iterator[tuple[int, str, int, int]]":
    """Yield (depth, key, start, end) of every object member of a JSON object, each when its value ends.

    `depth` is 1 for the members of the outermost object; text[start:end] is the value. What `dull` says of a depth and
    a piece of the text there is checked, but its members need not be yielded. Raises ValueError at the first thing that
    is not JSON, or when the text is not one object.
    """
    scan = scanner(Skip)
    # One entry per open container: what closes it, and the key (None in an array) and start of the value that it is.
    open_: list[tuple[str, str | None, int]] = []
    key: str | None = None
    tried = 0  # up to here it is known that no piece can be skipped
    at = skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(f"'{{' expected at character {at}")
    while True:
        if open_:
            closing = open_[-1][0]
            while at >= tried:
                piece, tried = _piece(text, at, closing)
                if piece and dull(len(open_), piece) and _is_whole(piece, closing, scan):
                    at = skip_space(text, tried)
            key, at = _read_key(text, at) if closing == "}" else (None, at)
        start, mark = at, text[at : at + 1]
        if mark in _CLOSING:
            open_.append((_CLOSING[mark], key, start))
            at = skip_space(text, at + 1)
            if text[at : at + 1] != _CLOSING[mark]:
                continue
        else:
            try:
                at = scan(text, at)[1]
            except StopIteration:
                raise ValueError(f"value expected at character {at}") from None
            if key is not None:
                yield len(open_), key, start, at
            at = skip_space(text, at)
        while open_ and text[at : at + 1] == open_[-1][0]:
            _, key, start = open_.pop()
            if key is not None:
                yield len(open_), key, start, at + 1
            at = skip_space(text, at + 1)
        if not open_:
            break
        if text[at : at + 1] != ",":
            raise ValueError(f"',' or '{open_[-1][0]}' expected at character {at}")
        at = skip_space(text, at + 1)
    if at != len(text):
        raise ValueError(f"more text after the object, at character {at}")


def _piece(text: str, at: int, closing: str) -> tuple[str, int]:
    """What may be some whole members or elements, up to a comma, and where the next would begin."""
    mark = _CLOSING.get(text[at : at + 1], "") if closing == "]" else ""
    comma = text.rfind(mark + ",", at, at + _PIECE)
    if comma < 0:
        return "", at + _PIECE
    end = comma + len(mark)
    return text[at:end], end + 1


def _is_whole(piece: str, closing: str, scan: "Callable[[str, int], tuple[object, int]]") -> bool:
    """Whether a piece is some whole members of an object, or elements of an array."""
    container = ("{" if closing == "}" else "[") + piece + closing
    try:
        return scan(container, 0)[1] == len(container)
    except (ValueError, StopIteration, RecursionError, SystemError):  # SystemError: see read_config()
        return False


def _read_key(text: str, at: int) -> tuple[str, int]:
    """The key at `at`, and where its value begins."""
    if text[at : at + 1] != '"':
        raise ValueError(f"key expected at character {at}")
    key, at = scanstring(text, at + 1, True)
    at = skip_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"':' expected at character {at}")
    return key, skip_space(text, at + 1)
