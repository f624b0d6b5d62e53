"""Results of ADD: read, written and converted between spec versions as libcni does.

Three shapes cover all versions (pkg/types/020, 040 and 100). What a shape does not know is dropped, addresses are
rewritten in their canonical form, and results from 1.0.0 on are written with sorted keys and without an empty `dns`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cni_capture.libcni.gojson import GoError, marshal, parse, plain_object, quote
from cni_capture.libcni.gotypes import Integer, Kind, Own, Pointer, Slice, String, Struct, Text, unmarshal

UNSET = "<nil>"
"""How Go writes a network that was never set."""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """net/netip.ParseAddr without zones."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _ip(text: str) -> str:
    """net.IP.UnmarshalText, then MarshalText: the canonical form; nothing is no address."""
    if text == "":
        return ""
    address = _address(text)
    if address is None:
        raise GoError(f"invalid IP address: {text}")
    return str(getattr(address, "ipv4_mapped", None) or address)


def _network(text: str) -> str:
    """net.ParseCIDR, then IPNet.String: an address with its prefix length, the host's bits kept."""
    host, _, digits = text.partition("/")
    address = _address(host)
    length = int(digits.lstrip("0") or "0") if re.fullmatch("0*[0-9]{1,3}", digits) else None
    if address is None or length is None or length > address.max_prefixlen:
        raise GoError(f"invalid CIDR address: {text}")
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped:  # Go shows ::ffff:a.b.c.d as the IPv4 address, with what is left of the mask.
        return f"{mapped}/{max(0, length - 96)}"
    return f"{address}/{length}"


STRING = String()
INT = Integer("int", -(2**63), 2**63 - 1)
STRINGS = Slice(STRING)
IP = Text("net.IP", _ip)
NETWORK = Own("types.IPNet", STRING, _network, unset=UNSET)

DNS = Struct("types.DNS", {"nameservers": STRINGS, "domain": STRING, "search": STRINGS, "options": STRINGS})
ROUTE = Own(
    "types.Route",
    Struct(
        "types.route",
        {
            "dst": NETWORK,
            "gw": IP,
            "mtu": INT,
            "advmss": INT,
            "priority": INT,
            "table": Pointer(INT),
            "scope": Pointer(INT),
        },
        always=frozenset({"dst"}),
    ),
)


def _ip_config(package: str, fields: dict[str, Kind], *always: str) -> Own:
    return Own(f"{package}.IPConfig", Struct(f"{package}.ipConfig", fields, frozenset(always)))


def _shape(package: str, fields: dict[str, Kind]) -> Struct:
    return Struct(f"{package}.Result", {"cniVersion": STRING, **fields, "dns": DNS})


_IP_020 = _ip_config("types020", {"ip": NETWORK, "gateway": IP, "routes": Slice(ROUTE)}, "ip")
_IP_040 = _ip_config(
    "types040",
    {"version": STRING, "interface": Pointer(INT), "address": NETWORK, "gateway": IP},
    "version",
    "address",
)
_IP_100 = _ip_config("types100", {"interface": Pointer(INT), "address": NETWORK, "gateway": IP}, "address")
_INTERFACE_040 = Struct("types040.Interface", {"name": STRING, "mac": STRING, "sandbox": STRING}, frozenset({"name"}))
_INTERFACE_100 = Struct(
    "types100.Interface",
    {"name": STRING, "mac": STRING, "mtu": INT, "sandbox": STRING, "socketPath": STRING, "pciID": STRING},
    frozenset({"name"}),
)
_ROUTES = Slice(Pointer(ROUTE))

SHAPE_020 = _shape("types020", {"ip4": Pointer(_IP_020), "ip6": Pointer(_IP_020)})
SHAPE_040 = _shape(
    "types040",
    {"interfaces": Slice(Pointer(_INTERFACE_040)), "ips": Slice(Pointer(_IP_040)), "routes": _ROUTES},
)
SHAPE_100 = _shape(
    "types100",
    {"interfaces": Slice(Pointer(_INTERFACE_100)), "ips": Slice(Pointer(_IP_100)), "routes": _ROUTES},
)

SHAPES = {
    ("", "0.1.0", "0.2.0"): SHAPE_020,
    ("0.3.0", "0.3.1", "0.4.0"): SHAPE_040,
    ("1.0.0", "1.1.0"): SHAPE_100,
}


def _shape_of(version: str) -> Struct | None:
    return next((shape for versions, shape in SHAPES.items() if version in versions), None)


