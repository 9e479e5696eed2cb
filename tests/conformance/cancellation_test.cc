// A thread that is being cancelled ends before a call of ours or after it, never in the middle of what others would
// wait for: opening the device, registering memory, meeting a peer of another process.
#include <arpa/inet.h>
#include <sys/mman.h>

#include "conformance/support/first_meeting.h"
#include "conformance/support/fresh_process.h"
#include "support/cancelled_thread.h"

namespace verbatim::conformance {
namespace {

using testing_support::is_not_cancelled_in;

TEST(Cancellation, DoesNotEndTheOpeningOfADevice) {
  in_fresh_process([] {
    ibv_device** const devices = ibv_get_device_list(nullptr);
    ContextHandle context;
    EXPECT_TRUE(is_not_cancelled_in([&] { context.reset(ibv_open_device(devices[0])); }));
    EXPECT_TRUE(context);
    ibv_free_device_list(devices);
  });
}

TEST(Cancellation, DoesNotEndTheRegistrationOfMemory) {
  const Side side;
  for (const MemoryKind kind : {MemoryKind::anonymous, MemoryKind::file}) {
    const Memory memory(kind, 4096);
    MrHandle region;
    EXPECT_TRUE(is_not_cancelled_in([&] { region = side.register_memory(memory); }));
    EXPECT_TRUE(is_not_cancelled_in([&] {
      EXPECT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 8, 0), 0);
    }));
    region.reset();
    // What is behind memory that cannot be written is looked up.
    ASSERT_EQ(mprotect(memory.data(), memory.size(), PROT_READ), 0);
    EXPECT_TRUE(is_not_cancelled_in([&] {
      EXPECT_EQ(ibv_reg_mr(side.pd(), memory.data(), 8, IBV_ACCESS_LOCAL_WRITE), nullptr);
      EXPECT_EQ(errno, EFAULT);
    }));
  }
}

// Each of these closes a descriptor.
TEST(Cancellation, DoesNotEndTheEndOfWhatWasMade) {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ContextHandle context(ibv_open_device(devices[0]));
  ibv_free_device_list(devices);
  ASSERT_TRUE(context);
  PdHandle pd(ibv_alloc_pd(context.get()));
  const Memory memory(MemoryKind::file, 4096);
  MrHandle region(ibv_reg_mr(pd.get(), memory.data(), memory.size(), 0));
  ibv_comp_channel* const channel = ibv_create_comp_channel(context.get());
  ASSERT_TRUE(region && channel);
  CqHandle cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
  ibv_qp_init_attr init{.send_cq = cq.get(), .recv_cq = cq.get(), .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_RC;
  QpHandle qp(ibv_create_qp(pd.get(), &init));
  ASSERT_TRUE(qp);
  EXPECT_TRUE(is_not_cancelled_in([&] { qp.reset(); }));
  EXPECT_TRUE(is_not_cancelled_in([&] { cq.reset(); }));
  EXPECT_TRUE(is_not_cancelled_in([&] { region.reset(); }));
  EXPECT_TRUE(is_not_cancelled_in([&] { EXPECT_EQ(ibv_destroy_comp_channel(channel), 0); }));
  EXPECT_TRUE(is_not_cancelled_in([&] { pd.reset(); }));
  EXPECT_TRUE(is_not_cancelled_in([&] { context.reset(); }));
}

// The first of them also starts the agent, or finds it.
TEST(Cancellation, DoesNotEndTheMeetingOfAPeer) {
  for (const Setting setting : {Setting::other_process_anonymous, Setting::other_process_file}) {
    const FirstMeeting meeting(setting);
    ibv_qp* const qp = meeting.qp.get();
    ASSERT_EQ(to_init(qp), 0);
    EXPECT_TRUE(is_not_cancelled_in([&] { EXPECT_EQ(to_rtr(qp, meeting.far), 0); }));
    ASSERT_EQ(to_rts(qp), 0);
    ASSERT_EQ(meeting.peer->connect(0, meeting.side.address_of(qp)), 0);
    meeting.expect_a_write_to_arrive();
  }
}

// A GID that the device does not know yet is asked for, with a lock held.
TEST(Cancellation, DoesNotEndTheSearchForAGid) {
  const Side side;
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(to_init(qp.get()), 0);
  Address nowhere{.qpn = 1};
  ASSERT_EQ(inet_pton(AF_INET6, "2001:db8::1", &nowhere.gid), 1);
  EXPECT_TRUE(is_not_cancelled_in([&] { EXPECT_EQ(to_rtr(qp.get(), nowhere), EHOSTUNREACH); }));
  EXPECT_EQ(to_rtr(qp.get(), nowhere), EHOSTUNREACH);
}

}  // namespace
}  // namespace verbatim::conformance
