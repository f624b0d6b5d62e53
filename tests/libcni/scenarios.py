"""What plugins may answer, right and wrong, and a bench that shows them to libcni or to us and notes what came of it.

The bench is a directory with plugins that do as they are told (see `plugin`), a network `x` of two of them, and a
cache. `Bench.play` runs a scenario through any engine that looks like cnitool: a verb in, exit code and streams out.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
NETNS = "/var/run/netns/x"
CONTAINER_ID = f"cnitool-{hashlib.sha512(NETNS.encode()).hexdigest()[:20]}"
"""The one that cnitool makes of that namespace."""

Told = Mapping[str, Mapping[str, str]]
"""What a plugin is told, by verb: any of stdout, stderr, exit, kill."""


@dataclass(frozen=True)
class Scenario:
    """A chain of two plugins of these types, what each is told, and the verbs that are run one after the other."""

    title: str
    version: str
    first: Told = field(default_factory=dict)
    second: Told = field(default_factory=dict)
    verbs: tuple[str, ...] = ("add",)
    types: tuple[str, str] = ("first", "second")


@dataclass(frozen=True)
class Ran:
    """What one verb did: as cnitool shows it, and the result then on record (None: no record)."""

    verb: str
    exit: int
    stdout: str
    stderr: str
    recorded: Any


Engine = Callable[["Bench", str], tuple[int, str, str]]
"""Runs a verb on the bench's network: exit code, stdout, stderr."""


class Bench:
    """A place for one scenario at a time."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.plugins, self.conflists, self.cache = root / "plugins", root / "net.d", cache
        self.conflist = self.conflists / "x.conflist"
        for directory in (self.plugins, self.conflists):
            directory.mkdir(parents=True)

    def play(self, scenario: Scenario, engine: Engine) -> dict[str, Any]:
        """Run a scenario; `ran` is what each verb did, `second` what the second plugin got (verb, stdin)."""
        self.set_up(scenario)
        ran = []
        for verb in scenario.verbs:
            code, stdout, stderr = engine(self, verb)
            shown = stderr.replace(str(self.plugins), "PLUGINS")
            recorded = self._recorded()
            if stdout and json.loads(stdout) == recorded:
                recorded = "as printed"
            ran.append(vars(Ran(verb, code, _compact(stdout), shown, recorded)))
        return {"title": scenario.title, "version": scenario.version, "ran": ran, "second": self.got("second")}

    def set_up(self, scenario: Scenario) -> None:
        """Plugins that are told what the scenario says, its conflist, and nothing on record."""
        shutil.rmtree(self.cache / "results", ignore_errors=True)
        shutil.rmtree(self.plugins)
        self.plugins.mkdir()
        for name in ("first", "second"):
            shutil.copy(Path(__file__).with_name("plugin"), self.plugins / name)
        _program(self.plugins / "badinterp", "#!/no/such/interpreter\n", 0o755)
        _program(self.plugins / "noshebang", "true\n", 0o755)
        _program(self.plugins / "notexec", "#!/bin/sh\n", 0o644)
        for name, told in (("first", scenario.first), ("second", scenario.second)):
            for verb, orders in told.items():
                for what, text in orders.items():
                    (self.plugins / f"{name}.{verb}.{what}").write_bytes(text.encode("utf-8", "surrogateescape"))
        plugins = [{"type": plugin} for plugin in scenario.types]
        network = {"cniVersion": scenario.version, "name": "x", "plugins": plugins}
        self.conflist.write_text(json.dumps(network))

    def _recorded(self) -> Any:
        results = self.cache / "results"
        files = list(results.iterdir()) if results.is_dir() else []
        return json.loads(files[0].read_text())["result"] if files else None

    def got(self, plugin: str, what: str = "got") -> list[list[str]]:
        """What a plugin was given, call by call: verb and stdin, or with `what` "env" verb and environment."""
        file = self.plugins / f"{plugin}.{what}"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split("|" if what == "env" else " ", 1) for line in lines]


def _program(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)


def _compact(text: str) -> str:
    """The result as printed, but on one line."""
    return re.sub(r"\n *", "", text)


def answer(version: str | None, **keys: Any) -> str:
    """A whole result of that version, None for one that does not say."""
    result = {
        "cniVersion": version,
        "interfaces": [{"name": "eth0", "mac": "aa:bb:cc:dd:ee:ff", "sandbox": "/x"}],
        "ips": [{"version": "4", "address": "10.1.1.2/24", "gateway": "10.1.1.1", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {"nameservers": ["1.1.1.1"]},
        **keys,
    }
    return json.dumps({key: value for key, value in result.items() if value is not None})


def scenarios() -> Iterator[Scenario]:
    """Every scenario of which libcni's answers are on file, for each version of the config."""
    for version in VERSIONS:
        yield from _answers_to_add(version)
        yield from _failures_of_add(version)
        yield from _whole_lives(version)
        yield from _programs(version)
    yield from _conversions()
    yield from _details()


