"""What ibv_devinfo -v prints, as values."""
import ipaddress
import re
from typing import NamedTuple

LOOPBACK_V4 = ipaddress.IPv4Network("127.0.0.0/8")


def fields_in(output):
    """Name → text of the lines "name: value"; of a name that comes twice, the first."""
    fields = {}
    for line in output.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            fields.setdefault(name.strip(), value.strip())
    return fields


def gids_in(output):
    """Index → address of the GID table."""
    rows = re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)", output)
    return {int(index): ipaddress.IPv6Address(address) for index, address in rows}


class Port(NamedTuple):
    mtu: int  # bytes of a packet
    gids: dict  # index → address


def port_in(output):
    return Port(int(fields_in(output)["active_mtu"].split()[0]), gids_in(output))


def kind_of(gid):
    """The kinds that differ in how a peer is reached."""
    if gid.ipv4_mapped:
        return "IPv4 loopback" if gid.ipv4_mapped in LOOPBACK_V4 else "IPv4"
    if gid.is_loopback:
        return "IPv6 loopback"
    return "IPv6 link-local" if gid.is_link_local else "IPv6"


def gid_kinds(gids):
    """Kind → the first index of it."""
    kinds = {}
    for index, gid in sorted(gids.items()):
        kinds.setdefault(kind_of(gid), index)
    return kinds
