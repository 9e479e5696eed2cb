#!/usr/bin/env python3
"""Plants violations in a tree of its own and sees check_layers.py find each, and nothing else."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check_layers  # noqa: E402


def plant(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)


class CheckLayers(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            plant(root, files)
            return check_layers.check_tree(root)

    def run_script(self, files):
        with tempfile.TemporaryDirectory() as root:
            plant(root, files)
            script = os.path.join(HERE, "check_layers.py")
            return subprocess.run([sys.executable, "-B", script, root], capture_output=True, text=True, check=False)

    def assert_clean(self, files):
        self.assertEqual(self.check(files), [])

    def assert_found(self, path, text, line, words):
        found = self.check({path: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:{line}: "), found)
        self.assertIn(words, found[0])

    def test_a_layer_may_include_what_stands_to_its_left(self):
        self.assert_clean({"src/proto/a.h": '#include <vector>\n\n#include "base/types.h"\n#include "proto/work.h"\n',
                           "src/model/b.cc": '#include "b.h"\n#include "local/adapter.h"\n#include <mutex>\n',
                           "src/api/ibverbs/c.cc": '#include <infiniband/verbs.h>\n#include "model/pd.h"\n'})

    def test_an_include_to_the_right_is_found(self):
        self.assert_found("src/base/a.cc", '#include <array>\n#include "model/pd.h"\n', 2, "model/pd.h")
        self.assert_found("src/obs/a.cc", '#include "proto/work.h"\n', 1, "proto/work.h")
        self.assert_found("src/link/a.cc", '#  include "proto/work.h"\n', 1, "proto/work.h")

    def test_only_api_and_the_tool_see_the_public_headers(self):
        for header in ("infiniband/verbs.h", "rdma/rdma_cma.h"):
            self.assert_found("src/model/a.h", f"#include <{header}>\n", 1, header)
            self.assert_found("src/model/a_test.cc", f"#include <{header}>\n", 1, header)
            self.assert_clean({"tools/verbatim/a.cc": f"#include <{header}>\n"})

    def test_rpma_and_rsocket_see_nothing_of_ours(self):
        self.assert_found("src/api/rpma/a.cc", '#include "api/ibverbs/objects.h"\n', 1, "api/ibverbs/objects.h")
        self.assert_found("src/api/rsocket/a.cc", '#include "base/types.h"\n', 1, "base/types.h")
        self.assert_clean({"src/api/rpma/a.cc": '#include <rdma/rdma_cma.h>\n#include "api/rpma/peer.h"\n'})

    def test_of_the_agent_others_see_only_the_client(self):
        for layer in ("local", "engine", "runtime"):
            self.assert_clean({f"src/{layer}/a.cc": '#include "agent/client.h"\n'})
            self.assert_found(f"src/{layer}/a.cc", '#include "agent/protocol.h"\n', 1, "agent/protocol.h")
        self.assert_found("src/model/a.cc", '#include "agent/client.h"\n', 1, "agent/client.h")
        self.assert_clean({"src/agent/a.cc": '#include "agent/protocol.h"\n'})

    def test_protocol_layers_have_no_threads_clocks_sockets_or_environment(self):
        for layer in ("wire", "proto", "cm"):
            for header in ("thread", "mutex", "chrono", "sys/socket.h", "netinet/in.h"):
                self.assert_found(f"src/{layer}/a.cc", f"#include <{header}>\n", 1, header)
            self.assert_found(f"src/{layer}/a.cc", 'int x;\nauto y = getenv("HOME");\n', 2, "environment")
        self.assert_found("src/model/a.cc", "#include <thread>\n", 1, "thread")

    def test_tests_may_include_any_layer(self):
        self.assert_clean({"src/proto/a_test.cc": '#include <thread>\n#include "engine/engine.h"\n'})

    def test_the_tool_sees_base_only(self):
        self.assert_clean({"tools/verbatim/a.cc": '#include "a.h"\n#include "base/reason.h"\n'})
        self.assert_found("tools/verbatim/a.cc", '#include "runtime/configuration.h"\n', 1, "runtime/configuration.h")

    def test_a_folder_outside_the_table_is_found(self):
        self.assert_found("src/misc/a.cc", "int x;\n", 1, "no layer")
        self.assert_found("src/model/a.cc", '#include "misc/a.h"\n', 1, "no layer")

    def test_climbing_paths_are_found(self):
        self.assert_found("src/model/a.cc", '#include "../base/types.h"\n', 1, "climbs")

    def test_the_exit_status_tells(self):
        self.assertEqual(self.run_script({"src/base/a.cc": "#include <array>\n"}).returncode, 0)
        bad = self.run_script({"src/base/a.cc": '#include "model/pd.h"\n'})
        self.assertEqual(bad.returncode, 1)
        self.assertIn("src/base/a.cc:1: ", bad.stdout)

    def test_an_empty_tree_is_no_success(self):
        self.assertEqual(self.run_script({}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
