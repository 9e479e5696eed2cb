// ibv_modify_qp(3) of an RC queue pair: IBTA 10.3.1 and table 91 as programs meet them.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kMigration = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_STATE, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | kMigration},
    {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | kMigration},
    {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_STATE,
     IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PORT |
         kMigration},
    {IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_STATE,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | kMigration},
};
constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                    IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};
// Every bit of ibv_qp_attr_mask of the headers, IBV_QP_STATE excepted.
constexpr int kLastAttribute = IBV_QP_RATE_LIMIT;

std::string name(ibv_qp_state state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[state];
}

class QpTransition : public testing::Test {
 protected:
  QpTransition() : qp_(side_.create_queue_pair()) {}

  Address itself() const { return side_.address_of(qp_.get()); }

  void bring_to(ibv_qp_state state) {
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    if (state == IBV_QPS_RESET) return;
    if (state == IBV_QPS_ERR) {
      ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
      return;
    }
    ASSERT_EQ(to_init(qp_.get()), 0);
    if (state == IBV_QPS_INIT) return;
    ASSERT_EQ(to_rtr(qp_.get(), itself()), 0);
    if (state == IBV_QPS_RTR) return;
    ASSERT_EQ(to_rts(qp_.get()), 0);
    if (state == IBV_QPS_RTS) return;
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_SQD), 0);
  }

  // Good values for every attribute, so that a refusal can only be about the mask.
  ibv_qp_attr good(ibv_qp_state from, ibv_qp_state to) const {
    const Wiring wiring;
    ibv_qp_attr attributes = rtr_attributes(wiring, itself());
    const ibv_qp_attr init = init_attributes(wiring);
    const ibv_qp_attr rts = rts_attributes(wiring);
    attributes.qp_state = to;
    attributes.cur_qp_state = from;
    attributes.port_num = init.port_num;
    attributes.qp_access_flags = init.qp_access_flags;
    attributes.timeout = rts.timeout;
    attributes.retry_cnt = rts.retry_cnt;
    attributes.rnr_retry = rts.rnr_retry;
    attributes.sq_psn = rts.sq_psn;
    attributes.max_rd_atomic = rts.max_rd_atomic;
    attributes.path_mig_state = IBV_MIG_MIGRATED;
    return attributes;
  }

  void expect_refused(ibv_qp_attr attributes, int mask, ibv_qp_state still) {
    EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, mask), EINVAL);
    EXPECT_EQ(state_of(qp_.get()), still);
  }

  // That `change` alone makes good attributes of a transition bad ones.
  template <class Change>
  void expect_value_refused(ibv_qp_state from, ibv_qp_state to, int mask, Change&& change) {
    bring_to(from);
    ibv_qp_attr attributes = good(from, to);
    change(attributes);
    expect_refused(attributes, mask, from);
    attributes = good(from, to);
    EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, mask), 0) << "the good values";
  }

  Side side_;
  QpHandle qp_;
};

std::string describe(const Transition& transition, int bit) {
  std::ostringstream text;
  text << name(transition.from) << " to " << name(transition.to) << ", attribute 0x" << std::hex << bit;
  return text.str();
}

TEST_F(QpTransition, EveryAllowedOneNeedsJustWhatItRequires) {
  for (const Transition& transition : kTransitions) {
    bring_to(transition.from);
    ibv_qp_attr attributes = good(transition.from, transition.to);
    EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, transition.required), 0) << describe(transition, 0);
    EXPECT_EQ(state_of(qp_.get()), transition.to);
    EXPECT_EQ(qp_->state, transition.to);
  }
}

TEST_F(QpTransition, EveryOptionalAttributeIsTaken) {
  for (const Transition& transition : kTransitions) {
    for (int bit = 1; bit <= kLastAttribute; bit <<= 1) {
      if (!(transition.optional & ~kMigration & bit)) continue;
      bring_to(transition.from);
      ibv_qp_attr attributes = good(transition.from, transition.to);
      EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, transition.required | bit), 0) << describe(transition, bit);
      EXPECT_EQ(state_of(qp_.get()), transition.to);
    }
  }
}

TEST_F(QpTransition, EveryRequiredAttributeIsMissed) {
  for (const Transition& transition : kTransitions) {
    for (int bit = 2; bit <= kLastAttribute; bit <<= 1) {
      if (!(transition.required & bit)) continue;
      SCOPED_TRACE(describe(transition, bit));
      bring_to(transition.from);
      expect_refused(good(transition.from, transition.to), transition.required & ~bit, transition.from);
    }
  }
}

