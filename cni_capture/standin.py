"""Whom capture-wrap stands in for, and what the runtime would have sent to that plugin, had nothing stood in for it."""

from cni_capture.call import CNIError, Config, read_config, skip_space

WRAP = "capture-wrap"
# Spec, "Error": 7, invalid network config.
INVALID_CONFIG = 7


class StandIn:
    """The real plugin's `type`, the configuration that it gets, and the object with our own settings."""

    __slots__ = ("config", "settings", "type")

    def __init__(self, type: str, config: str, settings: Config) -> None:
        self.type = type
        self.config = config
        self.settings = settings


def read_stand_in(config: Config) -> StandIn:
    """Find our key `capture` beside the `type` of the entry or, where we stand in for an IPAM plugin, of its `ipam`.

    An IPAM plugin gets the whole entry of the plugin that calls it (spec, "Section 4"). Raises CNIError 7 when there is
    no such key, or when it names no plugin.
    """
    if config.value("type") == WRAP:
        return StandIn(*_restored(config))
    ipam = _ipam(config)
    if ipam and ipam.value("type") == WRAP:
        plugin, entry, settings = _restored(ipam)
        start, end = config.spans["ipam"]
        return StandIn(plugin, config.text[:start] + entry + config.text[end:], settings)
    raise CNIError(INVALID_CONFIG, f"neither the type of the plugin nor that of its ipam is {WRAP}", f"hint: {_HINT}")


def settings_of(config: Config) -> "Config | None":
    """Our own settings in a configuration with which read_stand_in() could do nothing, if there are any."""
    for entry in (config, _ipam(config)):
        raw = entry.raw("capture") if entry else None
        if raw and raw[0] == "{":
            return _object(raw)
    return None


def _ipam(config: Config) -> "Config | None":
    raw = config.raw("ipam")
    return _object(raw) if raw and raw[0] == "{" else None


_HINT = f'to stand in for a bridge, {{"type": "{WRAP}", "capture": {{"type": "bridge"}}, ...}}'


def _restored(entry: Config) -> "tuple[str, str, Config]":
    """The type of the real plugin, its entry, and our settings."""
    raw = entry.raw("capture")
    if raw is None or raw[0] != "{":
        raise CNIError(INVALID_CONFIG, 'no object "capture" that names the plugin to stand in for', f"hint: {_HINT}")
    settings = _object(raw)
    plugin = settings.value("type")
    if not isinstance(plugin, str) or plugin in ("", WRAP):
        raise CNIError(INVALID_CONFIG, '"capture" has no "type" of a plugin to stand in for', f"hint: {_HINT}")
    start, end = settings.spans["type"]
    edits = sorted([(*entry.spans["type"], settings.text[start:end]), (*_member(entry, "capture"), "")])
    pieces = []
    done = 0
    for start, end, new in edits:
        pieces += [entry.text[done:start], new]
        done = end
    return plugin, "".join(pieces) + entry.text[done:], settings


def _object(text: str) -> Config:
    """A JSON object that is known to be one."""
    return read_config(text.encode())


def key_start(config: Config, key: str) -> int:
    """Where the key of a member begins. `key` has no quotation mark in it."""
    # Backwards to the colon, and over the key, in whatever spelling.
    text = config.text
    return text.rindex('"', 0, text.rindex('"', 0, text.rindex(":", 0, config.spans[key][0])))


def _member(config: Config, key: str) -> "tuple[int, int]":
    """Where a member of the object begins and ends, with one comma."""
    text = config.text
    start, end = key_start(config, key), config.spans[key][1]
    after = skip_space(text, end)
    if text[after] == ",":
        return start, skip_space(text, after + 1)
    before = len(text[:start].rstrip(" \t\r\n")) - 1
    return (before if text[before] == "," else start), end
