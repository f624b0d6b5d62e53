"""Records -> operations: entries and exits, paired, with a verdict. No I/O.

An operation is one pass of one verb over one stretch of the chain for one attachment. DEL runs backward, may repeat,
and may come without a namespace, a prevResult or an ADD; GC and STATUS are about a network, not about a container.
What pairs two records is network, container, interface, verb and label. That an exit will not come is known when the
same verb begins again, when the attachment is deleted, or when it is long overdue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct, field

from cni_capture.reading.records import Record, decode

# Longer than any runtime waits for a plugin (kubelet gives a sandbox four minutes).
GIVE_UP = timedelta(minutes=10)
# It repeats every few seconds, and one that is this late has failed.
GIVE_UP_ON_STATUS = timedelta(seconds=30)
# Bytes of records held back, so that operations come in the order in which they began.
MOST_HELD = 48 * 1024 * 1024
_LOOK = 64
# Attachments remembered, to tell with a DEL how long the ADD was ago.
_GENERATION = 10_000


class Verdict(str, Enum):
    OK = "ok"
    FAILED = "failed"
    NO_EXIT = "no exit seen"
    ENTRY_ONLY = "entry only"
    EXIT_ONLY = "exit only"


OK, FAILED = Verdict.OK, Verdict.FAILED  # a member of an Enum is slow to get at

HINTS = {
    Verdict.NO_EXIT: "no exit seen: a plugin between the probes failed or was killed, "
    "or the exit probe could not record",
    Verdict.ENTRY_ONLY: "entry only: the other probe has not recorded anything for this network and label; "
    "is it in the conflist?",
}


# Structs, since a million of them are made of a large log, and Python's own classes take three times as long.
class After(Struct, gc=False):
    """What came before a DEL: when the ADD began (None: not in this log), whether it failed, whether this repeats."""

    added: datetime | None
    failed: bool
    again: bool


class Operation(Struct, gc=False, eq=False):
    """An entry record and an exit record, or one of them; `verdict` is None as long as the exit may come."""

    entry: Record | None
    exit: Record | None
    verdict: Verdict | None = None
    after: After | None = None  # of a DEL

    @property
    def first(self) -> Record:
        """The entry, or the exit where there is no entry: who and what are the same in both."""
        return self.entry or self.exit  # type: ignore[return-value]  # one of them is there

    @property
    def records(self) -> list[Record]:
        return [record for record in (self.entry, self.exit) if record is not None]

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return sum(len(record.line) for record in self.records)

    @property
    def milliseconds(self) -> float | None:
        """From entry to exit, by the monotonic clock where both have read it since the same boot; None: unknown."""
        entry, exit = self.entry, self.exit
        if entry is None or exit is None:
            return None
        began, ended = entry.monotonic, exit.monotonic
        if began is not None and ended is not None and ended >= began:
            return (ended - began) * 1000
        apart = (exit.time - entry.time).total_seconds() * 1000
        return apart if apart >= 0 else None

    @property
    def is_failure(self) -> bool:
        """Whether it failed or never came back; not yet, when it is not decided."""
        return self.verdict is not OK and self.verdict in (FAILED, Verdict.NO_EXIT, None)

    @property
    def pod(self) -> tuple[str, str]:
        """Namespace and name of the Kubernetes pod (podman: "" and the container's name), as far as known."""
        named = dict(pair.partition("=")[::2] for pair in self.first.env.args.split(";"))
        return named.get("K8S_POD_NAMESPACE", ""), named.get("K8S_POD_NAME", "")

    @property
    def error(self) -> dict[str, object]:
        """The CNI error object that made it fail, or a `msg` with what is known instead; else empty."""
        for record in self.records:
            found = decode(bytes(record.error))
            if isinstance(found, dict):
                return found
        ended = self.exit
        if ended is None or not (ended.exit_status or ended.signal):
            return {}
        printed = decode(ended.body)
        if isinstance(printed, dict) and "msg" in printed:
            return printed
        return {"msg": f"killed by {ended.signal}" if ended.signal else f"exit status {ended.exit_status}"}


class Attachment(Struct, gc=False, eq=False):
    """What is remembered of network, container and interface (GC and STATUS: of a network)."""

    pending: list[Operation] = field(default_factory=list)
    # Of the last ADD: when it began, and the labels of the pairs that saw it, and that saw a DEL since.
    began: datetime | None = None
    failed: bool = False
    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def add(self, record: Record) -> None:
        """An ADD begins, or goes on with the next pair of a chain that has several."""
        if self.deleted or record.label in self.added or self.began is None:
            self.began = record.time
            self.failed = False
            self.added = self.deleted = ()
        self.added += (record.label,)


class Pairing:
    """Takes records one by one, oldest first, and gives operations back.

    `ready` holds those that are decided: in the order in which they began; `at_once` in that in which they were
    decided, as someone who follows a log wants them.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.ready: deque[Operation] = deque()
        self._at_once = at_once
        self._waiting: deque[Operation] = deque()
        self._attachments: dict[tuple[str, str, str], Attachment] = {}
        self._old_attachments: dict[tuple[str, str, str], Attachment] = {}
        # By network and label: whether two records have been paired; else the probes and sides that were alone.
        self._paired: set[tuple[str, str]] = set()
        self._alone: dict[tuple[str, str], set[tuple[str, str]]] = {}

    def feed(self, record: Record) -> None:
        env = record.env
        key = (record.network, env.container, env.ifname)
        attachment = self._attachments.get(key) or self._attachment(key)
        if record.side == "entry":
            self._enter(record, attachment)
        else:
            self._leave(record, attachment)
        waiting = self._waiting
        if len(waiting) > 1:
            self.tick(record.time)
        elif waiting and waiting[0].verdict is not None:
            self._release()

    def _enter(self, record: Record, attachment: Attachment) -> None:
        operation = Operation(record, None)
        self._waiting.append(operation)
        verb = record.env.command
        if attachment.pending:
            self._supersede(record, attachment)
        if verb == "ADD":
            attachment.add(record)
        elif verb == "DEL":
            operation.after = After(attachment.began, attachment.failed, record.label in attachment.deleted)
        if record.error:  # the probe itself has refused the call
            attachment.failed = attachment.failed or verb == "ADD"
            self._decide(operation, Verdict.FAILED)
        else:
            attachment.pending.append(operation)

    def _leave(self, record: Record, attachment: Attachment) -> None:
        verb, label = record.env.command, record.label
        operation = None
        for operation in reversed(attachment.pending):
            entry = operation.entry
            if entry.env.command == verb and entry.label == label:  # type: ignore[union-attr]  # pending is what entered
                break
        else:
            self._leave_alone(record, attachment)
            return
        attachment.pending.remove(operation)
        operation.exit = record
        self._paired.add((record.network, label))
        if record.error or record.exit_status or record.signal:
            operation.verdict = FAILED
            attachment.failed = attachment.failed or verb == "ADD"
        else:
            operation.verdict = OK
            if verb == "DEL" and label not in attachment.deleted:
                attachment.deleted += (label,)
        if self._at_once:
            self.ready.append(operation)

    def _leave_alone(self, record: Record, attachment: Attachment) -> None:
        """An exit without an entry."""
        verb, label = record.env.command, record.label
        operation = Operation(None, record)
        self._waiting.append(operation)
        self._alone.setdefault((record.network, label), set()).add((record.probe, "exit"))
        if attachment.pending and verb in ("ADD", "DEL"):
            self._supersede(record, attachment)
        if verb == "ADD":
            attachment.add(record)
            attachment.failed = attachment.failed or bool(record.error)
        elif verb == "DEL":
            operation.after = After(attachment.began, attachment.failed, label in attachment.deleted)
            if not record.error and label not in attachment.deleted:
                attachment.deleted += (label,)
        self._decide(operation, FAILED if record.error else Verdict.EXIT_ONLY)

    def _supersede(self, record: Record, attachment: Attachment) -> None:
        """A runtime does one thing at a time to an attachment: give up on what this record shows to be over.

        A chain with several pairs may nest them, so another label is no sign; a DEL is, and the same verb again. GC
        and STATUS of a network may overlap.
        """
        if not record.env.container:
            return
        verb, label = record.env.command, record.label
        for pending in attachment.pending[:]:
            first = pending.first
            same = first.env.command == verb
            if (same and first.label == label) or (verb == "DEL" and not same):
                self._give_up(pending)

    def tick(self, now: datetime) -> None:
        """Give up on what is overdue at `now`, and on the oldest where too much is held back for it."""
        waiting = self._waiting
        # Looked at now and then: adding up what is held costs more than the rest.
        full = len(waiting) % _LOOK == 0 and sum(operation.size for operation in waiting) > MOST_HELD
        while waiting:
            oldest = waiting[0]
            if not oldest.verdict:
                record = oldest.first
                limit = GIVE_UP_ON_STATUS if record.env.command == "STATUS" else GIVE_UP
                if now - record.time <= limit and not full:
                    break
                self._give_up(oldest)
                full = False
            self._release()

    def overdue(self, before: datetime) -> list[Operation]:
        """What began before `before` and still has no exit, the oldest first."""
        return [operation for operation in self._waiting if not operation.verdict and operation.first.time < before]

    def finish(self) -> None:
        """There are no more records: what is still pending will not have an exit."""
        while self._waiting:
            oldest = self._waiting[0]
            if oldest.verdict is None:
                self._give_up(oldest)
            self._release()

    def _attachment(self, key: tuple[str, str, str]) -> Attachment:
        attachment = self._attachments.get(key)
        if attachment is None:
            if len(self._attachments) >= _GENERATION:
                self._old_attachments = self._attachments
                self._attachments = {}
            attachment = self._old_attachments.pop(key) if key in self._old_attachments else Attachment()
            self._attachments[key] = attachment
        return attachment

    def _release(self) -> None:
        """The oldest is decided: nothing is held back for it any more."""
        oldest = self._waiting.popleft()
        if not self._at_once:
            self.ready.append(oldest)

    def _decide(self, operation: Operation, verdict: Verdict) -> None:
        operation.verdict = verdict
        if self._at_once:
            self.ready.append(operation)

    def _give_up(self, operation: Operation) -> None:
        record = operation.first
        attachment = self._attachment((record.network, record.env.container, record.env.ifname))
        stretch = (record.network, record.label)
        alone = self._alone.setdefault(stretch, set())
        alone.add((record.probe, "entry"))
        # The other probe is missing, rather than its record: one alone saw entries, exits (of DEL), and nothing else.
        lonely = stretch not in self._paired and alone == {(record.probe, "entry"), (record.probe, "exit")}
        self._decide(operation, Verdict.ENTRY_ONLY if lonely else Verdict.NO_EXIT)
        if operation in attachment.pending:
            attachment.pending.remove(operation)
        if record.env.command == "ADD" and not lonely:
            attachment.failed = True


def operations(records: Iterable[Record], pairing: Pairing | None = None) -> Iterator[Operation]:
    """All operations of a finished log."""
    pairing = pairing or Pairing()
    feed, ready = pairing.feed, pairing.ready
    for record in records:
        feed(record)
        while ready:
            yield ready.popleft()
    pairing.finish()
    yield from ready


def ending(add: Operation, later: Iterable[Operation]) -> Operation | None:
    """The DEL that ended an ADD, out of the operations that began after it; None when there is none.

    A DEL that failed has ended nothing, unless none came after it.
    """
    first, failed = add.first, None
    for operation in later:
        record = operation.first
        same = (record.network, record.env.container, record.env.ifname, record.label) == (
            first.network,
            first.env.container,
            first.env.ifname,
            first.label,
        )
        if same and record.env.command == "ADD":
            break
        if same and record.env.command == "DEL":
            if not operation.is_failure:
                return operation
            failed = operation
    return failed
