"""Work on a file system that may never answer, in a process of its own. Imported only for files across a network.

No thread does that: a process ends when the last of its threads does, and one that waits for a dead mount may hear no
signal, not even SIGKILL, until the mount answers (fs/fuse/dev.c, request_wait_answer: "Wait it out").
"""

import _signal as signal  # type: ignore[import-not-found]
import posix
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def in_child(work: "Callable[[], str]", seconds: float) -> "str | None":
    """What `work` returns in a child process; None when it has not returned after `seconds`, or has died.

    The child is then killed, and left to end when it can: it holds none of our streams. Raises OSError.
    """
    read, write = posix.pipe()
    child = posix.fork()
    if not child:
        try:
            null = posix.open("/dev/null", posix.O_RDWR)
            for fd in (0, 1, 2):
                posix.dup2(null, fd)
            posix.write(write, b"=" + work().encode("utf-8", "surrogatepass"))
        finally:
            posix._exit(0)
    posix.close(write)  # so that a child that dies is not waited for
    poll = select.poll()
    poll.register(read, select.POLLIN)
    answer = posix.read(read, 65536) if poll.poll(seconds * 1000) else b""
    posix.close(read)
    if not answer:
        posix.kill(child, signal.SIGKILL)
    return answer[1:].decode("utf-8", "surrogatepass") if answer else None
