"""The log file: open it safely, lock, append one line, rotate.

A line is in the file whole or not at all, every wait is bounded, and what could not be done is said, never raised.
Files are 0600 and our own: in /tmp and /run/lock anybody can be first with a link, a FIFO or a file of that name.
"""

import _thread
import fcntl
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cni_capture.settings import Settings

    # What to write, given why it is written without the lock ("": it is not), in pieces that make one line.
    Line = Callable[[str], Sequence[bytes]]

_FILE_TYPE, _REGULAR = 0o170000, 0o100000  # stat(7); not worth the module `stat`
_SAFE_OPEN = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
# Seconds that the file system is given beyond the wait for the lock: all in all not more than `lockTimeout` + 0.45.
_GRACE = 0.2
# Where nobody mounts a network: a file there can be written without a guard against a server that does not answer.
_LOCAL = ("/tmp/", "/run/", "/var/run/", "/var/log/", "/var/lib/")


def write(settings: "Settings", line: "Line") -> str:
    """Append one record; return what went wrong, in words, or ""."""
    if settings.log_file.startswith(_LOCAL) and settings.lock_file.startswith(_LOCAL):
        return _write_in_time(settings, line, True)
    from cni_capture.remote import in_child

    seconds = max(settings.lock_timeout, _GRACE) + 1.25 * _GRACE
    trouble = in_child(lambda: _write_in_time(settings, line, False), seconds)
    return f"not recorded: {settings.log_file} did not take it in time" if trouble is None else trouble


def _write_in_time(settings: "Settings", line: "Line", local: bool) -> str:
    """The same, in a thread where it may have to wait: when the time is up the process ends, and takes that with it."""
    attempt = _Attempt(settings, line)
    if not (local and attempt.with_lock(False)):
        try:
            _thread.start_new_thread(attempt.with_lock, (True,))
        except RuntimeError:  # this user or group may have no more threads: no waiting, then
            attempt.append(f"no thread to wait for {settings.lock_file} in")
        if not attempt.finished.acquire(True, max(settings.lock_timeout, _GRACE)):
            if attempt.turn.acquire(False):
                why = f"{settings.lock_file} was locked for {settings.lock_timeout:g} s"
                _thread.start_new_thread(attempt.append, (why,))
            if not attempt.finished.acquire(True, _GRACE):
                attempt.complaints[:] = [f"not recorded: {settings.log_file} did not take it in time"]
    return "; ".join(attempt.complaints)


class _Attempt:
    """One record on its way into the log. Whoever takes `turn` appends it; `finished` is released when that is done."""

    __slots__ = ("complaints", "finished", "line", "settings", "turn")

    def __init__(self, settings: "Settings", line: "Line") -> None:
        self.settings = settings
        self.line = line
        self.complaints: list[str] = []
        self.turn = _thread.allocate_lock()
        self.finished = _thread.allocate_lock()
        self.finished.acquire()

    def with_lock(self, wait: bool) -> bool:
        """Lock, append, unlock. False when somebody else has the lock and there is to be no `wait`."""
        fd, why = -1, ""
        try:
            fd = _lock(self.settings.lock_file, wait)
        except BlockingIOError:
            return False
        except Exception as error:  # a path that cannot be encoded is a ValueError
            why = _words(error, self.settings.lock_file)
        if self.turn.acquire(False):
            self.append(why)
        if fd >= 0:
            posix.close(fd)
        return True

    def append(self, why: str) -> None:
        """Append; `why` there is no lock, "" when there is one."""
        try:
            if why:
                self.complaints.append(f"recorded without the lock: {why}")
            trouble = append(self.settings, self.line(why), not why)
            if trouble:
                self.complaints.append(trouble)
        except Exception as error:  # in a thread nobody else would hear of it
            self.complaints[:] = [f"not recorded: {_words(error, self.settings.log_file)}"]
        self.finished.release()


def append(settings: "Settings", line: "Sequence[bytes]", locked: bool) -> str:
    """Append one line, whole or not at all; rotate before the file would exceed `max_size`. Returns minor trouble.

    Without the lock it still is one write at the end of the file, which the kernel does not interleave with another;
    rotation and repair are left to those who hold it. Raises OSError when the line could not be written.
    """
    trouble = ""
    fd = _open(settings.log_file, posix.O_APPEND)
    try:
        length = sum(map(len, line))
        size = posix.fstat(fd).st_size
        if size and posix.pread(fd, 1, size - 1) != b"\n":
            if locked:
                from cni_capture.repair import remove_torn_record

                size, trouble = remove_torn_record(fd, size)
            if size and not trouble:
                line = [b"\n", *line]
                length += 1
        if locked and settings.max_size and size and size + length > settings.max_size:
            from cni_capture.rotate import rotate

            troubles = [trouble, rotate(settings.log_file, settings.max_backups)]
            try:
                new = _open(settings.log_file, posix.O_APPEND)  # the same file where it could not be moved
            except (
                OSError
            ) as error:  # somebody was quick to put something there: the record goes to the file moved away
                troubles.append(_words(error, settings.log_file))
            else:
                posix.close(fd)
                fd = new
                size = posix.fstat(fd).st_size
            trouble = "; ".join(filter(None, troubles))
        elif not locked:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # tells remove_torn_record() that a line is on its way
            except OSError:
                pass  # it is at work, for microseconds, or a stranger is, for as long as he likes
        _write(fd, line, length, size)
    finally:
        posix.close(fd)
    return trouble


def _write(fd: int, line: "Sequence[bytes]", length: int, size: int) -> None:
    written = posix.writev(fd, line)
    try:
        while written < length:  # a full file system takes a part, and says why only when asked to take the rest
            written += posix.write(fd, b"".join(line)[written:])
    except OSError:
        if posix.fstat(fd).st_size == size + written:
            posix.ftruncate(fd, size)
        raise


def _lock(path: str, wait: bool) -> int:
    """A descriptor that holds the flock of all probes and tools. Raises OSError; without `wait`, BlockingIOError."""
    while True:
        fd = _open(path, 0)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if posix.fstat(fd).st_nlink:
                return fd
        except OSError:
            posix.close(fd)
            raise
        posix.close(fd)  # somebody removed the file while we waited for it: the lock is on a new one now


def _open(path: str, flags: int) -> int:
    """Open or create a regular file that is ours alone, never through a link, never waiting for it. Raises OSError."""
    while True:
        fd = posix.open(path, flags | _SAFE_OPEN, 0o600)
        try:
            stat = posix.fstat(fd)
            if stat.st_mode & _FILE_TYPE != _REGULAR:
                raise OSError(f"{path} is not a regular file")
            if stat.st_uid != posix.geteuid():
                raise OSError(f"{path} belongs to user {stat.st_uid}, not {posix.geteuid()}")
            if stat.st_nlink > 1:
                raise OSError(f"{path} has {stat.st_nlink} hard links")
            if stat.st_mode & 0o777 != 0o600:
                posix.fchmod(fd, 0o600)
            if stat.st_nlink:
                return fd
        except OSError:
            posix.close(fd)
            raise
        posix.close(fd)  # removed since it was opened


def _words(error: BaseException, path: str) -> str:
    """What happened and where, for a person."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    import errno

    if error.errno == errno.ELOOP:
        return f"{path} is a symbolic link"
    return f"{path}: {error.strerror}" if error.strerror else str(error)
