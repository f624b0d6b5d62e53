"""Real packets: a neighbour outside the host, a server in a namespace, a ping, a TCP connection."""

from __future__ import annotations

from tests.runtimes.host import Host
from tests.runtimes.waiting import until

UPLINK = "uplink"
"""The host's link to the outside world, a namespace called `outside`, which has no route to what is behind it."""
HOST_ADDRESS = "192.0.2.1"
OUTSIDE_ADDRESS = "192.0.2.2"

# Tells each client what the connection looked like from here: the address it came to and the address it came from.
_SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET)
print("listening", flush=True)
while True:
    connection, client = listener.accept()
    connection.sendall(f"{connection.getsockname()[0]} here, hello {client[0]}".encode())
    connection.close()
"""
_CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
print(connection.makefile().read())
"""
_PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]


def add_outside(host: Host) -> None:
    """Join the namespace `outside` to the host: 192.0.2.2 there, 192.0.2.1 here."""
    host.run(["ip", "netns", "add", "outside"])
    host.run(["ip", "link", "add", UPLINK, "type", "veth", "peer", "name", "eth0", "netns", "outside"])
    for prefix, link, address in ((["ip"], UPLINK, HOST_ADDRESS), (["ip", "-n", "outside"], "eth0", OUTSIDE_ADDRESS)):
        host.run([*prefix, "address", "add", f"{address}/24", "dev", link])
        host.run([*prefix, "link", "set", link, "up"])


def ping(host: Host, netns: str, address: str) -> bool:
    """Whether `address` answers one ping out of the namespace within two seconds."""
    return host.run(["ip", "netns", "exec", netns, "ping", "-c1", "-W2", address], check=False).returncode == 0


def serve(host: Host, netns: str, port: int) -> None:
    """A TCP server in the namespace, on all its addresses, until the host ends."""
    log = f"/tmp/server-{netns}-{port}.log"
    host.popen(["ip", "netns", "exec", netns, *_PYTHON, _SERVER, "0.0.0.0", str(port)], log=log)
    until(lambda: host.read(log), f"the server in {netns} listens")


def connect(host: Host, netns: str, address: str, port: int) -> str:
    """What a server at `address`:`port` says to a client in the namespace, or the client's last word of despair."""
    done = host.run(["ip", "netns", "exec", netns, *_PYTHON, _CLIENT, address, str(port)], check=False)
    return (done.stdout or done.stderr.splitlines()[-1]).strip()
