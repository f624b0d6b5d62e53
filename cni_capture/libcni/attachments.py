"""Attachments, and the record that a runtime keeps of them between ADD and DEL: libcni's files and format (cniCacheV1).

One file per attachment, `<directory>/results/<network>-<container ID>-<interface>`, readable by its owner only.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cni_capture.errors import UserError
from cni_capture.libcni.gojson import GoError, marshal, plain_object, quote
from cni_capture.libcni.network import Network
from cni_capture.libcni.result import Result, from_cache

_KIND = "cniCacheV1"


@dataclass(frozen=True)
class Attachment:
    """A container's interface on a network, with what the runtime says about it to the plugins."""

    container_id: str
    netns: str = ""
    ifname: str = "eth0"
    args: tuple[tuple[str, str], ...] = ()
    capability_args: Mapping[str, Any] = field(default_factory=dict)


class Cache:
    """The attachments recorded under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _file(self, network: str, attachment: Attachment) -> Path:
        return self.directory / "results" / f"{network}-{attachment.container_id}-{attachment.ifname}"

    def add(self, network: Network, attachment: Attachment, result: Result) -> None:
        """Record an attachment and its final result. Raises GoError."""
        record: dict[str, Any] = {
            "kind": _KIND,
            "containerId": attachment.container_id,
            "config": base64.b64encode(network.source).decode(),
            "ifName": attachment.ifname,
            "networkName": network.name,
        }
        if attachment.netns:
            record["netns"] = attachment.netns
        if attachment.args:
            record["cniArgs"] = attachment.args
        if attachment.capability_args:
            record["capabilityArgs"] = dict(sorted(attachment.capability_args.items()))
        record["result"] = plain_object(marshal(result.encode()))
        file = self._file(network.name, attachment)
        doing = "mkdir"
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            doing = "open"
            with open(file, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
                stream.write(marshal(record))
        except OSError as error:
            raise GoError(f"{doing} {error.filename}: {(error.strerror or '').lower()}") from None

    def result(self, network: Network, attachment: Attachment) -> Result | None:
        """The result on record, in the network's version; None when there is no record. Raises GoError."""
        try:
            data = self._file(network.name, attachment).read_bytes()
        except OSError:
            return None
        record = _record(data)
        # A file that is no record is taken for the bare result that libcni kept before 0.8.
        result = from_cache(data if record is None else marshal(record.get("result")))
        try:
            return result.as_version(network.cni_version)
        except GoError as error:
            version = quote(network.cni_version.encode())
            raise GoError(f"failed to convert cached result to config version {version}: {error}") from None

    def remove(self, network: Network, attachment: Attachment) -> None:
        """Forget an attachment. One that cannot be forgotten does not fail a DEL, as in libcni."""
        with contextlib.suppress(OSError):
            self._file(network.name, attachment).unlink()

    def attachments(self) -> list[tuple[str, Attachment]]:
        """Every attachment on record, each after the name of its network, in the order of the file names.

        Raises UserError when it may not look.
        """
        try:
            files = sorted((self.directory / "results").iterdir())
            records = [_record(file.read_bytes()) for file in files if file.is_file()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(
                f"cannot read {error.filename}: {error.strerror}", hint="choose another place with --cache-dir"
            ) from None
        return [
            (record["networkName"], _attachment(record))
            for record in records
            if record and record.get("ifName") and record.get("networkName")
        ]


def _record(data: bytes) -> dict[str, Any] | None:
    try:
        record = plain_object(data)
    except GoError:
        return None
    return record if record.get("kind") == _KIND else None


def _attachment(record: dict[str, Any]) -> Attachment:
    return Attachment(
        container_id=record.get("containerId", ""),
        netns=record.get("netns", ""),
        ifname=record["ifName"],
        args=tuple((key, value) for key, value in record.get("cniArgs", ())),
        capability_args=record.get("capabilityArgs", {}),
    )
