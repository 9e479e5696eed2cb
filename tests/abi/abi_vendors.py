#!/usr/bin/env python3
"""The libraries of other vendors' adapters, asked about our device, answer that it is none of theirs.

usage: abi_vendors.py LIBRARY

Each looks behind our `ibv_device` for the driver that made it, at offset 664
(docs/ABI.md): perftest, UCX and libfabric call them before anything else. The
functions are called with a device, a context, a domain and an address handle
of ours, and with argument structs of zeros, which none of them gets to see.

VERBATIM_TEST_SKIP_PACKAGES=ibverbs-providers skips it where they are not
installed.
"""

import ctypes
import errno
import os
import pathlib
import sys

SKIPPED = 77
PACKAGE = "ibverbs-providers"
OWN_VIEW = range(664, 712)  # what of a device only its driver sees
MLX5, EFA = "libmlx5.so.1", "libefa.so.1"
UNTOUCHED = errno.EXDEV  # any value that no refusal sets

# library, function, what it answers, and its arguments: a name is an object of ours, a number itself, "zeros" a struct.
CALLS = [
    (MLX5, "mlx5dv_is_supported", False, ["device"]),
    (MLX5, "mlx5dv_open_device", None, ["device", "zeros"]),
    (MLX5, "mlx5dv_query_device", errno.EOPNOTSUPP, ["context", "zeros"]),
    (MLX5, "_mlx5dv_query_port", errno.EOPNOTSUPP, ["context", 1, "zeros", 64]),
    (MLX5, "mlx5dv_create_qp", None, ["context", "zeros", "zeros"]),
    (MLX5, "mlx5dv_create_cq", None, ["context", "zeros", "zeros"]),
    (MLX5, "mlx5dv_create_wq", None, ["context", "zeros", "zeros"]),
    (MLX5, "mlx5dv_set_context_attr", errno.EOPNOTSUPP, ["context", 1, "zeros"]),
    (MLX5, "mlx5dv_get_clock_info", errno.EOPNOTSUPP, ["context", "zeros"]),
    (MLX5, "mlx5dv_devx_alloc_uar", None, ["context", 0]),
    (MLX5, "mlx5dv_devx_general_cmd", errno.EOPNOTSUPP, ["context", "zeros", 16, "zeros", 16]),
    (MLX5, "mlx5dv_reserved_qpn_alloc", errno.EOPNOTSUPP, ["context", "zeros"]),
    (MLX5, "mlx5dv_crypto_login", errno.EOPNOTSUPP, ["context", "zeros"]),
    (MLX5, "mlx5dv_create_mkey", None, ["mkey_init"]),
    (EFA, "efadv_query_device", errno.EOPNOTSUPP, ["context", "zeros", 64]),
    (EFA, "efadv_query_ah", errno.EOPNOTSUPP, ["ah", "zeros", 16]),
    (EFA, "efadv_create_qp_ex", None, ["context", "zeros", "zeros", 24]),
    (EFA, "efadv_create_driver_qp", None, ["pd", "zeros", 0]),
    (EFA, "efadv_create_cq", None, ["context", "zeros", "zeros", 16]),
]


def main(library):
    verbs = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL, use_errno=True)
    objects = Objects(verbs)
    problems = []
    if any(ctypes.string_at(objects.device + OWN_VIEW.start, len(OWN_VIEW))):
        problems.append("ibv_device is not zero where a driver would stand")
    for name in (MLX5, EFA):
        # Ours is loaded under the soname that they need.
        try:
            vendor = ctypes.CDLL(name, use_errno=True)
        except OSError as error:
            if PACKAGE in os.environ.get("VERBATIM_TEST_SKIP_PACKAGES", "").split(","):
                sys.exit(SKIPPED)
            sys.exit(f"{error}: install {PACKAGE}")
        problems += [p for calls in CALLS if calls[0] == name for p in wrong_answer(vendor, objects, *calls[1:])]
    loaded = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    others = {path for path in loaded if "libibverbs.so" in path and path != str(pathlib.Path(library).resolve())}
    problems += [f"{path} is loaded too: this test shows nothing" for path in others]
    for problem in problems:
        print(problem)
    print(f"{len(CALLS)} calls, {len(problems)} problems")
    sys.exit(1 if problems else 0)


class Objects:
    """A device of ours and what is made of it, by the name that CALLS uses."""

    def __init__(self, verbs):
        pointer = ctypes.c_void_p
        for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_ah"):
            getattr(verbs, name).restype = pointer
        devices = ctypes.cast(pointer(verbs.ibv_get_device_list(None)), ctypes.POINTER(pointer))
        self.device = devices[0]
        self.context = verbs.ibv_open_device(pointer(self.device))
        assert self.context, errno.errorcode[ctypes.get_errno()]
        self.pd = verbs.ibv_alloc_pd(pointer(self.context))
        self.ah = self.make_address_handle(verbs)
        self.zeros = ctypes.create_string_buffer(4096)
        # struct mlx5dv_mkey_init_attr begins with its domain.
        self.mkey_init = (ctypes.c_uint64 * 8)(self.pd)

    def make_address_handle(self, verbs):
        """struct ibv_ah_attr: the GID, is_global at 29, port_num at 30; the rest is zeros."""
        gid = ctypes.create_string_buffer(16)
        assert verbs.ibv_query_gid(ctypes.c_void_p(self.context), 1, 0, gid) == 0
        attributes = ctypes.create_string_buffer(gid.raw + bytes(13) + bytes([1, 1]), 32)
        handle = verbs.ibv_create_ah(ctypes.c_void_p(self.pd), attributes)
        assert handle, errno.errorcode[ctypes.get_errno()]
        return handle

    def argument(self, what):
        if isinstance(what, int):
            return ctypes.c_size_t(what)
        value = getattr(self, what)
        return ctypes.c_void_p(value) if isinstance(value, int) else value


def wrong_answer(vendor, objects, name, expected, arguments):
    """NULL comes with errno EOPNOTSUPP; what returns an errno leaves errno alone."""
    function = getattr(vendor, name)
    function.restype = {bool: ctypes.c_bool, int: ctypes.c_int, type(None): ctypes.c_void_p}[type(expected)]
    ctypes.set_errno(UNTOUCHED)
    answer = function(*[objects.argument(what) for what in arguments])
    seen = errno.errorcode.get(ctypes.get_errno(), "0")
    if answer != expected or (expected is None and ctypes.get_errno() != errno.EOPNOTSUPP):
        yield f"{name}: {answer} (errno {seen}), not {expected}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
