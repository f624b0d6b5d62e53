"""A file system that is mounted and then does not answer, for as long as stdin is open. Run as a program.

    dead_mount.py DIRECTORY silent    requests are not even fetched
    dead_mount.py DIRECTORY mute      requests are fetched and never answered: who waits for one cannot be killed

It speaks as much of the kernel's protocol (linux/fuse.h) as it takes to be mounted.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading

_REQUEST = struct.Struct("<IIQQIIII")  # fuse_in_header
_REPLY = struct.Struct("<IiQ")  # fuse_out_header
_INIT = struct.Struct("<IIIIHHII32x")  # fuse_init_out
_BUFFER = 1 << 20
_FUSE_INIT = 26


def mount(directory: str) -> int:
    """The server's end of a new mount, which has said what the kernel asks first."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"dead", directory.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    request = os.read(fd, _BUFFER)
    _, operation, unique, *_ = _REQUEST.unpack_from(request)
    assert operation == _FUSE_INIT
    answer = _INIT.pack(7, 31, 65536, 0, 0, 0, 65536, 1)
    os.write(fd, _REPLY.pack(_REPLY.size + len(answer), 0, unique) + answer)
    return fd


def fetch(fd: int) -> None:
    while True:
        os.read(fd, _BUFFER)


if __name__ == "__main__":
    server = mount(sys.argv[1])
    if sys.argv[2] == "mute":
        threading.Thread(target=fetch, args=(server,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)