@dataclass(frozen=True)
class Result:
    """The result of an ADD: its version, and its fields as `gotypes` keeps a struct."""

    version: str
    fields: dict[str, Any]

    def encode(self) -> dict[str, Any]:
        """What libcni marshals, keys in its order: as `prevResult`, in its cache, and to the user."""
        shape = _shape_of(self.version)
        assert shape is not None
        encoded: dict[str, Any] = shape.encode(self.fields)
        if shape is not SHAPE_100:
            return encoded
        # Result.MarshalJSON of types/100 goes through a map: that sorts the keys and makes every number a float64.
        if not encoded["dns"]:
            del encoded["dns"]
        return plain_object(marshal(encoded))

    def pretty(self) -> str:
        """The result as libcni prints it (Result.PrintTo), without a newline at the end."""
        return marshal(self.encode(), indent="    ").decode()

    def as_version(self, version: str) -> Result:
        """The result in another version (pkg/types/internal/convert.go). Raises GoError.

        Interfaces and addresses that are null are left out; libcni crashes on them here.
        """
        wanted = version or "0.1.0"
        if wanted == self.version:
            return self
        target = _shape_of(wanted)
        if target is None:
            raise GoError(f"no converter for CNI result version {self.version} to {wanted}")
        source = _shape_of(self.version)
        fields = self.fields
        if source is target:
            pass
        elif target is SHAPE_020:
            fields = _down_to_020(fields if source is SHAPE_040 else _to_040(fields))
        elif target is SHAPE_040:
            fields = _up_from_020(fields) if source is SHAPE_020 else _to_040(fields)
        else:
            fields = _to_100(_up_from_020(fields) if source is SHAPE_020 else fields)
        return Result(wanted, fields | {"cniVersion": wanted})


def create(version: str, data: bytes) -> Result:
    """The result in `data`, taken to be of `version` (create.Create). Raises GoError."""
    for versions, shape in SHAPES.items():
        if version not in versions:
            continue
        fields = unmarshal(parse(data), shape)
        if fields["cniVersion"] not in versions:
            raise GoError(
                f"result type supports [{' '.join(versions)}] but unmarshalled CNIVersion is "
                f"{quote(fields['cniVersion'].encode())}"
            )
        fields["cniVersion"] = fields["cniVersion"] or "0.1.0"
        return Result(fields["cniVersion"], fields)
    raise GoError(f"unsupported CNI result version {quote(version.encode())}")


def from_cache(data: bytes) -> Result:
    """The result in `data`, which says its version itself (create.CreateFromBytes). Raises GoError."""
    try:
        version = unmarshal(parse(data), Struct("", {"cniVersion": STRING}))["cniVersion"]
    except GoError as error:
        raise GoError(f"decoding version from network config: {error}") from None
    return create(version or "0.1.0", data)


def from_stdout(stdout: bytes, config_version: str) -> Result:
    """What a plugin answered to ADD, for a config of that version (invoke/exec.go). Raises GoError.

    An answer without a version is taken to have the config's, and the spec's rule makes no version 0.1.0.
    """
    try:
        answer = plain_object(stdout)
    except GoError as error:
        raise GoError(f"failed to unmarshal raw result: {error}") from None
    version = answer.get("cniVersion")
    if isinstance(version, str) and version:
        return create(version, stdout)
    version = config_version or "0.1.0"
    # From here on libcni works on the map: keys sorted, numbers as float64, the last of equal keys.
    return create(version, marshal(dict(sorted((answer | {"cniVersion": version}).items()))))


def _is_ipv4(network: str) -> bool:
    return network != UNSET and ":" not in network


def _each(items: list[Any] | None, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    return [change(item) for item in items or () if item is not None]


def _picked(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda item: {name: item[name] for name in names}


def _up_from_020(fields: dict[str, Any]) -> dict[str, Any]:
    found = [(version, fields[key]) for version, key in (("4", "ip4"), ("6", "ip6")) if fields[key] is not None]
    return {
        "interfaces": None,
        "ips": [
            {"version": version, "interface": None, "address": ip["ip"], "gateway": ip["gateway"]}
            for version, ip in found
        ],
        "routes": [route for _, ip in found for route in ip["routes"] or ()],
        "dns": fields["dns"],
    }


def _to_040(fields: dict[str, Any]) -> dict[str, Any]:
    def ip(config: dict[str, Any]) -> dict[str, Any]:
        return {"version": "4" if _is_ipv4(config["address"]) else "6", **config}

    return {
        **fields,
        "interfaces": _each(fields["interfaces"], _picked("name", "mac", "sandbox")),
        "ips": _each(fields["ips"], ip),
    }


def _to_100(fields: dict[str, Any]) -> dict[str, Any]:
    blank = _INTERFACE_100.zero()
    return {
        **fields,
        "interfaces": _each(fields["interfaces"], lambda interface: {**blank, **interface}),
        "ips": _each(fields["ips"], _picked("interface", "address", "gateway")),
    }


def _down_to_020(fields: dict[str, Any]) -> dict[str, Any]:
    """The first address of each family, with the routes of that family; 0.2.0 has no room for more."""
    found: dict[str, dict[str, Any] | None] = {"4": None, "6": None}
    for ip in fields["ips"] or ():
        if ip is not None and ip["version"] in found and found[ip["version"]] is None:
            found[ip["version"]] = {"ip": ip["address"], "gateway": ip["gateway"], "routes": []}
    for route in fields["routes"] or ():
        home = found["4" if _is_ipv4(route["dst"]) else "6"] if route is not None else None
        if home is not None:
            home["routes"].append({**ROUTE.zero(), "dst": route["dst"], "gw": route["gw"]})
    if found["4"] is None and found["6"] is None:
        raise GoError("cannot convert: no valid IP addresses")
    return {"ip4": found["4"], "ip6": found["6"], "dns": fields["dns"]}
