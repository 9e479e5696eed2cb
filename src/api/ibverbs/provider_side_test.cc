#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <climits>
#include <set>
#include <string>

// Exported, but in no header of this release.
extern "C" const char* ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

namespace {

// Reaches the function as a C program does, which may pass any number.
std::string name_of(int opcode) { return reinterpret_cast<const char* (*)(int)>(ibv_wr_opcode_str)(opcode); }

TEST(WrOpcodeStr, EveryOpcodeHasANameOfItsOwn) {
  // 14 and 15 are FLUSH and ATOMIC_WRITE.
  std::set<std::string> names{name_of(14), name_of(15)};
  for (int opcode = IBV_WR_RDMA_WRITE; opcode <= IBV_WR_DRIVER1; ++opcode) names.insert(name_of(opcode));
  EXPECT_EQ(names.size(), IBV_WR_DRIVER1 + 3u);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(WrOpcodeStr, ANumberThatIsNoOpcodeIsUnknown) {
  for (const int opcode : {-1, 12, 13, 16, INT_MAX, INT_MIN}) EXPECT_EQ(name_of(opcode), "unknown") << opcode;
}

}  // namespace
