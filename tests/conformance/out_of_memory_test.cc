// Queues for which there is no memory: ENOMEM, nothing is lost, and smaller ones can be made.
#include <sys/resource.h>

#include <fstream>

#include "base/sanitizer.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

// Lets this process have hardly more address space than it has.
class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() {
#if defined(VERBATIM_ADDRESS_SANITIZER) || defined(VERBATIM_THREAD_SANITIZER)
    skip_ = true;  // they have terabytes of it themselves
#else
    getrlimit(RLIMIT_AS, &before_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit tight{pages * static_cast<size_t>(getpagesize()) + kRoom, before_.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
#endif
  }
  ~OutOfMemory() override {
    if (!skip_) setrlimit(RLIMIT_AS, &before_);
  }
  void SetUp() override {
    if (skip_) GTEST_SKIP() << "address space cannot be limited under a sanitizer";
    ASSERT_EQ(ibv_query_device(side_.context(), &limits_), 0);
  }

  template <class Attempt>
  void expect_no_memory(Attempt&& attempt) {
    for (int i = 0; i < kAttempts; ++i) {
      errno = 0;
      ASSERT_FALSE(attempt());
      ASSERT_EQ(errno, ENOMEM) << strerror(errno);
    }
  }

  static constexpr size_t kRoom = 4 << 20;
  static constexpr int kAttempts = 20;
  const Side side_;
  ibv_device_attr limits_{};
  bool skip_ = false;

 private:
  rlimit before_{};
};

TEST_F(OutOfMemory, ACompletionQueueIsNotMadeOrResized) {
  expect_no_memory(
      [&] { return CqHandle(ibv_create_cq(side_.context(), limits_.max_cqe, nullptr, nullptr, 0)) != nullptr; });
  const CqHandle small(ibv_create_cq(side_.context(), 10, nullptr, nullptr, 0));
  ASSERT_TRUE(small);
  EXPECT_EQ(ibv_resize_cq(small.get(), limits_.max_cqe), ENOMEM);
  EXPECT_EQ(small->cqe, 10);
}

TEST_F(OutOfMemory, AQueuePairIsNotMade) {
  const auto most = static_cast<uint32_t>(limits_.max_qp_wr);
  const auto sges = static_cast<uint32_t>(limits_.max_sge);
  ibv_qp_init_attr attributes{
      .send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = {most, most, sges, sges, 0}, .qp_type = IBV_QPT_RC};
  expect_no_memory([&] { return QpHandle(ibv_create_qp(side_.pd(), &attributes)) != nullptr; });
  EXPECT_TRUE(side_.create_queue_pair());
}

TEST_F(OutOfMemory, ASharedReceiveQueueIsNotMade) {
  ibv_srq_init_attr attributes{.attr = {.max_wr = static_cast<uint32_t>(limits_.max_srq_wr),
                                        .max_sge = static_cast<uint32_t>(limits_.max_srq_sge)}};
  expect_no_memory([&] { return SrqHandle(ibv_create_srq(side_.pd(), &attributes)) != nullptr; });
  EXPECT_TRUE(side_.create_shared_queue());
}

}  // namespace
}  // namespace verbatim::conformance
