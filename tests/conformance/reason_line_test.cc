// VERBATIM_LOG=warn: one line for each request that fails, with its queue pair, its number, the check that refused it
// and the values that disagreed; vendor_err is that check's number (verbatim(7)).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class ReasonLine : public testing::Test {
 protected:
  // Before the library looks at its environment, which it does once: each of these tests needs a process of its own.
  ReasonLine() : file_(testing::TempDir() + "reason_line." + std::to_string(getpid())) {
    setenv("VERBATIM_LOG", ("warn:" + file_).c_str(), 1);
  }
  ~ReasonLine() override { unlink(file_.c_str()); }

  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) result.push_back(line);
    return result;
  }
  std::string only_line() const {
    const std::vector<std::string> all = lines();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all[0];
  }

  const std::string file_;
};

TEST_F(ReasonLine, NamesTheRequestTheCheckAndTheValues) {
  const Side side;
  const Memory memory(MemoryKind::anonymous, 4096);
  const MrHandle region = side.register_memory(memory);
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(connect(qp.get(), side.address_of(qp.get())), 0);
  EXPECT_EQ(lines(), std::vector<std::string>{}) << "nothing has failed yet";
  EXPECT_EQ(post(qp.get(), {{.id = 0x77,
                             .sges = {{memory.address(), 64, region->lkey}},
                             .remote_address = memory.address(4096 - 52),
                             .rkey = region->rkey}}),
            kAllPosted);
  const std::optional<ibv_wc> completion = side.poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(completion->vendor_err, 0x303u);
  char qp_text[16], rkey_text[16];
  std::snprintf(qp_text, sizeof qp_text, "QP 0x%06x", qp->qp_num);
  std::snprintf(rkey_text, sizeof rkey_text, "rkey 0x%x", region->rkey);
  const std::vector<std::string> all = lines();
  ASSERT_FALSE(all.empty());
  for (const char* const part : {static_cast<const char*>(qp_text), "WR 0x77", "64 bytes", "REM_ACCESS_ERR",
                                 "remote-range", static_cast<const char*>(rkey_text), "ends 12 bytes later"})
    EXPECT_NE(all[0].find(part), std::string::npos) << part << " is not in: " << all[0];
}

TEST_F(ReasonLine, AWayWithoutAGlobalRouteIsToldToUseOne) {
  const Side side;
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(to_init(qp.get()), 0);
  ibv_qp_attr attributes = rtr_attributes({}, side.address_of(qp.get()));
  attributes.ah_attr.is_global = 0;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, kRtrMask), EINVAL);
  EXPECT_NE(only_line().find("use -g"), std::string::npos);
}

TEST_F(ReasonLine, APeerOfAnotherHostIsNamed) {
  const Side side;
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(to_init(qp.get()), 0);
  Address elsewhere = side.address_of(qp.get());
  elsewhere.gid = {};
  elsewhere.gid.raw[0] = 0x20, elsewhere.gid.raw[1] = 0x01, elsewhere.gid.raw[2] = 0x0d, elsewhere.gid.raw[3] = 0xb8;
  EXPECT_EQ(to_rtr(qp.get(), elsewhere), EHOSTUNREACH);
  const std::string line = only_line();
  EXPECT_NE(line.find("not-this-host"), std::string::npos) << line;
  EXPECT_NE(line.find("2001:db8:"), std::string::npos) << line;
}

TEST_F(ReasonLine, AFullCompletionQueueIsNamed) {
  const Side side;
  const CqHandle small(ibv_create_cq(side.context(), 1, nullptr, nullptr, 0));
  ibv_qp_init_attr init{
      .send_cq = small.get(), .recv_cq = small.get(), .cap = kOrdinaryCapabilities, .qp_type = IBV_QPT_RC};
  const QpHandle qp(ibv_create_qp(side.pd(), &init));
  ASSERT_TRUE(qp);
  ASSERT_EQ(connect(qp.get(), side.address_of(qp.get())), 0);
  std::vector<Request> requests;
  for (int i = 0; i < small->cqe + 1; ++i) requests.push_back({.id = static_cast<uint64_t>(i)});
  EXPECT_EQ(post(qp.get(), requests), kAllPosted);
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  while (state_of(qp.get()) != IBV_QPS_ERR && std::chrono::steady_clock::now() < deadline) continue;
  const std::vector<std::string> all = lines();
  ASSERT_FALSE(all.empty());
  EXPECT_NE(all[0].find("completion-queue-full"), std::string::npos) << all[0];
}

}  // namespace
}  // namespace verbatim::conformance