TEST_F(QpTransition, EveryAttributeThatDoesNotBelongThereIsRefused) {
  for (const Transition& transition : kTransitions) {
    for (int bit = 2; bit <= kLastAttribute; bit <<= 1) {
      if ((transition.required | transition.optional) & bit) continue;
      SCOPED_TRACE(describe(transition, bit));
      bring_to(transition.from);
      expect_refused(good(transition.from, transition.to), transition.required | bit, transition.from);
    }
  }
}

TEST_F(QpTransition, EveryOtherTransitionIsRefusedWithAnyAttributes) {
  for (const ibv_qp_state from : kStates) {
    if (from == IBV_QPS_SQE) continue;  // only UC and UD get there
    for (const ibv_qp_state to : kStates) {
      if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) continue;
      const auto allowed = [&](const Transition& row) { return row.from == from && row.to == to; };
      if (std::any_of(std::begin(kTransitions), std::end(kTransitions), allowed)) continue;
      SCOPED_TRACE(name(from) + " to " + name(to));
      bring_to(from);
      for (const int mask : {int{IBV_QP_STATE}, kInitMask, kRtrMask, kRtsMask})
        expect_refused(good(from, to), mask, from);
    }
  }
}

TEST_F(QpTransition, FromEveryStateToResetAndToError) {
  for (const ibv_qp_state from : kStates) {
    if (from == IBV_QPS_SQE) continue;
    for (const ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
      bring_to(from);
      EXPECT_EQ(to_state(qp_.get(), to), 0) << name(from) << " to " << name(to);
      EXPECT_EQ(state_of(qp_.get()), to);
    }
  }
}

TEST_F(QpTransition, WithoutAStateTheAttributesOfStayingCount) {
  bring_to(IBV_QPS_RTS);
  ibv_qp_attr attributes = good(IBV_QPS_RTS, IBV_QPS_RTS);
  attributes.min_rnr_timer = 5;
  EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(query(qp_.get()).min_rnr_timer, 5);
  expect_refused(attributes, IBV_QP_TIMEOUT, IBV_QPS_RTS);
}

TEST_F(QpTransition, WrongCurrentStateIsRefused) {
  bring_to(IBV_QPS_RTR);
  ibv_qp_attr attributes = good(IBV_QPS_RTS, IBV_QPS_RTS);
  expect_refused(attributes, kRtsMask | IBV_QP_CUR_STATE, IBV_QPS_RTR);
  bring_to(IBV_QPS_RTS);
  attributes.cur_qp_state = IBV_QPS_SQD;
  expect_refused(attributes, IBV_QP_STATE | IBV_QP_CUR_STATE, IBV_QPS_RTS);
}

TEST_F(QpTransition, StateThatDoesNotExistIsRefused) {
  bring_to(IBV_QPS_INIT);
  for (const int state : {int{IBV_QPS_UNKNOWN}, 100, -1}) {
    ibv_qp_attr attributes = good(IBV_QPS_INIT, IBV_QPS_RTR);
    attributes.qp_state = static_cast<ibv_qp_state>(state);
    expect_refused(attributes, IBV_QP_STATE, IBV_QPS_INIT);
  }
}

TEST_F(QpTransition, ValuesOutOfRangeAreRefused) {
  const auto init = [&](auto change) { expect_value_refused(IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, change); };
  const auto rtr = [&](auto change) { expect_value_refused(IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, change); };
  const auto rts = [&](auto change) { expect_value_refused(IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, change); };
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(side_.context(), &limits), 0);
  init([](ibv_qp_attr& a) { a.port_num = 0; });
  init([](ibv_qp_attr& a) { a.port_num = kPort + 1; });
  init([&](ibv_qp_attr& a) { a.pkey_index = limits.max_pkeys; });
  init([](ibv_qp_attr& a) { a.qp_access_flags = 1u << 31; });
  rtr([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); });
  rtr([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(IBV_MTU_4096 + 1); });
  rtr([](ibv_qp_attr& a) { a.dest_qp_num = 1u << 24; });
  rtr([](ibv_qp_attr& a) { a.min_rnr_timer = 32; });
  rtr([&](ibv_qp_attr& a) { a.max_dest_rd_atomic = static_cast<uint8_t>(limits.max_qp_rd_atom + 1); });
  rtr([](ibv_qp_attr& a) { a.ah_attr.port_num = kPort + 1; });
  rts([](ibv_qp_attr& a) { a.timeout = 32; });
  rts([](ibv_qp_attr& a) { a.retry_cnt = 8; });
  rts([](ibv_qp_attr& a) { a.rnr_retry = 8; });
  rts([&](ibv_qp_attr& a) { a.max_rd_atomic = static_cast<uint8_t>(limits.max_qp_init_rd_atom + 1); });
}

TEST_F(QpTransition, AddressWithoutGrhIsRefusedOnEthernet) {
  expect_value_refused(IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr& a) { a.ah_attr.is_global = 0; });
}

