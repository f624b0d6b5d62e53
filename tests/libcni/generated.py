"""Answers that nobody thought of: results and errors with something wrong in the JSON, its types or its text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.libcni.scenarios import VERSIONS, Scenario

_TEXTS = st.sampled_from(
    ["", "4", "6", "eth0", "<a&b>", "\u2028", "é", "10.1.1.2/24", "10.1.1.1", "fd00::1", "fd00:0:0::1/64", "nonsense"]
)
_NUMBERS = st.one_of(
    st.integers(-3, 5000),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, 10**21, 1.5, 1500.0, 1e-7, 123456.789, 1e300, -0.0]),
)
_ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), _TEXTS, _NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_TEXTS, inner, max_size=2)),
    max_leaves=4,
)
_ADDRESSES = st.sampled_from(
    [
        "10.1.1.2",
        "010.1.1.2",
        "1.2.3",
        "fd00::1",
        "FD00:0:0:0::1",
        "::ffff:10.1.1.2",
        "fe80::1%eth0",
        "1:2:3:4:5:6:7::",
        "",
    ]
)
_NETWORKS = st.builds(
    lambda address, length: address + length,
    _ADDRESSES,
    st.sampled_from(["/24", "/024", "/0", "/128", "/129", "/33", "/+1", "/", "", "/24 "]),
)


def _mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 7).flatmap(lambda n: usual if n else _ANYTHING)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _mostly(st.fixed_dictionaries({}, optional={name: _mostly(field) for name, field in fields.items()}))


def _several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=2)


_INTERFACE = _some(
    name=_TEXTS, mac=_TEXTS, mtu=_NUMBERS, sandbox=_TEXTS, socketPath=_TEXTS, pciID=_TEXTS, unknown=_ANYTHING
)
_IP = _some(version=_TEXTS, interface=_NUMBERS, address=_NETWORKS, gateway=_ADDRESSES)
_ROUTE = _some(
    dst=_NETWORKS, gw=_ADDRESSES, mtu=_NUMBERS, advmss=_NUMBERS, priority=_NUMBERS, table=_NUMBERS, scope=_NUMBERS
)
_IP_020 = _some(ip=_NETWORKS, gateway=_ADDRESSES, routes=_several(_ROUTE))
_DNS = _some(nameservers=_several(_TEXTS), domain=_TEXTS, search=_several(_TEXTS), options=_several(_TEXTS))
_SPOKEN = st.sampled_from(["0.1.0", "0.2.0", "0.3.0", *VERSIONS, "1.2.0", "", "banana"])
_RESULT = _some(
    cniVersion=_SPOKEN,
    interfaces=_several(_INTERFACE),
    ips=_several(_IP),
    routes=_several(_ROUTE),
    dns=_DNS,
    ip4=_IP_020,
    ip6=_IP_020,
)
_ERROR = _some(cniVersion=_SPOKEN, code=_NUMBERS, msg=_TEXTS, details=_TEXTS)


@st.composite
def _written(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> str:
    """The JSON of a value, now and then with keys in other case or given twice, or with its bytes damaged.

    Bytes that are not UTF-8 are surrogates, as in file names.
    """
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()))
    match draw(st.integers(0, 9)):
        case 0:
            text = text.swapcase() if draw(st.booleans()) else text.replace('"i', '"I').replace('"d', '"D')
        case 1:
            text = text[: draw(st.integers(0, len(text)))]
        case 2:
            at = draw(st.integers(0, len(text)))
            odd = [
                "x",
                '"',
                "\\",
                "\\u12",
                "{",
                "}",
                ",",
                ":",
                "0",
                "-",
                "1.",
                "2e",
                "\x01",
                "\udcff",
                "\udce2\udc82",
                "tru",
            ]
            text = text[:at] + draw(st.sampled_from(odd)) + text[at:]
        case 3:
            text = text.replace("}", f', "dns": {json.dumps(draw(_DNS))}}}', 1)
        case 4:
            twice = json.dumps({"interfaces": draw(_several(_INTERFACE)), "cniVersion": draw(_SPOKEN)})
            text = twice[:-1] + ", " + text[1:] if len(text) > 2 and text[0] == "{" else text
    return text


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A chain whose first plugin answers ADD with something odd, or fails with it; then CHECK and DEL."""
    if draw(st.integers(0, 3)):
        told = {"stdout": draw(_written(_RESULT))}
    else:
        told = {
            "stdout": draw(_written(_ERROR)),
            "stderr": draw(st.sampled_from(["", "words\n", '"\x07\x7f\udcffé'])),
            "exit": draw(st.sampled_from(["1", "0", "255"])),
        }
    return Scenario("generated", draw(st.sampled_from(VERSIONS)), {"ADD": told}, verbs=("add", "check", "del"))
