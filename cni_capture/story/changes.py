"""What the plugins of a stretch changed: the prevResult that went in against the result that came out.

As words for a list (`+ip +route mtu`), as a diff for reading, and as claims held against what was there: the addresses
of the result against those that the exit probe found in the namespace, where it was asked to look. No I/O.
"""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cni_capture.call import CNIError, read_config
from cni_capture.reading.records import decode
from cni_capture.story.operations import Operation

# The time to compare grows with the square.
_MOST_LINES = 4000


class _Input(Struct, gc=False):
    type: Raw = Raw()
    prevResult: Raw = Raw()


def results(operation: Operation) -> tuple[bytes, bytes]:
    """The result that went into an ADD, and the one that came out, as exact JSON; empty where there is none."""
    if operation.first.env.command != "ADD":
        return b"", b""
    before = _previous(operation.entry.body) if operation.entry else b""
    after = operation.exit.body if operation.exit and not operation.is_failure else b""
    return before, after if after[:1] == b"{" else b""


def _previous(config: bytes) -> bytes:
    raw = _member(config, "prevResult")
    return b"" if raw == b"null" else raw


def is_ipam(operation: Operation) -> bool:
    """Whether a plugin calls its IPAM plugin, which gets the configuration of its caller (spec, section 4)."""
    entry = operation.entry
    return entry is not None and bool(entry.plugin) and decode(_member(entry.body, "type")) != entry.plugin


def _member(config: bytes, key: str) -> bytes:
    """`type` or `prevResult` of a configuration, as exact JSON; empty where there is none."""
    try:
        return bytes(getattr(msgspec.json.decode(config, type=_Input), key))
    except (msgspec.DecodeError, RecursionError):
        try:
            return (read_config(config).raw(key) or "").encode()
        except CNIError:
            return b""


def words(before: Any, after: Any) -> list[str]:
    """How result `after` differs from `before` (None: there was none): `+x` new, `-x` gone, `x` changed.

    x is ip, route, if (an interface), dns, what changed of an interface (mtu, mac, ...), or another key. A result
    that is None or no object tells nothing.
    """
    if not isinstance(after, dict):
        return []
    old, new = _lists(before if isinstance(before, dict) else {}), _lists(after)
    found: list[str] = []
    for name, key in (("ip", "ips"), ("if", "interfaces"), ("route", "routes")):
        was, now = old.pop(key), new.pop(key)
        found += [f"+{name}"] if now.keys() - was.keys() else []
        found += [f"-{name}"] if was.keys() - now.keys() else []
        for identity in [identity for identity in was if identity in now and was[identity] != now[identity]]:
            found += _fields(was[identity], now[identity]) if key == "interfaces" else [name]
    # libcni writes an empty one or none, as its version likes.
    for key in [*new, *(key for key in old if key not in new)]:
        is_there, was_there = new.get(key) not in (None, {}), old.get(key) not in (None, {})
        if is_there != was_there:
            found.append(f"{'+' if is_there else '-'}{key}")
        elif new.get(key) != old.get(key) and is_there:
            found.append(key)
    if before is None:
        found = [word for word in found if word != "+cniVersion"]
    return list(dict.fromkeys(found))


def _fields(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [key for key in {**was, **now} if was.get(key) != now.get(key)]


def _lists(result: dict[str, Any]) -> dict[str, Any]:
    """A result with its lists as dictionaries, by what tells their items apart."""
    interfaces = _items(result.get("interfaces"))
    return {
        **{key: value for key, value in result.items() if key not in ("ip4", "ip6")},
        "ips": {str(item.get("address")): item for item in _ips(result)},
        "routes": {
            (str(item.get("dst")), str(item.get("table", "")), str(item.get("priority", ""))): item
            for item in [
                *_items(result.get("routes")),
                *(route for ip in _old(result) for route in _items(ip.get("routes"))),
            ]
        },
        "interfaces": {(str(item.get("name")), str(item.get("sandbox", ""))): item for item in interfaces},
    }


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _old(result: dict[str, Any]) -> list[dict[str, Any]]:
    """`ip4` and `ip6` of spec 0.1.0 and 0.2.0."""
    return [ip for key in ("ip4", "ip6") if isinstance(ip := result.get(key), dict)]


def _ips(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *_items(result.get("ips")),
        *({"address": ip.get("ip"), "gateway": ip.get("gateway")} for ip in _old(result)),
    ]


def addresses(result: Any) -> list[str]:
    """The addresses that a result claims, with their prefix lengths, as they are written there."""
    return [str(ip.get("address")) for ip in _ips(result)] if isinstance(result, dict) else []


def diff(before: bytes, after: bytes) -> list[tuple[str, str]]:
    """All lines of two JSON texts, written out, each with "+" (only in `after`), "-" (only in `before`) or " ".

    A comma at the end of a line is no difference. Texts that are too long to compare are `after` alone.
    """
    old, new = pretty(before).splitlines(), pretty(after).splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return [(" ", line) for line in new]
    matcher = difflib.SequenceMatcher(
        None, [line.rstrip(",") for line in old], [line.rstrip(",") for line in new], autojunk=False
    )
    found: list[tuple[str, str]] = []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            found += [("-", line) for line in old[old_start:old_end]]
        found += [(" " if tag == "equal" else "+", line) for line in new[new_start:new_end]]
    return found


def pretty(raw: bytes) -> str:
    """JSON on many lines, each number and string spelled as it was."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        raw = msgspec.json.format(raw, indent=2)
    return raw.decode("utf-8", "replace")


def contradictions(operation: Operation) -> list[str]:
    """What the result of an ADD claims and the exit probe did not find in the namespace, or the other way round.

    Only where it looked (`interfaces`), and only interfaces that the result puts into the namespace: others are not
    this network's. Link-local addresses come by themselves. An IPAM plugin claims nothing.
    """
    if is_ipam(operation):
        return []
    _, after = results(operation)
    result = decode(after)
    looked = decode(bytes(operation.exit.interfaces)) if operation.exit else None
    if not isinstance(result, dict) or not isinstance(looked, dict) or not isinstance(looked.get("netns"), list):
        return []
    there = {
        str(item.get("name")): set(map(_canonical, _list(item.get("addresses")))) for item in _items(looked["netns"])
    }
    claimed: dict[str, set[str]] = {}
    interfaces = _list(result.get("interfaces"))
    for interface in _items(interfaces):
        if interface.get("sandbox"):
            claimed.setdefault(str(interface.get("name")), set())
    for ip in _ips(result):
        index = ip.get("interface")
        if index is None:
            name = operation.first.env.ifname
        elif isinstance(index, int) and 0 <= index < len(interfaces) and isinstance(interfaces[index], dict):
            name = str(interfaces[index].get("name"))
            if not interfaces[index].get("sandbox"):
                continue
        else:
            continue
        claimed.setdefault(name, set()).add(_canonical(ip.get("address")))
    found = []
    for name, expected in claimed.items():
        if name not in there:
            found.append(f"{name} is in the result, but not in the namespace")
            continue
        found += [f"{address} is in the result, but not on {name}" for address in sorted(expected - there[name])]
        surplus = sorted(address for address in there[name] - expected if not address.startswith(("fe80:", "169.254.")))
        found += [f"{address} is on {name}, but not in the result" for address in surplus]
    return found


def _canonical(address: Any) -> str:
    """One spelling for each address with its prefix length; what is none stays as it is."""
    try:
        return str(ipaddress.ip_interface(address)) if "/" in str(address) else str(address)
    except ValueError:
        return str(address)
