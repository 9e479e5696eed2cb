#!/usr/bin/env python3
"""Holds every #include of src/ and tools/ to the layer table of docs/ARCHITECTURE.md.

usage: check_layers.py [ROOT]      ROOT: a source tree (default: the one this script is in)

Prints one line per violation, FILE:LINE: what is wrong, and exits 1 if there is any. Tests (*_test.cc) may include any
layer, since a test may set its stage with whatever it likes; where public verbs headers may stand binds them too.
"""
import os
import re
import sys

# What each layer may include besides itself. "agent/client" is the one header of agent (with what stands in files of
# that name); a bare layer is all of it.
LAYERS = {
    "base": [],
    "wire": ["base"],
    "proto": ["base", "wire"],
    "cm": ["base", "wire", "proto"],
    "host": ["base"],
    "agent": ["base", "wire", "cm", "host", "obs"],
    "link": ["base", "wire"],
    "persist": ["base"],
    "obs": ["base"],
    "local": ["base", "proto", "agent/client"],
    "model": ["base", "proto", "local"],
    "engine": ["base", "wire", "proto", "link", "local", "model", "agent/client"],
    "runtime": ["base", "wire", "proto", "cm", "link", "persist", "host", "obs", "local", "model", "engine",
                "agent/client", "agent/slot_claim", "agent/name_claim", "agent/installed_agent"],
    "api/ibverbs": ["base", "proto", "host", "local", "model", "engine", "runtime"],
    "api/rdmacm": ["base", "wire", "proto", "host", "local", "model", "engine", "runtime", "cm", "agent/client",
                   "agent/cm_client", "agent/installed_agent"],
    # These stand on the public headers of the two above, as on any other verbs library.
    "api/rpma": [],
    "api/rsocket": [],
    "tools": ["base"],
}

# Who may name the public C ABI. `verbatim devices` is a client of it like any other program.
PUBLIC_ABI = re.compile(r"(infiniband|rdma)/")
SEES_PUBLIC_ABI = {"api/ibverbs", "api/rdmacm", "api/rpma", "api/rsocket", "tools"}

SOCKET_HEADERS = {
    "arpa/inet.h", "linux/udp.h", "netdb.h", "poll.h", "sys/epoll.h", "sys/poll.h", "sys/select.h", "sys/socket.h",
    "sys/un.h",
}
SOCKET_FOLDERS = ("netinet/", "linux/if_", "net/")
THREAD_HEADERS = {
    "barrier", "condition_variable", "future", "latch", "mutex", "pthread.h", "semaphore", "shared_mutex", "stop_token",
    "thread",
}
CLOCK_HEADERS = {"chrono", "ctime", "sys/time.h", "sys/timerfd.h", "time.h"}

# System headers a layer stays away from: without them it runs alone, under virtual time.
SANS_IO = SOCKET_HEADERS | THREAD_HEADERS | CLOCK_HEADERS
FORBIDDEN_HEADERS = {
    "wire": SANS_IO,
    "proto": SANS_IO,
    "cm": SANS_IO,
    # It may lock.
    "model": SOCKET_HEADERS | {"thread", "future"},
}
NO_ENVIRONMENT = {"wire", "proto", "cm", "model"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
SOURCES = (".h", ".cc", ".c", ".S")


def layer_of(path):
    """The layer of a path relative to src/ (or of tools/...), or None."""
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in LAYERS:
            return name
    return None


def is_socket_header(header):
    return header in SOCKET_HEADERS or header.startswith(SOCKET_FOLDERS)


def may_include(layer, target):
    """Whether a file of `layer` may include `target`, a path relative to src/."""
    other = layer_of(target)
    if other == layer:
        return True
    stem = os.path.splitext(target)[0]
    return any(other == allowed or stem == allowed for allowed in LAYERS[layer])


def check_include(layer, folder, is_test, kind, header):
    """The sentence that says what is wrong with one #include, or None. `folder`: where the file stands, in src/."""
    if PUBLIC_ABI.match(header):
        return None if layer in SEES_PUBLIC_ABI else f"{layer} may not include <{header}>: only src/api may"
    if is_test:
        return None
    if kind == "<":
        forbidden = FORBIDDEN_HEADERS.get(layer, set())
        wrong = header in forbidden or (forbidden & SOCKET_HEADERS and is_socket_header(header))
        return f"{layer} may not include <{header}>" if wrong else None
    if header.startswith("../") or "/../" in header:
        return f'"{header}" climbs out of its folder: name it from src/'
    if "/" not in header:
        header = f"{folder}/{header}"
    if layer_of(header) is None:
        return f'"{header}" is in no layer of the table'
    return None if may_include(layer, header) else f'{layer} may not include "{header}"'


def check_file(full_path, path):
    layer = layer_of(path)
    is_test = os.path.splitext(path)[0].endswith("_test")
    if layer is None:
        return [(1, "stands in no layer of the table")]
    found = []
    with open(full_path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            problem = None
            if include:
                problem = check_include(layer, os.path.dirname(path), is_test, *include.groups())
            elif layer in NO_ENVIRONMENT and not is_test and ENVIRONMENT.search(line.split("//")[0]):
                problem = f"{layer} may not read the environment: runtime does, and passes values in"
            if problem:
                found.append((number, problem))
    return found


def source_files(root):
    """(full path, path from src/ or from the root for tools/, path from the root) of every source."""
    for top, base in (("src", os.path.join(root, "src")), ("tools", root)):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    full = os.path.join(folder, name)
                    yield full, os.path.relpath(full, base), os.path.relpath(full, root)


def check_tree(root):
    return [f"{shown}:{number}: {problem}"
            for full, path, shown in source_files(root)
            for number, problem in check_file(full, path)]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    files = len(list(source_files(root)))
    if files == 0:
        sys.exit(f"check_layers: no source under {root}")
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    print(f"layers: {files} files, {len(violations)} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
