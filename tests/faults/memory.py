"""The peak memory of a command. Run as a program: it has little itself, and a process starts with its parent's peak.

memory.py COMMAND...    runs it on this stdin; prints its exit status and peak memory in bytes on stderr's last line
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    pid = os.fork()
    if not pid:
        os.execv(sys.argv[1], sys.argv[1:])
    _, status, usage = os.wait4(pid, 0)
    os.write(2, f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss * 1024}\n".encode())
