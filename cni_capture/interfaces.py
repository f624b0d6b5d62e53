"""The interfaces snapshot: names on the host; names, MACs and addresses in the container's namespace.

Imported only when asked for.
"""

import _thread
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
    """What is in the namespace, seen by a thread of its own: wherever that ends, the process stays where it is."""
    seen: list[str] = []
    done = _thread.allocate_lock()
    done.acquire()

    def look() -> None:
        seen.append(_seen_from(netns))
        done.release()

    _thread.start_new_thread(look, ())
    done.acquire()
    return seen[0]


def _seen_from(netns: str) -> str:
    """Enter the namespace with this thread, and see what is there."""
    fd = -1
    try:
        fd = posix.open(netns, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
        setns(fd, _CLONE_NEWNET)
        found = ",".join([_interface(name) for name in netifaces.interfaces()])
    except Exception as error:  # raised in a thread, it would reach nobody
        reason = getattr(error, "strerror", None) or str(error)
        return f'"netnsError":{quote(f"{netns}: {reason}")}'
    finally:
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
