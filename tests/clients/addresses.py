"""The addresses of this host by which its programs find each other."""
import json
import subprocess

LOOPBACK, LOOPBACK_IPV6 = "127.0.0.1", "::1"


def own_addresses():
    """One of each family that is not the loopback interface's, as far as there are any."""
    interfaces = json.loads(subprocess.run(["ip", "-j", "addr", "show", "up", "scope", "global"], text=True, check=True,
                                           capture_output=True, timeout=30).stdout)
    found = {}
    for interface in interfaces:
        # Those of another scope are listed without anything.
        for address in filter(None, interface.get("addr_info", [])):
            found.setdefault(address["family"], address["local"])
    return sorted(found.values())


def all_addresses():
    return [LOOPBACK, LOOPBACK_IPV6, *own_addresses()]
