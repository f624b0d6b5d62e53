"""A conflist as bytes: its plugins, in the order of ADD, and where each of them stands in the text.

The configuration of a single plugin (a .conf) is a chain of one; what makes a list of it, and back, is here as well.
"""

from __future__ import annotations

from typing import NamedTuple

from cni_capture.call import CNIError, Config, Skip, read_config, scanner, skip_space
from cni_capture.errors import UserError
from cni_capture.standin import WRAP

PRE, POST = "capture-pre", "capture-post"
PROGRAMS = (PRE, POST, WRAP)


class Plugin(NamedTuple):
    """One entry of a chain, where its text begins and ends, and what to call that place."""

    type: str
    config: Config
    start: int
    end: int
    where: str

    @property
    def is_probe(self) -> bool:
        """Whether it is one of a pair of probes."""
        return self.type in (PRE, POST)

    @property
    def is_ours(self) -> bool:
        """Whether it is a probe, or a plugin that is wrapped, or one whose IPAM plugin is."""
        return self.is_probe or WRAP in (self.type, self.ipam_type)

    @property
    def ipam(self) -> Config | None:
        """What it says about the plugin that gives it addresses."""
        raw = self.config.raw(spelling(self.config, "ipam"))
        return read_config(raw.encode()) if raw and raw[0] == "{" else None

    @property
    def ipam_type(self) -> str:
        """The plugin that gives it addresses; "" when it has none."""
        kind = member(self.ipam, "type") if self.ipam else None
        return kind if isinstance(kind, str) else ""

    @property
    def capabilities(self) -> list[str]:
        """The capabilities that it declares as true."""
        declared = member(self.config, "capabilities")
        return [name for name, wanted in declared.items() if wanted] if isinstance(declared, dict) else []


def chain(data: bytes, where: str = "conflist") -> list[Plugin]:
    """The plugins in the order of ADD, ours among them. Raises UserError, in which `where` names the file."""
    return plugins_in(text_of(data, where), where)


def is_single(data: bytes, where: str = "conflist") -> bool:
    """Whether it is the configuration of one plugin (a .conf), not of a list. Raises UserError."""
    return is_single_text(text_of(data, where), where)


def has_probes(data: bytes) -> bool:
    """Whether it names a probe, capture-wrap among them; of what is no conflist, whether it looks like it."""
    try:
        return any(plugin.is_ours for plugin in chain(data))
    except UserError:
        return any(f'"{probe}"'.encode() in data for probe in PROGRAMS)


def text_of(data: bytes, where: str) -> str:
    """The text of a configuration. Raises UserError when that is no JSON object in UTF-8."""
    return _read(data, where).text


def is_single_text(text: str, where: str) -> bool:
    """As is_single()."""
    config = _read(text.encode(), where)
    return "plugins" not in config.spans and isinstance(member(config, "type"), str)


def plugins_in(text: str, where: str) -> list[Plugin]:
    """As chain(). Raises UserError."""
    if is_single_text(text, where):
        return [_plugin(text, 0, len(text), where)]
    span = _read(text.encode(), where).spans.get("plugins")
    if span is None or text[span[0]] != "[":
        raise UserError(f"{where}: no list of plugins", hint='a conflist has "plugins": [{"type": ...}]')
    plugins = [
        _plugin(text, start, end, f"{where}, plugin {number}")
        for number, (start, end) in enumerate(_elements(text, span[0], where), 1)
    ]
    if not plugins:
        raise UserError(f"{where}: no plugins", hint='a conflist has "plugins": [{"type": ...}]')
    return plugins


def list_of_single(text: str) -> str:
    """A single plugin's configuration as a list, as libcni does it in memory (libcni/conf.go, ConfListFromConf)."""
    head, tail = _brackets(read_config(text.encode()))
    return f"{head}{text}{tail}"


def single_of_list(text: str) -> str | None:
    """The inverse; None when the list was not made so."""
    head, tail = _brackets(read_config(text.encode()))
    if not (text.startswith(head) and text.endswith(tail)):
        return None
    inner = text[len(head) : -len(tail)]
    try:
        return inner if list_of_single(inner) == text else None
    except CNIError:  # several plugins
        return None


def spelling(config: Config, key: str) -> str:
    """How the key of a member is spelled where Go decodes into a struct: exactly, else in any case (encoding/json)."""
    if key in config.spans:
        return key
    return next((name for name in config.spans if name.casefold() == key.casefold()), key)


def member(config: Config, key: str) -> object:
    """A member as Go decodes it into a struct; None when there is none."""
    return config.value(spelling(config, key))


def _brackets(config: Config) -> tuple[str, str]:
    """What stands before and behind a single plugin's configuration in the list that is made of it."""
    keys = [(key, config.raw(key)) for key in ("cniVersion", "name")]
    return "{" + "".join(f'"{key}": {raw}, ' for key, raw in keys if raw) + '"plugins": [\n', "\n]}\n"


def _read(data: bytes, where: str) -> Config:
    try:
        return read_config(data)
    except CNIError as error:
        raise UserError(f"{where}: {error.msg}: {error.details}", hint="JSON has no comments") from None


def _plugin(text: str, start: int, end: int, where: str) -> Plugin:
    config = _read(text[start:end].encode(), where)
    kind = member(config, "type")
    if not isinstance(kind, str) or not kind:
        raise UserError(f"{where}: no type", hint='every plugin names its program: "type": "bridge"')
    return Plugin(kind, config, start, end, where)


def _elements(text: str, at: int, where: str) -> list[tuple[int, int]]:
    """Where each element of the array that begins at `at` begins and ends; the text is known to be JSON."""
    scan = scanner(Skip)
    spans = []
    at = skip_space(text, at + 1)
    while text[at] != "]":
        try:
            end = scan(text, at)[1]
        except RecursionError:
            raise UserError(f"{where}: nested too deep", hint="no plugin needs so many brackets") from None
        spans.append((at, end))
        at = skip_space(text, end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
    return spans
