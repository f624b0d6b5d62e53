"""Rotation, under the lock: cni.log -> cni.log.1 -> cni.log.2 ..., as logrotate numbers them."""

import posix


def rotate(path: str, backups: int) -> str:
    """Move `path` out of the way and keep at most `backups` old files; return what was not possible, or "".

    Only names are moved, never contents, and nothing is opened: a link in the place of a backup is itself replaced.
    """
    try:
        if backups:
            last = 1
            while last < backups and _exists(f"{path}.{last}"):
                last += 1
            for number in range(last, 1, -1):
                posix.rename(f"{path}.{number - 1}", f"{path}.{number}")
            posix.rename(path, f"{path}.1")
        else:
            posix.unlink(path)
    except FileNotFoundError:
        return ""  # somebody removed it meanwhile
    except OSError as error:
        return f"{path} could not be rotated: {error.strerror}"
    surplus = backups + 1
    try:
        while _exists(f"{path}.{surplus}"):  # kept by an earlier, larger setting
            posix.unlink(f"{path}.{surplus}")
            surplus += 1
    except OSError as error:
        return f"{path}.{surplus} could not be removed: {error.strerror}"
    return ""


def _exists(path: str) -> bool:
    try:
        posix.lstat(path)
    except FileNotFoundError:
        return False
    return True
