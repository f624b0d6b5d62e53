"""Keep credentials out of the log: the values of named keys, replaced; never in what goes to the runtime."""

from cni_capture.walk import members

REPLACEMENT = '"[redacted]"'


def redact(text: str, names: "tuple[str, ...]") -> "tuple[str, list[str]]":
    """`text` (one JSON object) with the value of each member whose key is in `names` replaced, and the keys found.

    At any depth and for values of any type. `names` are casefolded and match keys in any case, since that is how Go
    decodes a plugin's configuration (encoding/json, Unmarshal).
    """

    def dull(_: int, piece: str) -> bool:
        folded = piece.casefold()
        return "\\u" not in folded and not any(name in folded for name in names)  # a key can be spelled with escapes

    found = sorted((start, end, key) for _, key, start, end in members(text, dull) if key.casefold() in names)
    pieces = []
    keys = set()
    done = 0
    for start, end, key in found:
        if start >= done:  # else it lies inside a value that is replaced already
            pieces += [text[done:start], REPLACEMENT]
            keys.add(key)
            done = end
    return "".join(pieces) + text[done:], sorted(keys)


def cut(raw: bytes, names: "tuple[str, ...]") -> "tuple[bytes, list[str]]":
    """`raw` that is not JSON, up to the first of `names` in it: past that, nobody knows where a value ends."""
    lower = raw.lower()
    encoded = [(name.encode("utf-8", "surrogatepass"), name) for name in names]
    found = [(at, mark, name) for mark, name in encoded if (at := lower.find(mark)) >= 0]
    if not found:
        return raw, []
    at, mark, name = min(found)
    return raw[: at + len(mark)] + b"[redacted]", [name]
