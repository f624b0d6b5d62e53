"""Every member of a JSON text, at any depth, without recursion.

The hot floor's way where the C scanner does not do: nested deeper than the interpreter's stack, or values to be found
at depth. Imported only then.
"""

from cni_capture.call import Skip, scanner, scanstring, skip_space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSING = {"{": "}", "[": "]"}


def members(text: str) -> "Iterator[tuple[int, str, int, int]]":
    """Yield (depth, key, start, end) of every object member of a JSON object, each when its value ends.

    `depth` is 1 for the members of the outermost object; text[start:end] is the value. Raises ValueError at the first
    thing that is not JSON, or when the text is not one object.
    """
    scan = scanner(Skip)
    # One entry per open container: what closes it, and the key (None in an array) and start of the value that it is.
    open_: list[tuple[str, str | None, int]] = []
    key: str | None = None
    at = skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(f"'{{' expected at character {at}")
    while True:
        start, mark = at, text[at : at + 1]
        if mark in _CLOSING:
            open_.append((_CLOSING[mark], key, start))
            at = skip_space(text, at + 1)
            if text[at : at + 1] != _CLOSING[mark]:
                key, at = _read_key(text, at) if mark == "{" else (None, at)
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
        key, at = _read_key(text, at) if open_[-1][0] == "}" else (None, at)
    if at != len(text):
        raise ValueError(f"more text after the object, at character {at}")


def _read_key(text: str, at: int) -> tuple[str, int]:
    """The key at `at`, and where its value begins."""
    if text[at : at + 1] != '"':
        raise ValueError(f"key expected at character {at}")
    key, at = scanstring(text, at + 1, True)
    at = skip_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"':' expected at character {at}")
    return key, skip_space(text, at + 1)
