"""The way it was done before: everything imported, the answer parsed and printed anew. Here for comparison only."""

import fcntl
import hashlib  # noqa: F401
import json
import os
import random  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401

import netifaces  # noqa: F401

stdin = sys.stdin.read()
with open(os.environ["BENCH_LOCK"], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(os.environ["BENCH_LOG"], "a") as log:
        verb, container = os.environ["CNI_COMMAND"], os.environ["CNI_CONTAINERID"]
        log.write(f"CNI_COMMAND={verb},CNI_CONTAINERID={container},input={stdin}\n")
print(json.dumps(json.loads(stdin)["prevResult"]))
