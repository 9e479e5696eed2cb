#include "base/path_mtu.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(PathMtu, IsTheLargestThatFitsBesideTheHeaders) {
  struct Row {
    uint32_t interface_mtu;
    uint32_t path_mtu;
  };
  for (const Row& row :
       {Row{0, 256}, Row{68, 256}, Row{576, 256}, Row{595, 256}, Row{596, 512}, Row{1107, 512}, Row{1108, 1024},
        Row{1280, 1024}, Row{1400, 1024}, Row{1500, 1024}, Row{2131, 1024}, Row{2132, 2048}, Row{4179, 2048},
        Row{4180, 4096}, Row{9000, 4096}, Row{65536, 4096}, Row{UINT32_MAX, 4096}}) {
    EXPECT_EQ(bytes_of(largest_path_mtu(row.interface_mtu)), row.path_mtu) << row.interface_mtu;
  }
}

}  // namespace
}  // namespace verbatim