def _answers_to_add(version: str) -> Iterator[Scenario]:
    other = {"0.3.1": "1.0.0", "0.4.0": "0.3.1", "1.0.0": "0.4.0", "1.1.0": "1.0.0"}[version]
    whole = answer(version)
    odd_interface = {"name": "eth0", "mac": "aa:bb:cc:dd:ee:ff", "sandbox": "/x", "mtu": 1500, "pciID": "0", "extra": 1}
    for title, stdout in (
        ("a whole result", whole),
        ("no cniVersion", answer(None)),
        ("an empty cniVersion", answer("")),
        ("a result of another version", answer(other)),
        ("a result of 0.2.0", '{"cniVersion": "0.2.0", "ip4": {"ip": "10.1.1.2/24", "gateway": "10.1.1.1"}}'),
        ("a result of 1.1.0", answer("1.1.0")),
        ("a cniVersion that is none", answer("banana")),
        ("a cniVersion that is a number", '{"cniVersion": 4}'),
        ("unknown keys", answer(version, foo={"a": 1}, interfaces=[odd_interface])),
        ("nothing", ""),
        ("an empty object", "{}"),
        ("null", "null"),
        ("a list", "[]"),
        ("no JSON", "hello\n"),
        ("words after the result", whole + "\ntrailing"),
        ("words before the result", "log line\n" + whole),
        ("two results", whole + whole),
        ("ips that are no list", json.dumps({"cniVersion": version, "ips": "x"})),
        ("ips without a version", json.dumps({"cniVersion": version, "ips": [{"address": "10.1.1.2/24"}]})),
        ("keys in other case", f'{{"CNIVersion": "{version}", "IPS": [{{"version": "4", "address": "10.9.9.9/24"}}]}}'),
    ):
        yield Scenario(f"ADD answers {title}", version, {"ADD": {"stdout": stdout}})
    yield Scenario("ADD answers and warns", version, {"ADD": {"stdout": whole, "stderr": "warning line\n"}})
    for title, stdout in (("an empty object", "{}"), ("nothing", "")):
        yield Scenario(
            f"the second plugin's ADD answers {title}", version, {"ADD": {"stdout": whole}}, {"ADD": {"stdout": stdout}}
        )


def _failures_of_add(version: str) -> Iterator[Scenario]:
    error = {"cniVersion": version, "code": 103, "msg": "boom"}
    orders: tuple[tuple[str, Mapping[str, str]], ...] = (
        (
            "with an error object and stderr",
            {"stdout": json.dumps({**error, "details": "why"}), "stderr": "some stderr", "exit": "1"},
        ),
        ("with stderr only", {"stdout": "", "stderr": "some stderr\n", "exit": "1"}),
        ("without a word", {"stdout": "", "exit": "1"}),
        ("with words on stdout", {"stdout": "oops", "stderr": "e", "exit": "3"}),
        ("with a result", {"stdout": answer(version), "exit": "1"}),
        ("with an error object but exit status 0", {"stdout": json.dumps(error), "exit": "0"}),
        ("killed", {"stdout": "", "kill": "9"}),
        ("without details", {"stdout": json.dumps(error), "exit": "1"}),
        ("with a code that is a string", {"stdout": json.dumps({**error, "code": "103"}), "exit": "1"}),
    )
    for title, told in orders:
        yield Scenario(f"ADD fails {title}", version, {"ADD": told})


