"""A log that ends in the middle of a record: its writer was killed, or the power failed. Under the lock."""

import fcntl
import posix

# How a record begins, with every digit as 0.
_BEGINNINGS = (
    b'{"v":0,"time":"0000-00-00T00:00:00.000000Z","probe":"capture-',
    b"0000-00-00T00:00:00.000000Z capture-",
)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_CHUNK = 65536


def remove_torn_record(fd: int, size: int) -> tuple[int, str]:
    """Cut a torn last record off; return the new size in bytes, and words about what was done ("": nothing).

    What does not begin like a record stays, since it is not ours. So does everything while a writer who went without
    the lock holds the file's own flock: the line on its way is his.
    """
    start = _last_line(fd, size)
    beginning = posix.pread(fd, max(map(len, _BEGINNINGS)), start).translate(_DIGITS)
    if not any(text.startswith(beginning[: len(text)]) for text in _BEGINNINGS):
        return size, ""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return size, ""
    now = posix.fstat(fd).st_size
    if now == size:
        posix.ftruncate(fd, start)
    fcntl.flock(fd, fcntl.LOCK_UN)
    return (start, f"removed a torn record of {size - start} bytes") if now == size else (now, "")


def _last_line(fd: int, size: int) -> int:
    """Where the last line begins."""
    end = size
    while end:
        start = max(0, end - _CHUNK)
        at = posix.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
