// A program that has used up its descriptors: what needs one fails with EMFILE, loses nothing, and works again when
// there are some.
#include <fcntl.h>
#include <unistd.h>

#include <functional>

#include "conformance/support/first_meeting.h"
#include "conformance/support/fresh_process.h"
#include "support/descriptor_hoard.h"

namespace verbatim::conformance {
namespace {

using testing_support::DescriptorHoard;
using testing_support::open_descriptors;

// Each test in a process of its own, whose library is still untouched.
class OutOfDescriptors : public testing::Test {
 protected:
  void SetUp() override {
    if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs a descriptor itself";
  }

  // Calls `attempt`, which returns an errno, with no descriptor, with one, and so on, until it succeeds: until then it
  // is EMFILE. What it has made may stay for the next time; with each failure lost for ever, they would soon be too
  // many.
  static void expect_to_fail_until_there_are_enough(size_t enough, const std::function<int()>& attempt) {
    constexpr int kAttempts = 5;
    const size_t before = open_descriptors();
    int error = 0;
    for (size_t free = 0; free <= enough; ++free) {
      for (int i = 0; i < kAttempts; ++i) {
        const DescriptorHoard hoard(free);
        error = attempt();
        if (error == 0) break;
        ASSERT_EQ(error, EMFILE) << strerror(error) << " with " << free << " descriptors";
      }
      if (error != 0) continue;
      EXPECT_GT(free, 0u) << "it needs none";
      break;
    }
    EXPECT_EQ(error, 0) << "not even with " << enough << " descriptors";
    EXPECT_LE(open_descriptors(), before + enough);
  }
};

void expect_a_device_that_works() {
  const Side side;
  const Memory memory(MemoryKind::anonymous, 8192);
  const MrHandle region = side.register_memory(memory);
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(connect(qp.get(), side.address_of(qp.get())), 0);
  fill(memory.bytes(0, 4096), 1);
  EXPECT_EQ(post(qp.get(), {{.sges = {{memory.address(), 4096, region->lkey}},
                             .remote_address = memory.address(4096),
                             .rkey = region->rkey}}),
            kAllPosted);
  const std::optional<ibv_wc> completion = side.poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
  EXPECT_EQ(first_difference(memory.bytes(4096, 4096), 1), std::nullopt);
}

TEST_F(OutOfDescriptors, ADeviceCannotBeOpened) {
  in_fresh_process([] {
    ContextHandle context;
    expect_to_fail_until_there_are_enough(20, [&] {
      context.reset(open_device());
      return context ? 0 : errno;
    });
    expect_a_device_that_works();
  });
}

TEST_F(OutOfDescriptors, ADeviceIsListedAllTheSame) {
  in_fresh_process([] {
    const DescriptorHoard hoard;
    int count = 0;
    ibv_device** const devices = ibv_get_device_list(&count);
    ASSERT_NE(devices, nullptr);
    EXPECT_EQ(count, 1);
    ibv_free_device_list(devices);
  });
}

TEST_F(OutOfDescriptors, ACompletionChannelCannotBeMade) {
  in_fresh_process([] {
    const Side side;
    expect_to_fail_until_there_are_enough(1, [&] {
      ibv_comp_channel* const channel = ibv_create_comp_channel(side.context());
      if (!channel) return errno;
      EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
      return 0;
    });
  });
}

// It claims the numbers of this process's queue pairs.
TEST_F(OutOfDescriptors, TheFirstQueuePairCannotBeMade) {
  in_fresh_process([] {
    const Side side;
    expect_to_fail_until_there_are_enough(1, [&] {
      ibv_qp_init_attr init{.send_cq = side.cq(), .recv_cq = side.cq(), .cap = kOrdinaryCapabilities};
      init.qp_type = IBV_QPT_RC;
      const QpHandle qp(ibv_create_qp(side.pd(), &init));
      return qp ? 0 : errno;
    });
    const DescriptorHoard hoard;
    EXPECT_TRUE(side.create_queue_pair()) << "of the numbers that it has";
  });
}

TEST_F(OutOfDescriptors, AnXrcDomainOfAFileCannotBeOpened) {
  in_fresh_process([] {
    const Side side;
    const std::string path = testing::TempDir() + "xrc-domain-" + std::to_string(getpid());
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    ibv_xrcd_init_attr init{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file, .oflags = O_CREAT};
    expect_to_fail_until_there_are_enough(1, [&] {
      ibv_xrcd* const domain = ibv_open_xrcd(side.context(), &init);
      if (!domain) return errno;
      EXPECT_EQ(ibv_close_xrcd(domain), 0);
      return 0;
    });
    unlink(path.c_str());
  });
}

// Without one the file behind the memory is not looked for, and peers reach it in another way.
TEST_F(OutOfDescriptors, MemoryIsRegisteredAllTheSame) {
  in_fresh_process([] {
    const Side side;
    for (const MemoryKind kind : {MemoryKind::anonymous, MemoryKind::file}) {
      const Memory memory(kind, 4096);
      const DescriptorHoard hoard;
      EXPECT_TRUE(side.register_memory(memory));
    }
  });
}

// The queue pair stays as it was, so that the program may try again.
TEST_F(OutOfDescriptors, TheFirstPeerOfAnotherProcessCannotBeMet) {
  in_fresh_process([] {
    const FirstMeeting meeting(Setting::other_process_anonymous);
    ibv_qp* const qp = meeting.qp.get();
    ASSERT_EQ(meeting.peer->connect(0, meeting.side.address_of(qp)), 0);
    ASSERT_EQ(to_init(qp), 0);
    expect_to_fail_until_there_are_enough(20, [&] {
      const int error = to_rtr(qp, meeting.far);
      EXPECT_EQ(state_of(qp), error ? IBV_QPS_INIT : IBV_QPS_RTR);
      return error;
    });
    ASSERT_EQ(to_rts(qp), 0);
    meeting.expect_a_write_to_arrive();
  });
}

// Its senders would ask the agent for it.
TEST_F(OutOfDescriptors, AReceiverOfDatagramsCannotShowItself) {
  in_fresh_process([] {
    const Side side;
    const QpHandle qp = side.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_UD);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = kPort;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    expect_to_fail_until_there_are_enough(20, [&] { return to_state(qp.get(), IBV_QPS_RTR); });
  });
}

}  // namespace
}  // namespace verbatim::conformance