def _whole_lives(version: str) -> Iterator[Scenario]:
    good = {"ADD": {"stdout": answer(version)}}

    def failing(verb: str, msg: str) -> Told:
        return {verb: {"stdout": json.dumps({"cniVersion": version, "code": 100, "msg": msg}), "exit": "1"}}

    yield Scenario(
        "CHECK and DEL print what nobody asked for",
        version,
        {**good, "CHECK": {"stdout": "junk"}, "DEL": {"stdout": '{"a":1}'}},
        {"CHECK": {"stdout": "junk2"}, "DEL": {"stdout": "xx", "stderr": "warn"}},
        ("add", "check", "del", "del"),
    )
    yield Scenario("the first CHECK fails", version, {**good, **failing("CHECK", "chk")}, verbs=("add", "check"))
    yield Scenario("the second DEL fails", version, good, failing("DEL", "delboom"), ("add", "del"))
    yield Scenario("the second ADD fails", version, good, failing("ADD", "addboom"), ("add", "del", "check"))
    yield Scenario("DEL without ADD", version, verbs=("del",))
    yield Scenario("CHECK without ADD", version, verbs=("check",))
    yield Scenario("GC and STATUS", version, good, verbs=("add", "status", "gc", "check"))
    yield Scenario("GC fails", version, {**good, **failing("GC", "gc1")}, failing("GC", "gc2"), ("add", "gc", "gc"))
    yield Scenario("GC cannot DEL", version, {**good, **failing("DEL", "delboom")}, verbs=("add", "gc"))
    yield Scenario("STATUS fails", version, failing("STATUS", "not ready"), verbs=("status",))


def _programs(version: str) -> Iterator[Scenario]:
    for title, name in (
        ("is missing", "nosuch"),
        ("has no interpreter", "badinterp"),
        ("is no program", "noshebang"),
        ("may not be run", "notexec"),
    ):
        yield Scenario(f"the plugin {title}", version, types=(name, "second"))


def _conversions() -> Iterator[Scenario]:
    """A result of one version on record, and a config of another: CHECK gets it converted."""
    addresses = [
        {"version": "4", "address": "10.1.1.2/24", "gateway": "10.1.1.1", "interface": 0},
        {"version": "6", "address": "fd00::2/64"},
        {"version": "4", "address": "10.1.1.3/24"},
    ]
    routes = [
        {"dst": "0.0.0.0/0", "gw": "10.1.1.1", "mtu": 1400, "advmss": 1360, "priority": 9, "table": 7, "scope": 0},
        {"dst": "::/0"},
    ]
    interface = {"name": "eth0", "mac": "aa:bb:cc:dd:ee:ff", "sandbox": "/x", "mtu": 1500, "socketPath": "/s"}
    old = {
        "ip4": {"ip": "10.1.1.2/24", "gateway": "10.1.1.1", "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.1.1"}]},
        "ip6": {"ip": "fd00::2/64", "routes": [{"dst": "::/0"}]},
        "dns": {"domain": "example.org"},
    }
    new = {"interfaces": [interface], "ips": addresses, "routes": routes, "dns": {"domain": "example.org"}}
    for spoken in ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"):
        told = {"ADD": {"stdout": json.dumps({"cniVersion": spoken, **(old if spoken < "0.3" else new)})}}
        for version in ("0.4.0", "1.0.0", "1.1.0"):
            yield Scenario(f"a result of {spoken} is converted", version, told, verbs=("add", "check"))


