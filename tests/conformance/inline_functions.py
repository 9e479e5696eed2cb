#!/usr/bin/env python3
"""Every inline function of a header of the distribution is called by some conformance test: they look into our objects
without passing through a symbol, so that no table of symbols covers them.

usage: inline_functions.py HEADER FOLDER
"""
import pathlib
import re
import sys

DEFINITION = re.compile(r"static inline\b[^;{]*?\b(\w+)\s*\([^;{]*?\)\s*\{", re.DOTALL)

# Called under another name (a macro of the header), or on an object that only a refused call could make.
ELSEWHERE = {
    "___ibv_query_port": "ibv_query_port",
    "__ibv_get_device_list": "only defined for static linking: ibv_get_device_list",
    "__ibv_reg_mr": "ibv_reg_mr",
    "__ibv_reg_mr_iova": "ibv_reg_mr_iova",
    "ibv_memcpy_from_dm": "of device memory",
    "ibv_memcpy_to_dm": "of device memory",
    "ibv_post_wq_recv": "of a work queue",
    "ibv_wr_send_tso": "of a queue pair with TSO",
    "ibv_wc_read_cvlan": "of a CQ with IBV_WC_EX_WITH_CVLAN",
    "ibv_wc_read_flow_tag": "of a CQ with IBV_WC_EX_WITH_FLOW_TAG",
    "ibv_wc_read_tm_info": "of a CQ with IBV_WC_EX_WITH_TM_INFO",
    "rdma_seterrno": "by each other one",
    "ibv_wc_read_invalidated_rkey": "the slot of ibv_wc_read_imm_data",
}


def main(header, folder):
    functions = set(DEFINITION.findall(pathlib.Path(header).read_text(encoding="utf-8")))
    sources = "".join(path.read_text(encoding="utf-8") for pattern in ("*.cc", "*.h")
                      for path in pathlib.Path(folder).rglob(pattern))
    missing = sorted(name for name in functions - ELSEWHERE.keys() if not re.search(rf"\b{name}\(", sources))
    for name in missing:
        print(f"{name}: no conformance test calls it")
    print(f"{len(functions)} inline functions, {len(missing)} of them not called")
    sys.exit(1 if missing or not functions else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