TEST_F(QpTransition, EmptySourceGidIsRefused) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(side_.context(), kPort, &port), 0);
  ASSERT_GT(port.gid_tbl_len, 255);
  expect_value_refused(IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 255; });
}

TEST_F(QpTransition, DestinationThatIsNotOfThisHostIsUnreachable) {
  bring_to(IBV_QPS_INIT);
  ibv_qp_attr attributes = good(IBV_QPS_INIT, IBV_QPS_RTR);
  // 192.0.2.1 is nobody's (RFC 5737).
  constexpr uint8_t kDocumentation[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  std::memcpy(attributes.ah_attr.grh.dgid.raw, kDocumentation, sizeof kDocumentation);
  EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, kRtrMask), EHOSTUNREACH);
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_INIT);
  attributes = good(IBV_QPS_INIT, IBV_QPS_RTR);
  EXPECT_EQ(ibv_modify_qp(qp_.get(), &attributes, kRtrMask), 0);
}

TEST_F(QpTransition, RefusalLeavesEveryAttributeAsItWas) {
  bring_to(IBV_QPS_SQD);
  const ibv_qp_attr before = query(qp_.get());
  ibv_qp_attr attributes = good(IBV_QPS_SQD, IBV_QPS_SQD);
  attributes.timeout = 3;
  attributes.retry_cnt = 1;
  attributes.qp_access_flags = 0;
  attributes.rnr_retry = 8;  // the one that is wrong
  expect_refused(attributes, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_ACCESS_FLAGS | IBV_QP_RNR_RETRY,
                 IBV_QPS_SQD);
  const ibv_qp_attr after = query(qp_.get());
  EXPECT_EQ(after.timeout, before.timeout);
  EXPECT_EQ(after.retry_cnt, before.retry_cnt);
  EXPECT_EQ(after.qp_access_flags, before.qp_access_flags);
}

TEST_F(QpTransition, QueryReturnsWhatWasSet) {
  ASSERT_EQ(to_init(qp_.get(), {.access = IBV_ACCESS_REMOTE_READ}), 0);
  ibv_qp_attr rtr = rtr_attributes({.psn = 0xabcdef, .max_dest_rd_atomic = 5}, itself());
  rtr.path_mtu = IBV_MTU_2048;
  rtr.min_rnr_timer = 17;
  rtr.ah_attr.sl = 3;
  rtr.ah_attr.grh.traffic_class = 42;
  rtr.ah_attr.grh.hop_limit = 7;
  rtr.ah_attr.grh.flow_label = 0x54321;
  ASSERT_EQ(ibv_modify_qp(qp_.get(), &rtr, kRtrMask), 0);
  ibv_qp_attr rts = rts_attributes({.psn = 0x13579b, .max_rd_atomic = 9, .timeout = 11, .retry_cnt = 3});
  rts.rnr_retry = 4;
  ASSERT_EQ(ibv_modify_qp(qp_.get(), &rts, kRtsMask), 0);

  const ibv_qp_attr seen = query(qp_.get());
  EXPECT_EQ(seen.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(seen.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(seen.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(seen.pkey_index, 0);
  EXPECT_EQ(seen.port_num, kPort);
  EXPECT_EQ(seen.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(seen.dest_qp_num, qp_->qp_num);
  EXPECT_EQ(seen.rq_psn, 0xabcdefu);
  EXPECT_EQ(seen.max_dest_rd_atomic, 5);
  EXPECT_EQ(seen.min_rnr_timer, 17);
  EXPECT_EQ(seen.ah_attr.is_global, 1);
  EXPECT_EQ(std::memcmp(&seen.ah_attr.grh.dgid, &rtr.ah_attr.grh.dgid, sizeof(ibv_gid)), 0);
  EXPECT_EQ(seen.ah_attr.grh.sgid_index, 0);
  EXPECT_EQ(seen.ah_attr.grh.traffic_class, 42);
  EXPECT_EQ(seen.ah_attr.grh.hop_limit, 7);
  EXPECT_EQ(seen.ah_attr.grh.flow_label, 0x54321u);
  EXPECT_EQ(seen.ah_attr.sl, 3);
  EXPECT_EQ(seen.ah_attr.port_num, kPort);
  EXPECT_EQ(seen.sq_psn, 0x13579bu);
  EXPECT_EQ(seen.max_rd_atomic, 9);
  EXPECT_EQ(seen.timeout, 11);
  EXPECT_EQ(seen.retry_cnt, 3);
  EXPECT_EQ(seen.rnr_retry, 4);
}

// ---- what happens to work when the state changes ----

class WorkInTransition : public EachWay {
 protected:
  // Returns when the queue pair says that it is drained.
  void drain() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    std::optional<ibv_async_event> event = near_->next_event(kSoon);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(event->element.qp, qp_.get());
    ibv_ack_async_event(&*event);
    EXPECT_EQ(query(qp_.get()).sq_draining, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, WorkInTransition, every_way(), way_name);

TEST_P(WorkInTransition, ErrorFlushesBothQueues) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);  // the responder is not ready: sends wait
  for (uint64_t id = 10; id < 13; ++id) {
    ibv_recv_wr receive{.wr_id = id};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &bad), 0);
  }
  EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64, 0), request(3, 0, 64)}), kAllPosted);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  std::vector<Outcome> sends;
  std::vector<Outcome> receives;
  for (int i = 0; i < 6; ++i) {
    const Outcome outcome = next();
    (outcome.id < 10 ? sends : receives).push_back(outcome);
  }
  EXPECT_EQ(sends, (std::vector{flushed(1), flushed(2), flushed(3)}));
  EXPECT_EQ(receives, (std::vector{flushed(10), flushed(11), flushed(12)}));
  EXPECT_TRUE(no_completion());
}

