"""Settings come from the probe's entry, else the environment, else the defaults; a bad one costs a line on stderr."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.call import read_config
from cni_capture.settings import SECRET_KEYS, Settings, read_settings

DEFAULTS: dict[str, Any] = {
    "log_file": "/tmp/cni.log",
    "lock_file": "/var/run/lock/cni.lock",
    "log_format": "text",
    "max_size": 100 * 1024 * 1024,
    "max_backups": 5,
    "lock_timeout": 2.0,
    "interfaces": False,
    "label": "",
    "redact": SECRET_KEYS,
    "complaints": [],
}


def _read(entry: object = None, environ: dict[str, str] | None = None) -> dict[str, Any]:
    config = None if entry is None else read_config(json.dumps(entry).encode())
    settings = read_settings(config, environ or {})
    return {name: getattr(settings, name) for name in Settings.__slots__}


def test_the_defaults_are_those_that_the_documentation_names() -> None:
    """With no setting at all: text in /tmp/cni.log under /var/run/lock/cni.lock, 100 MB and five old files."""
    assert DEFAULTS == _read()


def test_every_key_of_the_entry_is_obeyed() -> None:
    """All nine keys of an entry, each with its effect."""
    entry = {
        "logFile": "/a",
        "lockFile": "/b",
        "logFormat": "json",
        "logOptions": {"maxSize": 0.5, "maxBackups": 2},
        "lockTimeout": 0.25,
        "interfaces": True,
        "label": "outer",
        "redact": ["Zone"],
    }
    assert {
        "log_file": "/a",
        "lock_file": "/b",
        "log_format": "json",
        "max_size": 512 * 1024,
        "max_backups": 2,
        "lock_timeout": 0.25,
        "interfaces": True,
        "label": "outer",
        "redact": (*SECRET_KEYS, "zone"),
        "complaints": [],
    } == _read(entry)


ENVIRON = {
    "CNI_CAPTURE_LOG_FILE": "/c",
    "CNI_CAPTURE_LOCK_FILE": "/d",
    "CNI_CAPTURE_LOG_FORMAT": "json",
    "CNI_CAPTURE_LOCK_TIMEOUT": "7",
    "CNI_CAPTURE_INTERFACES": "true",
}


def test_every_variable_is_obeyed() -> None:
    """All five variables, each with its effect."""
    expected = {"log_file": "/c", "lock_file": "/d", "log_format": "json", "lock_timeout": 7.0, "interfaces": True}
    assert {**DEFAULTS, **expected} == _read(None, ENVIRON)


def test_the_entry_goes_before_the_environment() -> None:
    """What both set is as the entry has it; a false there is a word, too."""
    entry = {"logFile": "/a", "lockFile": "/b", "logFormat": "text", "lockTimeout": 0, "interfaces": False}
    expected = {"log_file": "/a", "lock_file": "/b", "log_format": "text", "lock_timeout": 0.0, "interfaces": False}
    assert {**DEFAULTS, **expected} == _read(entry, ENVIRON)


@pytest.mark.parametrize("nothing", [None, ""])
def test_null_and_the_empty_string_are_no_setting(nothing: object) -> None:
    """How some writers leave a key out is no mistake: the next source is asked."""
    keys = ("logFile", "lockFile", "logFormat", "lockTimeout", "interfaces", "label", "redact")
    entry = dict.fromkeys(keys, nothing) | {"logOptions": {"maxSize": nothing, "maxBackups": nothing}}
    assert {**DEFAULTS, "log_file": "/c"} == _read(
        entry, {"CNI_CAPTURE_LOG_FILE": "/c", "CNI_CAPTURE_LOCK_TIMEOUT": ""}
    )


PATH = "is not an absolute path"
FORMAT = 'is neither "text" nor "json"'
SECONDS = "is not a number of seconds from 0 to 60"
FLAG = "is neither true nor false"
MEGABYTES = "is not a number of megabytes (0: never rotate)"
FILES = "is not a whole number of files"
NAMES = "is neither a list of key names nor false"


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"logFile": "cni.log"}, f"logFile: 'cni.log' {PATH}; ignored"),
        ({"logFile": 5}, f"logFile: 5 {PATH}; ignored"),
        ({"logFile": "/a\0b"}, rf"logFile: '/a\x00b' {PATH}; ignored"),
        ({"lockFile": ["/a"]}, f"lockFile: ['/a'] {PATH}; ignored"),
        ({"logFormat": "yaml"}, f"logFormat: 'yaml' {FORMAT}; ignored"),
        ({"logFormat": {"a": 1}}, f"logFormat: {{'a': 1}} {FORMAT}; ignored"),
        ({"lockTimeout": -1}, f"lockTimeout: -1 {SECONDS}; ignored"),
        ({"lockTimeout": "2s"}, f"lockTimeout: '2s' {SECONDS}; ignored"),
        ({"lockTimeout": 2000}, f"lockTimeout: 2000 {SECONDS}; ignored"),
        ({"lockTimeout": True}, f"lockTimeout: True {SECONDS}; ignored"),
        ({"lockTimeout": "nan"}, f"lockTimeout: 'nan' {SECONDS}; ignored"),
        ({"interfaces": "yes"}, f"interfaces: 'yes' {FLAG}; ignored"),
        ({"label": 7}, "label: 7 is not a string; ignored"),
        ({"redact": "password"}, f"redact: 'password' {NAMES}; ignored"),
        ({"redact": True}, f"redact: True {NAMES}; ignored"),
        ({"redact": ["a", 1]}, f"redact: ['a', 1] {NAMES}; ignored"),
        ({"redact": [""]}, f"redact: [''] {NAMES}; ignored"),
        ({"logOptions": 5}, "logOptions: 5 is not an object; ignored"),
        ({"logOptions": {"maxSize": -1}}, f"logOptions.maxSize: -1 {MEGABYTES}; ignored"),
        ({"logOptions": {"maxSize": 10**400}}, f"logOptions.maxSize: {str(10**400)[:60]} {MEGABYTES}; ignored"),
        ({"logOptions": {"maxSize": "1G"}}, f"logOptions.maxSize: '1G' {MEGABYTES}; ignored"),
        ({"logOptions": {"maxBackups": 1.5}}, f"logOptions.maxBackups: 1.5 {FILES}; ignored"),
        ({"logOptions": {"maxBackups": -1}}, f"logOptions.maxBackups: -1 {FILES}; ignored"),
        ({"interfaces": "\x1b\u202eé"}, rf"interfaces: '\x1b\u202e\xe9' {FLAG}; ignored"),
    ],
)
def test_a_bad_value_of_the_entry_is_one_complaint_and_no_more(entry: dict[str, Any], complaint: str) -> None:
    """The complaint names key and value, at a readable length and in ASCII; the default holds."""
    assert {**DEFAULTS, "complaints": [complaint]} == _read(entry)


@pytest.mark.parametrize("digits", ["9" * 5000, "[" * 100_000 + "]" * 100_000])
@pytest.mark.parametrize("key", ["logFile", "lockFile", "logFormat", "lockTimeout", "interfaces", "label", "redact"])
def test_json_that_python_cannot_hold_is_no_setting(key: str, digits: str) -> None:
    """Five thousand digits or a hundred thousand levels are a bad value as any other."""
    settings = read_settings(read_config(f'{{"{key}": {digits}}}'.encode()), {})
    complaints = settings.complaints
    settings.complaints = []
    assert (DEFAULTS, 1) == ({name: getattr(settings, name) for name in Settings.__slots__}, len(complaints))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("CNI_CAPTURE_LOG_FILE", "~/cni.log", PATH),
        ("CNI_CAPTURE_LOCK_FILE", "lock", PATH),
        ("CNI_CAPTURE_LOG_FORMAT", "JSON", FORMAT),
        ("CNI_CAPTURE_LOCK_TIMEOUT", "forever", SECONDS),
        ("CNI_CAPTURE_INTERFACES", "on", FLAG),
    ],
)
def test_a_bad_variable_is_one_complaint_and_the_default_holds(name: str, value: str, complaint: str) -> None:
    """A typo in a runtime's environment is named, and takes nothing down."""
    assert {**DEFAULTS, "complaints": [f"{name}: '{value}' {complaint}; ignored"]} == _read(None, {name: value})


def test_a_bad_value_in_the_entry_leaves_what_the_environment_says() -> None:
    """The complaint is about the entry alone; the next source is used."""
    complaint = f"logFile: 'relative' {PATH}; ignored"
    assert {**DEFAULTS, "log_file": "/c", "complaints": [complaint]} == _read(
        {"logFile": "relative"}, {"CNI_CAPTURE_LOG_FILE": "/c"}
    )