def _details() -> Iterator[Scenario]:
    """Go's reading and writing of JSON, a trait at a time."""
    interface, address, route = '{"interfaces": [%s]}', '{"ips": [{"address": %s}]}', '{"routes": [{"dst": %s}]}'
    answers = [
        *("[", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a" 1}', '{"a":1 2}', "{1:2}", "[1,]", "[1 2]"),
        *(
            "-",
            "-x",
            "01",
            "1.",
            "1.x",
            "1e",
            "1e+",
            "1ex",
            "t",
            "trux",
            "fals_",
            "nul",
            "nulx",
            "'",
            "\x80",
            "é",
            "\x00",
        ),
        *('"', '"\\', '"\\x"', '"\\u12', '"\\u12g4"', '"a\tb"', '"\x01"', " \n[] x", "1e999", '{"a": 1e999}'),
        *("true", "1", '"x"', '{"cniVersion": null}', '{"cniVersion": "1.1.0", "CNIVERSION": "0.4.0"}'),
        *('{"dns": 1}', '{"dns": {"search": {}}}', '{"dns": {"search": [1]}}', '{"interfaces": [1, null]}'),
        *(
            interface % text
            for text in ('{"name": 1}', '{"mtu": 1.5}', '{"mtu": 1e3}', '{"mtu": "9"}', "{}", "[]", "true")
        ),
        interface % '{"name": "<&>\\u2028\\ud800\\ud83d\\ude00\udcff\udce2\udc82\\u0000\\b\x7f"}',
        interface % '{"mtu": 9007199254740993}',
        interface % '{"mtu": 9223372036854775808}',
        *(address % f'"{text}"' for text in ("10.1.1.2", "10.1.1.2/33", "10.1.1.2/024", "010.1.1.2/24", "1.2.3/8", "")),
        *(
            address % f'"{text}"'
            for text in ("FD00:0::1/64", "::ffff:10.1.1.2/120", "::ffff:10.1.1.2/8", "fe80::1%e/64")
        ),
        *(
            address % text
            for text in ("null", "1", "[]", '"10.1.1.2/24", "gateway": "x"', '"10.1.1.2/24", "gateway": 1')
        ),
        address % '"10.1.1.2/24", "gateway": "::ffff:1.2.3.4", "interface": 0',
        address % '"10.1.1.2/24", "gateway": "", "interface": null',
        address % '"10.1.1.2/24", "interface": "0"',
        '{"ips": [null, {}, 1]}',
        '{"ips": [{"addre\u00df": "10.1.1.2/24"}]}',
        interface % ('{"mtu": 1' + "0" * 30 + "}"),
        address % ('"10.1.1.2/' + "0" * 5000 + '24"'),
        address % '"10.1.1.2/1111"',
        *(route % text for text in ("1", "null", '"::/0", "gw": "", "table": 0, "mtu": 0', '"::/0", "scope": "x"')),
        '{"routes": [null]}',
        '{"ips": "x", "routes": [{"dst": "y"}]}',
        '{"ips": "x", "routes": "y"}',
        '{"cniVersion": "1.1.0", "dns": {"domain": "a"}, "DNS": {"search": ["b"]}}',
        '{"cniVersion": "1.1.0", "interfaces": [{"name": "a"}, {"name": "b"}], "interfaces": [{"mac": "c"}]}',
        '{"cniVersion": "1.1.0", "dn\u017f": {"domain": "a"}, "\u0131nterfaces": [], "interfaceß": 1}',
    ]
    for stdout in answers:
        yield Scenario(f"ADD answers {stdout!r}", "1.1.0", {"ADD": {"stdout": stdout}})
    for stdout in ("{", '{"code": -1}', '{"code": 1.5, "details": "d"}', '{"msg": 1, "Details": "d"}', "null", "[]"):
        yield Scenario(f"ADD fails with {stdout!r}", "1.1.0", {"ADD": {"stdout": stdout, "exit": "1"}})
    for version in ("", "banana", "0.4", "1.1.0.0", "1.x", "99999999999999999999", "+1.0000.-1", "-9.1", "1.1.0_0"):
        yield Scenario(f"the config's version is {version!r}", version, verbs=("add", "check", "status", "gc", "del"))
