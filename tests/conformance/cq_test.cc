// Completion queues beyond polling: ibv_create_cq_ex(3), ibv_resize_cq(3), ibv_modify_cq(3), overrun.
#include <time.h>

#include <thread>

#include "conformance/support/notifying_pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kTimestamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

uint64_t wall_clock_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class ExtendedCq : public EachNotifyingPair {
 protected:
  // Makes it the requester's.
  void use_extended(ibv_cq_init_attr_ex init) {
    if (init.cqe == 0) init.cqe = kEntries;
    init.cq_context = this;
    init.channel = channel_.get();
    extended_ = ibv_create_cq_ex(near_->context(), &init);
    ASSERT_NE(extended_, nullptr) << strerror(errno);
    use(CqHandle(ibv_cq_ex_to_cq(extended_)));
  }
  int creation_error(ibv_cq_init_attr_ex init) const {
    errno = 0;
    ibv_cq_ex* const cq = ibv_create_cq_ex(near_->context(), &init);
    if (!cq) return errno;
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    return 0;
  }
  int start() const {
    ibv_poll_cq_attr attributes{};
    return ibv_start_poll(extended_, &attributes);
  }
  // One batch to its end.
  std::vector<uint64_t> batch() const {
    std::vector<uint64_t> ids;
    int error = start();
    if (error == ENOENT) return ids;
    for (; error == 0; error = ibv_next_poll(extended_)) ids.push_back(extended_->wr_id);
    EXPECT_EQ(error, ENOENT);
    ibv_end_poll(extended_);
    return ids;
  }

  ibv_cq_ex* extended_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Each, ExtendedCq, direct_settings(), setting_name);

TEST_P(ExtendedCq, BatchesLoseNothing) {
  for (const uint32_t flags : {0u, uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
    use_extended({.wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags});
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(batch(), std::vector<uint64_t>{});
      EXPECT_EQ(batch(), std::vector<uint64_t>{});
      complete(1);
      EXPECT_EQ(batch(), std::vector<uint64_t>{1});
      complete(2), complete(3);
      EXPECT_EQ(batch(), (std::vector<uint64_t>{2, 3}));
    }
  }
}

TEST_P(ExtendedCq, ABatchThatEndsEarlyLeavesTheRest) {
  use_extended({});
  for (uint64_t id = 1; id <= 4; ++id) complete(id);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(extended_->wr_id, 1u);
  ibv_end_poll(extended_);
  EXPECT_EQ(take({}), 2u) << "ibv_poll_cq works on it too";
  EXPECT_EQ(batch(), (std::vector<uint64_t>{3, 4}));
}

TEST_P(ExtendedCq, WithinABatchTheProgramMayPostAndArm) {
  use_extended({});
  complete(1);
  ASSERT_EQ(start(), 0);
  arm();
  complete(2);
  EXPECT_EQ(ibv_next_poll(extended_), 0);
  EXPECT_EQ(extended_->wr_id, 2u);
  EXPECT_EQ(ibv_next_poll(extended_), ENOENT);
  ibv_end_poll(extended_);
  expect_one_event();
}

