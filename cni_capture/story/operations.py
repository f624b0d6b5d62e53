"""Records -> operations: entries and exits, paired, with a verdict. No I/O.

An operation is one pass of one verb over one stretch of the chain for one attachment. DEL runs backward, may repeat,
and may come without a namespace, a prevResult or an ADD; GC and STATUS are about a network, not about a container.
What pairs two records is network, container, interface, verb and hop: the label; of capture-wrap the plugin as well,
and the process, which is one and the same. That an exit will not come is known when the same verb begins again, when
the attachment is deleted, or when it is long overdue. What a replay has recorded is a story of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct, field

from cni_capture.reading.records import Record, decode
from cni_capture.story.faults import Fault

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
    NO_END = "no end seen"
    ENTRY_ONLY = "entry only"
    EXIT_ONLY = "exit only"


OK, FAILED = Verdict.OK, Verdict.FAILED  # a member of an Enum is slow to get at

HINTS = {
    Verdict.NO_EXIT: "no exit seen: a plugin between the probes failed or was killed, "
    "or the exit probe could not record",
    Verdict.NO_END: "no end seen: the plugin hung, or was killed together with capture-wrap, "
    "or its end could not be recorded",
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
    fault: Fault | None = None  # of a wrapped plugin

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
        """From entry to exit, by the monotonic clock where both have read it since the same boot; None: unknown.

        Of a wrapped plugin, what it took itself.
        """
        entry, exit = self.entry, self.exit
        if exit is None:
            return None
        if exit.took is not None or entry is None:
            return exit.took
        began, ended = entry.monotonic, exit.monotonic
        if began is not None and ended is not None and ended >= began:
            return (ended - began) * 1000
        apart = (exit.time - entry.time).total_seconds() * 1000
        return apart if apart >= 0 else None

    @property
    def is_failure(self) -> bool:
        """Whether it failed or never came back; not yet, when it is not decided."""
        return self.verdict is not OK and self.verdict in (FAILED, Verdict.NO_EXIT, Verdict.NO_END, None)

    @property
    def pod(self) -> tuple[str, str]:
        """Namespace and name of the Kubernetes pod (podman: "" and the container's name), as far as known."""
        named = dict(pair.partition("=")[::2] for pair in self.first.env.args.split(";"))
        return named.get("K8S_POD_NAMESPACE", ""), named.get("K8S_POD_NAME", "")

    @property
    def error(self) -> dict[str, object]:
        """The CNI error object with which a probe has refused the call, or the wrapped plugin has; else empty."""
        if self.fault is not None:
            return self.fault.said
        found = [decode(bytes(record.error)) for record in self.records if record.error]
        return found[0] if found and isinstance(found[0], dict) else {}


class Attachment(Struct, gc=False, eq=False):
    """What is remembered of network, container and interface (GC and STATUS: of a network)."""

    pending: list[Operation] = field(default_factory=list)
    # Of the last ADD: when it began, and the hops that saw it, and that saw a DEL since.
    began: datetime | None = None
    failed: bool = False
    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def add(self, record: Record) -> None:
        """An ADD begins, or goes on with the next hop of a chain that has several."""
        if self.began is None or self.deleted or record.hop in self.added:
            self.began = record.time
            self.failed = False
            self.added, self.deleted = (record.hop,), ()
        else:
            self.added += (record.hop,)


class Pairing:
    """Takes records one by one, oldest first, and gives operations back.

    `ready` holds those that are decided: in the order in which they began; `at_once` in that in which they were
    decided, as someone who follows a log wants them.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.ready: deque[Operation] = deque()
        self._at_once = at_once
        self._waiting: deque[Operation] = deque()
        self._attachments: dict[tuple[str, ...], Attachment] = {}
        self._old_attachments: dict[tuple[str, ...], Attachment] = {}
        # By network and label: whether two records have been paired; else the probes and sides that were alone.
        self._paired: set[tuple[str, str]] = set()
        self._alone: dict[tuple[str, str], set[tuple[str, str]]] = {}

    def feed(self, record: Record) -> None:
        env = record.env
        # The key, an entry, and the release of the oldest, in place: a call more for each would be felt on a million.
        key = (record.network, env.container, env.ifname, env.replay)
        attachment = self._attachments.get(key) or self._attachment(key)
        waiting = self._waiting
        if record.side == "entry":
            operation = Operation(record, None)
            waiting.append(operation)
            verb = env.command
            if attachment.pending:
                self._supersede(record, attachment)
            if verb == "ADD":
                attachment.add(record)
            elif verb == "DEL":
                operation.after = After(attachment.began, attachment.failed, record.hop in attachment.deleted)
            if record.error:  # the probe itself has refused the call
                attachment.failed = attachment.failed or verb == "ADD"
                self._decide(operation, Verdict.FAILED)
            else:
                attachment.pending.append(operation)
        else:
            self._leave(record, attachment)
        if len(waiting) > 1:
            self.tick(record.time)
        elif waiting and waiting[0].verdict is not None:
            oldest = waiting.popleft()
            if not self._at_once:
                self.ready.append(oldest)

    def _leave(self, record: Record, attachment: Attachment) -> None:
        verb, hop = record.env.command, record.hop
        for operation in reversed(attachment.pending):
            entry: Record = operation.entry  # type: ignore[assignment]  # pending is what entered
            if entry.env.command == verb and entry.hop == hop and (not record.plugin or entry.pid == record.pid):
                break
        else:
            self._leave_alone(record, attachment)
            return
        attachment.pending.remove(operation)
        operation.exit = record
        self._paired.add((record.network, hop))
        if record.plugin:
            operation.fault = _fault(record)
        if operation.fault or record.error:
            operation.verdict = FAILED
            attachment.failed = attachment.failed or verb == "ADD"
        else:
            operation.verdict = OK
            if verb == "DEL" and hop not in attachment.deleted:
                attachment.deleted += (hop,)
        if self._at_once:
            self.ready.append(operation)

    def _leave_alone(self, record: Record, attachment: Attachment) -> None:
        """An exit without an entry."""
        verb, hop = record.env.command, record.hop
        operation = Operation(None, record)
        self._waiting.append(operation)
        self._alone.setdefault((record.network, hop), set()).add((record.probe, "exit"))
        if attachment.pending and verb in ("ADD", "DEL"):
            self._supersede(record, attachment)
        operation.fault = _fault(record) if record.plugin else None
        failed = bool(operation.fault or record.error)
        if verb == "ADD":
            attachment.add(record)
            attachment.failed = attachment.failed or failed
        elif verb == "DEL":
            operation.after = After(attachment.began, attachment.failed, hop in attachment.deleted)
            if not failed and hop not in attachment.deleted:
                attachment.deleted += (hop,)
        self._decide(operation, FAILED if failed else Verdict.EXIT_ONLY)

    def _supersede(self, record: Record, attachment: Attachment) -> None:
        """A runtime does one thing at a time to an attachment: give up on what this record shows to be over.

        A chain with several hops may nest them, so another hop is no sign; a DEL is, and the same verb again. GC and
        STATUS of a network may overlap.
        """
        if not record.env.container:
            return
        verb, hop = record.env.command, record.hop
        for pending in attachment.pending[:]:
            first = pending.first
            same = first.env.command == verb
            if (same and first.hop == hop) or (verb == "DEL" and not same):
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

    def _attachment(self, key: tuple[str, ...]) -> Attachment:
        attachment = self._attachments.get(key)
        if attachment is None:
            if len(self._attachments) >= _GENERATION:
                self._old_attachments = self._attachments
                self._attachments = {}
            attachment = self._old_attachments.pop(key, None) or Attachment()
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
        attachment = self._attachment(record.attachment)
        stretch = (record.network, record.hop)
        alone = self._alone.setdefault(stretch, set())
        alone.add((record.probe, "entry"))
        # The other probe is missing, rather than its record: one alone saw entries, exits (of DEL), and nothing else.
        lonely = stretch not in self._paired and alone == {(record.probe, "entry"), (record.probe, "exit")}
        of_pair = Verdict.ENTRY_ONLY if lonely else Verdict.NO_EXIT
        verdict = Verdict.NO_END if record.plugin else of_pair  # capture-wrap has no other probe
        self._decide(operation, verdict)
        if operation in attachment.pending:
            attachment.pending.remove(operation)
        if record.env.command == "ADD" and verdict is not Verdict.ENTRY_ONLY:
            attachment.failed = True


def _fault(exit: Record) -> Fault | None:
    """What is wrong with what a wrapped plugin has answered."""
    from cni_capture.story.answers import fault  # the rules of libcni, which a log of pairs does not need

    return fault(exit)


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
        same = record.attachment == first.attachment and record.hop == first.hop
        if same and record.env.command == "ADD":
            break
        if same and record.env.command == "DEL":
            if not operation.is_failure:
                return operation
            failed = operation
    return failed
