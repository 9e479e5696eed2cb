#!/usr/bin/env python3
"""A program that closes the library with dlclose(3) while its device is open goes on: our thread still runs, and what
the program has of the library still works.

usage: abi_dlclose.py LIBRARY
"""
import os
import subprocess
import sys

PROGRAM = """
import ctypes, os, sys, _ctypes
library = ctypes.CDLL(sys.argv[1])
for name, result in (("ibv_get_device_list", ctypes.POINTER(ctypes.c_void_p)), ("ibv_open_device", ctypes.c_void_p)):
    getattr(library, name).restype = result
context = library.ibv_open_device(ctypes.c_void_p(library.ibv_get_device_list(None)[0]))
assert context, "no device"
close = library.ibv_close_device
threads = len(os.listdir("/proc/self/task"))
assert threads == 2, threads
_ctypes.dlclose(library._handle)
assert len(os.listdir("/proc/self/task")) == threads
assert close(ctypes.c_void_p(context)) == 0
print("closed")
"""


def main():
    result = subprocess.run([sys.executable, "-c", PROGRAM, sys.argv[1]], capture_output=True, text=True, check=False,
                            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    if result.returncode != 0 or result.stdout != "closed\n":
        print(f"status {result.returncode}\n{result.stdout}{result.stderr}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