TEST_P(WorkInTransition, PostedInErrorIsFlushed) {
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(post({request(1, 0, 64, 0), request(2, 0, 64)}), kAllPosted);
  EXPECT_EQ(next(), flushed(1));
  EXPECT_EQ(next(), flushed(2));
}

TEST_P(WorkInTransition, ResetForgetsCompletionsAndWork) {
  connect();
  EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64)}), kAllPosted);
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  EXPECT_EQ(post(request(3, 0, 64)), kAllPosted);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(5)));
  connect();
  for (uint64_t id = 10; id < 10 + kOrdinaryCapabilities.max_send_wr; ++id)
    EXPECT_EQ(post(request(id, 0, 64)), kAllPosted) << "the queue is as empty as a new one";
  EXPECT_EQ(next(), succeeded(10));
}

TEST_P(WorkInTransition, ResetOfOneQueuePairLeavesCompletionsOfOthers) {
  connect();
  const QpHandle other = near_->create_queue_pair();
  const Address far_other = far_->create_queue_pair();
  ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
  ASSERT_EQ(conformance::connect(other.get(), far_other), 0);
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(post(request(id, 0, 64)), kAllPosted);
    EXPECT_EQ(conformance::post(other.get(), {request(10 + id, 0, 64)}), kAllPosted);
  }
  ASSERT_EQ(to_state(other.get(), IBV_QPS_RESET), 0);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(next(), succeeded(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(WorkInTransition, DrainedQueueTakesWorkAndKeepsIt) {
  connect();
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_SQD), 0);
  EXPECT_EQ(post({request(1, 0, 64), request(2, 64, 64)}), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(20)));
  EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
}

TEST_P(WorkInTransition, DrainedQueueSaysSoWhenAsked) {
  connect();
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  drain();
  EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0)));
}

TEST_P(WorkInTransition, DrainedQueueHasFinishedWhatItHadBegunAndBeginsNothing) {
  constexpr uint32_t kLarge = 16 << 20;
  const Memory large(MemoryKind::anonymous, kLarge);
  const MrHandle region = near_->register_memory(large);
  remote_ = far_->register_memory(kLarge);
  connect();
  EXPECT_EQ(post(request(0, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(0));
  constexpr uint64_t kCount = 4;
  for (uint64_t id = 1; id <= kCount; ++id)
    EXPECT_EQ(post({id, opcode_, {{large.address(), kLarge, region->lkey}}, remote_.address, remote_.rkey}),
              kAllPosted);
  drain();
  uint64_t id = 1;
  while (const std::optional<ibv_wc> completion = near_->poll({})) EXPECT_EQ(outcome_of(*completion), succeeded(id++));
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(30))) << "it said that it was drained";
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  for (; id <= kCount; ++id) EXPECT_EQ(next(), succeeded(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(WorkInTransition, DrainedQueueIsSilentWhenNotAsked) {
  connect();
  for (const bool named : {false, true}) {
    ibv_qp_attr drain{};
    drain.qp_state = IBV_QPS_SQD;
    ASSERT_EQ(ibv_modify_qp(qp_.get(), &drain, IBV_QP_STATE | (named ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)), 0);
    EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(5)));
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  }
}

TEST_P(WorkInTransition, ErrorDuringADrainFlushesWhatWaited) {
  connect();
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_SQD), 0);
  EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64)}), kAllPosted);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(next(), flushed(1));
  EXPECT_EQ(next(), flushed(2));
}

TEST_P(WorkInTransition, AccessFlagsChangedInRtsCountForTheNextOperation) {
  connect({}, {.access = 0});
  ibv_qp_attr widened{};
  widened.qp_access_flags = kEveryAccess;
  ASSERT_EQ(far_->modify(0, widened, IBV_QP_ACCESS_FLAGS), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

}  // namespace
}  // namespace verbatim::conformance
