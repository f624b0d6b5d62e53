"""Results of ADD against the CNI specification of their version: what breaks it, the rule, and its section. No I/O.

The shape of a result is described once, as types. msgspec checks a result against them in microseconds; one that it
refuses goes through the JSON Schema that follows from them, which finds everything that is wrong and knows the rules.
What refers from one part of a result to another is checked in code.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from cni_capture.reading.records import decode

# Where the result of ADD is described.
_SUCCESS = 'section 5, "ADD Success"'
_SECTIONS = {
    **dict.fromkeys(("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0"), 'section "Result"'),
    "1.0.0": 'section 5, "Success"',
}


def _rule(rule: str) -> dict[str, str]:
    return {"$comment": rule}


_CIDR = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$",
        extra_json_schema=_rule("an address has a prefix length (CIDR notation)"),
    ),
]
_IP = Annotated[
    str, Meta(pattern=r"^[0-9A-Fa-f:.]+$", extra_json_schema=_rule("a gateway is an IP address without prefix length"))
]
_INDEX = Annotated[int, Meta(ge=0, extra_json_schema=_rule("`interface` is an index into `interfaces`, from 0"))]
_NAME = Annotated[str, Meta(min_length=1, extra_json_schema=_rule("an interface has a name"))]
_COUNT = Annotated[int, Meta(ge=0, extra_json_schema=_rule("a non-negative number"))]


class DNS(Struct, gc=False):
    nameservers: list[str] | None = None
    domain: str | None = None
    search: list[str] | None = None
    options: list[str] | None = None


class Route(Struct, gc=False):
    dst: _CIDR
    gw: _IP | None = None


class Route110(Route, gc=False):
    mtu: _COUNT | None = None
    advmss: _COUNT | None = None
    priority: _COUNT | None = None
    table: _COUNT | None = None
    scope: _COUNT | None = None


class Interface(Struct, gc=False):
    name: _NAME
    mac: str | None = None
    sandbox: str | None = None


class Interface110(Interface, gc=False):
    mtu: _COUNT | None = None
    socketPath: str | None = None
    pciID: str | None = None


class IP030(Struct, gc=False):
    version: Annotated[
        str, Meta(pattern="^[46]$", extra_json_schema=_rule('an address says its `version`, "4" or "6"'))
    ]
    address: _CIDR
    gateway: _IP | None = None
    interface: _INDEX | None = None


class IP100(Struct, gc=False):
    address: _CIDR
    gateway: _IP | None = None
    interface: _INDEX | None = None
    version: Annotated[UnsetType | None, Meta(extra_json_schema=_rule("an address has no `version` since 1.0.0"))] = (
        UNSET
    )


class IP010(Struct, gc=False):
    ip: _CIDR
    gateway: _IP | None = None
    routes: list[Route] | None = None


class Result010(Struct, gc=False):
    cniVersion: str
    ip4: IP010 | None = None
    ip6: IP010 | None = None
    dns: DNS | None = None


class Result030(Struct, gc=False):
    cniVersion: str
    interfaces: list[Interface] | None = None
    ips: list[IP030] | None = None
    routes: list[Route] | None = None
    dns: DNS | None = None


class Result100(Struct, gc=False):
    cniVersion: str
    interfaces: list[Interface] | None = None
    ips: list[IP100] | None = None
    routes: list[Route] | None = None
    dns: DNS | None = None


class Result110(Struct, gc=False):
    cniVersion: str
    interfaces: list[Interface110] | None = None
    ips: list[IP100] | None = None
    routes: list[Route110] | None = None
    dns: DNS | None = None


SHAPES: dict[str, type[Struct]] = {
    "0.1.0": Result010,
    "0.2.0": Result010,
    "0.3.0": Result030,
    "0.3.1": Result030,
    "0.4.0": Result030,
    "1.0.0": Result100,
    "1.1.0": Result110,
}


@cache
def schema(version: str) -> dict[str, Any]:
    """The JSON Schema of a result of a version in SHAPES; `$comment` is the rule that a part of it stands for."""
    return msgspec.json.schema(SHAPES[version])


def lint(raw: bytes, config_version: str) -> Iterator[str]:
    """What is wrong with a result, one line each: `RULE (at WHERE; spec VERSION, SECTION)`.

    `config_version` is that of the configuration, which the result has to have as well ("": 0.1.0). The shape of a
    version that is not known is not judged.
    """
    result = decode(raw)
    if not isinstance(result, dict):
        return
    wanted = config_version or "0.1.0"
    version = result.get("cniVersion")
    if not version:
        yield _words("a result says its cniVersion", "", wanted)
        version = wanted
    elif version != wanted:
        yield _words(f"a result has the cniVersion of the configuration, {wanted}", "cniVersion", wanted)
    if not isinstance(version, str) or version not in SHAPES:
        return
    result = {**result, "cniVersion": version}
    try:
        found = _across(msgspec.convert(result, SHAPES[version]))
    except (msgspec.ValidationError, RecursionError):
        found = _explain(result, version)
    for rule, where in found:
        yield _words(rule, where, version)


def _words(rule: str, where: str, version: str) -> str:
    at = f"at {where}; " if where else ""
    return f"{rule} ({at}spec {version}, {_SECTIONS.get(version, _SUCCESS)})"


def _explain(result: Any, version: str) -> Iterator[tuple[str, str]]:
    from jsonschema import Draft202012Validator  # slow to import, and results are mostly right

    found = Draft202012Validator(schema(version)).iter_errors(result)
    for cause in sorted((cause for error in found for cause in _causes(error)), key=lambda cause: cause.json_path):
        rule = cause.schema.get("$comment")
        if cause.validator == "required":
            missing = {f"{key!r} is a required property": key for key in cause.validator_value}[cause.message]
            rule = cause.schema["properties"][missing].get("$comment")
        yield rule or _shortened(cause.message), cause.json_path.removeprefix("$.")


def _causes(error: Any) -> Iterator[Any]:
    """What is behind a jsonschema error; of "this or null", null is never what was meant."""
    for cause in error.context or ():
        if cause.schema != {"type": "null"}:
            yield from _causes(cause)
    if not error.context:
        yield error


def _shortened(message: str) -> str:
    return message if len(message) <= 120 else f"{message[:119]}…"


def _across(result: Any) -> Iterator[tuple[str, str]]:
    """What no schema can say, of a result in its shape."""
    interfaces = getattr(result, "interfaces", None) or []
    for number, ip in enumerate(getattr(result, "ips", None) or []):
        where = f"ips[{number}]"
        if ip.interface is not None and ip.interface >= len(interfaces):
            rule = f"`interface` is an index into `interfaces`, and {ip.interface} is out of range"
            yield rule, f"{where}.interface"
        yield from _address(ip.address, f"{where}.address")
        if ip.version and (ip.version == "6") != (":" in ip.address):
            yield f"`version` {ip.version} is not that of the address", f"{where}.version"
    for key in ("ip4", "ip6"):
        ip = getattr(result, key, None)
        if ip:
            yield from _address(ip.ip, f"{key}.ip")
            if (key == "ip6") != (":" in ip.ip):
                yield f"`{key}` holds an address of the other family", f"{key}.ip"
    for number, route in enumerate(getattr(result, "routes", None) or []):
        yield from _address(route.dst, f"routes[{number}].dst")


def _address(cidr: str, where: str) -> Iterator[tuple[str, str]]:
    host, _, length = cidr.partition("/")
    family, bits = (socket.AF_INET6, 128) if ":" in host else (socket.AF_INET, 32)
    try:
        socket.inet_pton(family, host)
        if int(length) <= bits:
            return
    except OSError:
        pass
    yield f"{cidr} is not an IP address with its prefix length", where
