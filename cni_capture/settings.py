"""Where and how to record: keys of the probe's own entry, else environment, else default.

A bad value is complained of and the default used: a typo must not take a node's network down.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cni_capture.call import Config

    # Name, attribute of Settings, and what makes one of the other: it raises ValueError, with what is wrong.
    Table = tuple[tuple[str, str, Callable[[object], object]], ...]

# Values of these keys never reach the log, at any depth. Calico's (its types.NetConf, and etcd's), whereabouts' etcd
# fields, and the names that other configurations use for the same things. Casefolded.
SECRET_KEYS = (
    "k8s_auth_token",
    "k8s_client_key",
    "k8s_password",
    "etcd_key",
    "etcd_key_file",
    "etcd_password",
    "access_key",
    "api_key",
    "apikey",
    "auth_token",
    "bearer_token",
    "client_key",
    "client_secret",
    "passphrase",
    "password",
    "passwd",
    "private_key",
    "privatekey",
    "psk",
    "secret",
    "secret_key",
    "token",
)

_MEGABYTE = 1024 * 1024  # as lumberjack counts, the library behind the logOptions of multus
# A longer wait than this is a mistake in the unit: runtimes give a plugin minutes, not hours.
_LONGEST_WAIT = 60.0


class Settings:
    """The settings of one call, with a complaint for each value that could not be used."""

    __slots__ = (
        "complaints",
        "interfaces",
        "label",
        "lock_file",
        "lock_timeout",
        "log_file",
        "log_format",
        "max_backups",
        "max_size",
        "redact",
    )

    def __init__(self) -> None:
        self.log_file = "/tmp/cni.log"
        self.lock_file = "/var/run/lock/cni.lock"
        self.log_format = "text"  # or "json"
        self.max_size = 100 * _MEGABYTE  # bytes; 0: never rotate
        self.max_backups = 5
        self.lock_timeout = 2.0  # seconds
        self.interfaces = False
        self.label = ""
        self.redact = SECRET_KEYS  # casefolded keys; empty: redact nothing
        self.complaints: list[str] = []


def read_settings(config: "Config | None", environ: "Mapping[str, str]") -> Settings:
    """The settings of a call. Never raises: what cannot be used becomes a complaint."""
    settings = Settings()
    for name, attribute, understand in _ENVIRONMENT:
        if name in environ:
            _take(settings, name, attribute, understand, environ[name])
    if config is not None:
        for name, attribute, understand in _KEYS:
            if name in config.spans:
                _take(settings, name, attribute, understand, config.value(name))
        options = config.value("logOptions")
        if isinstance(options, dict):
            for name, attribute, understand in _LOG_OPTIONS:
                if name in options:
                    _take(settings, f"logOptions.{name}", attribute, understand, options[name])
        elif options is not None:
            settings.complaints.append(f"logOptions: {options!a:.60} is not an object; ignored")
    return settings


def _take(
    settings: Settings, name: str, attribute: str, understand: "Callable[[object], object]", value: object
) -> None:
    if value is None or value == "":
        return  # how some writers leave a key out
    try:
        setattr(settings, attribute, understand(value))
    except ValueError as error:
        settings.complaints.append(f"{name}: {value!a:.60} {error}; ignored")


def _path(value: object) -> str:
    # Relative to what? Runtimes differ in the directory that they start plugins in.
    if not isinstance(value, str) or value[:1] != "/" or "\0" in value:
        raise ValueError("is not an absolute path")
    value.encode("utf-8", "surrogateescape")  # JSON can say `\\ud800`, no file name can; raises a ValueError
    return value


def _log_format(value: object) -> str:
    if value not in ("text", "json"):
        raise ValueError('is neither "text" nor "json"')
    return str(value)


def _seconds(value: object) -> float:
    seconds = _number(value)
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise ValueError(f"is not a number of seconds from 0 to {_LONGEST_WAIT:g}")
    return seconds


def _megabytes(value: object) -> int:
    megabytes = _number(value)
    if not 0 <= megabytes < 1e9:
        raise ValueError("is not a number of megabytes (0: never rotate)")
    return int(megabytes * _MEGABYTE)


def _backups(value: object) -> int:
    count = _number(value)
    if not 0 <= count < 1e6 or count % 1:
        raise ValueError("is not a whole number of files")
    return int(count)


def _number(value: object) -> float:
    """A number, or NaN, which is in no range, for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return float("nan")
    try:
        return float(value)
    except (ValueError, OverflowError):
        return float("nan")


def _flag(value: object) -> bool:
    if value in (True, "true", "1"):
        return True
    if value in (False, "false", "0"):
        return False
    raise ValueError("is neither true nor false")


def _label(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return value


def _redact(value: object) -> "tuple[str, ...]":
    if value is False:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ValueError("is neither a list of key names nor false")
    return SECRET_KEYS + tuple(name.casefold() for name in value)


_ENVIRONMENT: "Table" = (
    ("CNI_CAPTURE_LOG_FILE", "log_file", _path),
    ("CNI_CAPTURE_LOCK_FILE", "lock_file", _path),
    ("CNI_CAPTURE_LOG_FORMAT", "log_format", _log_format),
    ("CNI_CAPTURE_LOCK_TIMEOUT", "lock_timeout", _seconds),
    ("CNI_CAPTURE_INTERFACES", "interfaces", _flag),
)
_KEYS: "Table" = (
    ("logFile", "log_file", _path),
    ("lockFile", "lock_file", _path),
    ("logFormat", "log_format", _log_format),
    ("lockTimeout", "lock_timeout", _seconds),
    ("interfaces", "interfaces", _flag),
    ("label", "label", _label),
    ("redact", "redact", _redact),
)
_LOG_OPTIONS: "Table" = (
    ("maxSize", "max_size", _megabytes),
    ("maxBackups", "max_backups", _backups),
)
