"""The interfaces snapshot: names on the host; names, MACs and addresses in the container's namespace.

Imported only when asked for.
"""

import posix

import netifaces

from cni_capture.call import quote
from cni_capture.libc import setns

_CLONE_NEWNET = 0x40000000  # setns(2)


def snapshot(netns: str) -> str:
    """A JSON object: `host`, names; `netns`, a list of {name, mac, addresses as CIDR}, or `netnsError`, why not.

    On the host names only: a node has hundreds of interfaces, and each look at one would read the addresses of all.
    """
    host = ",".join([quote(name) for name in netifaces.interfaces()])
    inside = f",{_inside(netns)}" if netns else ""
    return f'{{"host":[{host}]{inside}}}'


def _inside(netns: str) -> str:
    """Enter the namespace with this thread, see what is there, and go home.

    Where going home is not allowed (a rootless runtime's user namespace), the thread stays: who runs a plugin
    afterwards looks with a thread that is done then.
    """
    home = there = -1
    try:
        home = posix.open("/proc/thread-self/ns/net", posix.O_RDONLY | posix.O_CLOEXEC)
        there = posix.open(netns, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
        setns(there, _CLONE_NEWNET)
        try:
            found = ",".join([_interface(name) for name in netifaces.interfaces()])
        finally:
            try:
                setns(home, _CLONE_NEWNET)
            except OSError:
                pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f'"netnsError":{quote(f"{netns}: {reason}")}'
    finally:
        for fd in (home, there):
            if fd >= 0:
                posix.close(fd)
    return f'"netns":[{found}]'


def _interface(name: str) -> str:
    families = netifaces.ifaddresses(name)
    mac = next((link["addr"] for link in families.get(netifaces.AF_LINK, ())), "")
    cidrs = [_cidr(entry) for family in _INTERNET for entry in families.get(family, ()) if "addr" in entry]
    return f'{{"name":{quote(name)},"mac":{quote(mac)},"addresses":[{",".join(map(quote, cidrs))}]}}'


_INTERNET = (netifaces.AF_INET, netifaces.AF_INET6)


def _cidr(entry: "dict[str, str]") -> str:
    """An address with its prefix length; netifaces gives masks (255.255.255.0, ffff:ffff::/64) and zones (%eth0)."""
    address = entry["addr"].partition("%")[0]
    mask = entry.get("netmask", "")
    if "/" in mask:
        return f"{address}/{mask.rpartition('/')[2]}"
    bits = sum([bin(int(part)).count("1") for part in mask.split(".") if part])
    return f"{address}/{bits}" if mask else address
