"""System calls that Python has not, or not yet: prctl(2), setns(2). By what `ctypes` is made of, a tenth of its import.

Imported only where one of them is needed.
"""

import _ctypes
import posix

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_SIGKILL = 9


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
_setns = _Function(_ctypes.dlsym(_program, "setns"))
_prctl = _Function(_ctypes.dlsym(_program, "prctl"))


def setns(fd: int, nstype: int) -> None:
    """Move this thread into the namespace behind `fd`. Raises OSError."""
    if _setns(_Int(fd), _Int(nstype)) != 0:
        number = _ctypes.get_errno()
        raise OSError(number, posix.strerror(number))


def die_with_parent(parent: int) -> None:
    """Have this process killed as soon as process `parent`, which made it, has ended."""
    _prctl(_Int(_PR_SET_PDEATHSIG), _Long(_SIGKILL))
    if posix.getppid() != parent:  # too late
        posix.kill(posix.getpid(), _SIGKILL)


def leave_no_core() -> None:
    """Die of whatever it may be without a core file."""
    _prctl(_Int(_PR_SET_DUMPABLE), _Long(0))