TEST_P(ExtendedCq, EachFieldCanBeRead) {
  use_extended({.wc_flags = IBV_WC_STANDARD_FLAGS});
  EXPECT_EQ(post(request(1, 0, 24)), kAllPosted);
  fail(2);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(extended_->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(extended_), IBV_WC_RDMA_WRITE);
  EXPECT_EQ(ibv_wc_read_vendor_err(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_qp_num(extended_), qp_->qp_num);
  EXPECT_EQ(ibv_wc_read_byte_len(extended_), 24u);
  EXPECT_EQ(ibv_wc_read_wc_flags(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_imm_data(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_src_qp(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_slid(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_sl(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(extended_), 0u);
  ASSERT_EQ(ibv_next_poll(extended_), 0);
  EXPECT_EQ(extended_->wr_id, 2u);
  EXPECT_EQ(extended_->status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(ibv_wc_read_vendor_err(extended_), 0u);
  EXPECT_EQ(ibv_wc_read_qp_num(extended_), qp_->qp_num);
  ibv_end_poll(extended_);
}

TEST_P(ExtendedCq, TimestampsAreThoseOfTheDevicesClock) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(near_->context(), nullptr, &attributes), 0);
  ASSERT_NE(attributes.completion_timestamp_mask, 0u);
  EXPECT_EQ(attributes.hca_core_clock, 1'000'000u) << "kHz: ticks are nanoseconds";
  use_extended({.wc_flags = kTimestamps});
  const auto raw_clock = [&] {
    ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
    EXPECT_EQ(ibv_query_rt_values_ex(near_->context(), &values), 0);
    EXPECT_EQ(values.comp_mask, uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
    EXPECT_EQ(values.raw_clock.tv_sec, 0);
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  uint64_t before = raw_clock(), wall_before = wall_clock_ns();
  for (uint64_t id = 1; id <= 2; ++id) {
    complete(id);
    const uint64_t after = raw_clock(), wall_after = wall_clock_ns();
    ASSERT_EQ(start(), 0);
    EXPECT_GE(ibv_wc_read_completion_ts(extended_), before);
    EXPECT_LE(ibv_wc_read_completion_ts(extended_), after);
    // Read at different instants, and the wall clock is adjusted while we look.
    constexpr uint64_t kSkew = 100'000'000;
    EXPECT_GE(ibv_wc_read_completion_wallclock_ns(extended_) + kSkew, wall_before);
    EXPECT_LE(ibv_wc_read_completion_wallclock_ns(extended_), wall_after + kSkew);
    ibv_end_poll(extended_);
    before = after, wall_before = wall_after;
  }
  ibv_values_ex unknown{.comp_mask = IBV_VALUES_MASK_RESERVED, .raw_clock = {}};
  EXPECT_EQ(ibv_query_rt_values_ex(near_->context(), &unknown), EINVAL);
}

TEST_P(ExtendedCq, RefusesWhatTheDeviceLacksAndWhatIsNonsense) {
  EXPECT_EQ(creation_error({.cqe = 4}), 0);
  for (const uint64_t lacking : {uint64_t{IBV_WC_EX_WITH_CVLAN}, uint64_t{IBV_WC_EX_WITH_FLOW_TAG},
                                 uint64_t{IBV_WC_EX_WITH_TM_INFO}, uint64_t{1} << 12, uint64_t{1} << 63})
    EXPECT_EQ(creation_error({.cqe = 4, .wc_flags = lacking}), EOPNOTSUPP) << lacking;
  EXPECT_EQ(creation_error({.cqe = 4, .comp_mask = 1u << 2}), EOPNOTSUPP);
  EXPECT_EQ(creation_error({.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1u << 2}), EOPNOTSUPP);
  EXPECT_EQ(creation_error({.cqe = 4, .flags = 1u << 2}), 0) << "flags nobody said are there";
  EXPECT_EQ(creation_error({.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD}), EINVAL);
  EXPECT_EQ(creation_error({.cqe = 0}), EINVAL);
  EXPECT_EQ(creation_error({.cqe = ~0u}), EINVAL);
  EXPECT_EQ(creation_error({.cqe = 4, .comp_vector = static_cast<uint32_t>(near_->context()->num_comp_vectors)}),
            EINVAL);
  use_extended({});
  ibv_poll_cq_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(extended_, &unknown), EINVAL);
  complete(1);
  EXPECT_EQ(batch(), std::vector<uint64_t>{1}) << "a refused batch needs no end";
}

TEST_P(ExtendedCq, KeepsItsDomainInUse) {
  ibv_pd* const domain = ibv_alloc_pd(near_->context());
  ibv_cq_init_attr_ex init{.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = domain};
  ibv_cq_ex* const cq = ibv_create_cq_ex(near_->context(), &init);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST_P(ExtendedCq, IgnoringOverrunItLivesOn) {
  use_extended({.cqe = 2, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
  for (uint64_t id = 1; id <= 5; ++id) complete(id);
  EXPECT_EQ(batch(), (std::vector<uint64_t>{4, 5}));
  EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0)));
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
}

// ---- resizing ----

using Resizing = EachNotifyingPair;
INSTANTIATE_TEST_SUITE_P(Each, Resizing, direct_settings(), setting_name);

TEST_P(Resizing, KeepsCompletionsAndTheirOrder) {
  for (uint64_t id = 1; id <= 3; ++id) complete(id);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), 2), EINVAL);
  EXPECT_EQ(cq_->cqe, kEntries);
  ASSERT_EQ(ibv_resize_cq(cq_.get(), 3), 0);
  EXPECT_GE(cq_->cqe, 3);
  ASSERT_EQ(ibv_resize_cq(cq_.get(), 40), 0);
  EXPECT_GE(cq_->cqe, 40);
  for (uint64_t id = 4; id <= 40; ++id) complete(id);
  for (uint64_t id = 1; id <= 40; ++id) EXPECT_EQ(take({}), id);
}

TEST_P(Resizing, RefusesWhatNoQueueHas) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(near_->context(), &limits), 0);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), -1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), limits.max_cqe + 1), EINVAL);
  EXPECT_EQ(cq_->cqe, kEntries);
}

TEST_P(Resizing, LeavesTheArmingAlone) {
  arm();
  ASSERT_EQ(ibv_resize_cq(cq_.get(), 2 * kEntries), 0);
  complete(1);
  expect_one_event();
}

// ---- moderation ----

class Moderating : public EachNotifyingPair {
 protected:
  int moderate(uint16_t count, uint16_t microseconds) const {
    ibv_modify_cq_attr attributes{.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {count, microseconds}};
    return ibv_modify_cq(cq_.get(), &attributes);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, Moderating, direct_settings(), setting_name);

TEST_P(Moderating, TheEngineAnnouncesFewerCompletionsThanAskedFor) {
  ASSERT_EQ(moderate(100, 2000), 0);
  arm();
  complete(1);
  expect_one_event();
}

TEST_P(Moderating, AsManyAsAskedForAreOneEvent) {
  ibv_device_attr_ex limits{};
  ASSERT_EQ(ibv_query_device_ex(near_->context(), nullptr, &limits), 0);
  ASSERT_EQ(moderate(3, limits.cq_mod_caps.max_cq_period), 0);
  ASSERT_GE(limits.cq_mod_caps.max_cq_count, 3);
  arm();
  for (uint64_t id = 1; id <= 3; ++id) complete(id);
  EXPECT_TRUE(is_readable());
  expect_one_event();
}

TEST_P(Moderating, RefusesWhatItDoesNotKnow) {
  ibv_modify_cq_attr unknown{.attr_mask = IBV_CQ_ATTR_RESERVED, .moderate = {}};
  EXPECT_EQ(ibv_modify_cq(cq_.get(), &unknown), EINVAL);
  ibv_modify_cq_attr nothing{};
  EXPECT_EQ(ibv_modify_cq(cq_.get(), &nothing), 0);
}

// ---- overrun ----

using Overrun = EachNotifyingPair;
INSTANTIATE_TEST_SUITE_P(Each, Overrun, every_setting(), setting_name);

TEST_P(Overrun, KillsTheQueueAndLeadsAllItsQueuePairsToErr) {
  // One that sends elsewhere and only receives here, with a receive; the other CQ hears of its end.
  ibv_qp_init_attr init{.send_cq = near_->cq(), .recv_cq = cq_.get(), .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_RC;
  const QpHandle other(ibv_create_qp(near_->pd(), &init));
  ASSERT_TRUE(other);
  const Address far = far_->create_queue_pair();
  ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
  ASSERT_EQ(conformance::connect(other.get(), far), 0);
  for (uint64_t id = 0; id <= kEntries; ++id) complete(id);
  std::optional<ibv_async_event> event = near_->next_event(kSoon);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, cq_.get());
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
  EXPECT_EQ(state_of(other.get()), IBV_QPS_ERR);
  // What was there can still be had, and nothing comes after it.
  for (uint64_t id = 0; id < kEntries; ++id) EXPECT_EQ(take({}), id);
  complete(1);
  EXPECT_EQ(take({}), std::nullopt);
  EXPECT_EQ(conformance::post(other.get(), {request(7, 0, 8)}), kAllPosted);
  EXPECT_EQ(next(), (Outcome{7, IBV_WC_WR_FLUSH_ERR, other->qp_num, true}));
  ibv_ack_async_event(&*event);
  EXPECT_EQ(cq_->async_events_completed, 1u);
  EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0))) << "one error, one event";
}

// Nobody polls: the engine lets the messages in.
TEST_P(Overrun, ByTheMessagesOfPeersIsNoDifferent) {
  constexpr uint64_t kRoom = 4;
  use(CqHandle(ibv_create_cq(near_->context(), kRoom, this, channel_.get(), 0)));
  ASSERT_EQ(cq_->cqe, static_cast<int>(kRoom));
  ibv_qp_init_attr init{.send_cq = near_->cq(), .recv_cq = cq_.get(), .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_RC;
  const QpHandle other(ibv_create_qp(near_->pd(), &init));
  ASSERT_TRUE(other);
  const Address far = far_->create_queue_pair();
  ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
  ASSERT_EQ(conformance::connect(other.get(), far), 0);
  for (uint64_t id = 0; id <= kRoom; ++id)
    for (ibv_qp* const qp : {qp_.get(), other.get()}) {
      ibv_recv_wr receive{.wr_id = id};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
    }
  // As many as there is room for, and each answered, so that what follows is no race.
  for (uint64_t id = 0; id < kRoom; ++id) {
    ASSERT_EQ(far_->post_send(id % 2, {.id = id, .opcode = IBV_WR_SEND}), 0);
    const std::optional<ibv_wc> sent = far_->poll();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
  }
  EXPECT_FALSE(near_->take_event({}));
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  ASSERT_EQ(far_->post_send(0, {.id = kRoom, .opcode = IBV_WR_SEND}), 0);
  const std::optional<ibv_async_event> event = near_->take_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, cq_.get());
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
  EXPECT_EQ(state_of(other.get()), IBV_QPS_ERR);
  for (uint64_t id = 0; id < kRoom; ++id) EXPECT_EQ(take({}), id / 2);
  EXPECT_EQ(take({}), std::nullopt);
  EXPECT_FALSE(near_->take_event({})) << "one error, one event";
}

}  // namespace
}  // namespace verbatim::conformance
