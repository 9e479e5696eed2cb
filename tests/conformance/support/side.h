// One side of a connection, through the C ABI alone: a device, protection domains, one CQ for everything, and queue
// pairs with the attributes that connect them. Thread-safe where verbs are; the vector of queue pairs is not.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "conformance/support/memory.h"

namespace verbatim::conformance {

// Frees a verbs object, and holds the library to it: refusing to is a failure of the test.
template <auto Free>
struct Release {
  template <class Object>
  void operator()(Object* object) const {
    EXPECT_EQ(Free(object), 0);
  }
};
using ContextHandle = std::unique_ptr<ibv_context, Release<ibv_close_device>>;
using PdHandle = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using MrHandle = std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>>;
using CqHandle = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;
using SrqHandle = std::unique_ptr<ibv_srq, Release<ibv_destroy_srq>>;
using QpHandle = std::unique_ptr<ibv_qp, Release<ibv_destroy_qp>>;
using AhHandle = std::unique_ptr<ibv_ah, Release<ibv_destroy_ah>>;
// The same for what inline functions of verbs.h free, which no template of several files can name.
struct ReleaseInline {
  void operator()(ibv_mw* window) const;
  void operator()(ibv_xrcd* domain) const;
};
using MwHandle = std::unique_ptr<ibv_mw, ReleaseInline>;
using XrcDomainHandle = std::unique_ptr<ibv_xrcd, ReleaseInline>;

inline constexpr uint8_t kPort = 1;
inline constexpr unsigned kEveryAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
// For whatever should happen soon, but waits for another process on a busy machine.
inline constexpr std::chrono::seconds kSoon{20};

// Where a queue pair is to be found; of an XRC receiver also the shared receive queue that a message names.
struct Address {
  uint32_t qpn = 0;
  ibv_gid gid{};
  uint32_t shared_queue = 0;
};

// The attributes of a connection; the defaults wait 8.6 s for a peer that is not ready.
struct Wiring {
  unsigned access = kEveryAccess;
  uint32_t psn = 0x123456;
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  uint8_t timeout = 18;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 640 us (IBTA volume 1, table 45)
  uint32_t qkey = 0x11223344;

  // IBTA 9.7.6.1.3: how long a requester waits at least for a responder that does not answer.
  std::chrono::nanoseconds patience() const {
    return std::chrono::nanoseconds(int64_t{4096} << timeout) * (retry_cnt + 1);
  }
};

// The arguments of the three ibv_modify_qp calls of a connection: each mask is what RC requires.
inline constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
// Those of the other types lack what only RC has, and datagrams name their peers one by one.
int init_mask(ibv_qp_type type);
int rtr_mask(ibv_qp_type type);
int rts_mask(ibv_qp_type type);
ibv_qp_attr init_attributes(const Wiring& wiring);
ibv_qp_attr rtr_attributes(const Wiring& wiring, const Address& peer);
ibv_qp_attr rts_attributes(const Wiring& wiring);

inline constexpr ibv_qp_cap kOrdinaryCapabilities{
    .max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 32, .max_recv_sge = 32, .max_inline_data = 64};

class Side {
 public:
  Side();

  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_pd* other_pd() const { return other_pd_.get(); }
  ibv_cq* cq() const { return cq_.get(); }
  ibv_gid gid() const;

  MrHandle register_memory(const Memory& memory, unsigned access = kEveryAccess, ibv_pd* pd = nullptr) const;

  // In RESET. `shared`: where its receives come from, if not from itself.
  QpHandle create_queue_pair(ibv_qp_cap capabilities = kOrdinaryCapabilities, bool signal_all = false,
                             ibv_qp_type type = IBV_QPT_RC, ibv_srq* shared = nullptr) const;
  // As large as the receive queue of an ordinary queue pair. `domain`: one for XRC, whose receives complete to cq().
  SrqHandle create_shared_queue(ibv_xrcd* domain = nullptr) const;
  // A domain that has no file, and in RESET a queue pair that receives for it.
  XrcDomainHandle open_xrc_domain() const;
  QpHandle create_xrc_receiver(ibv_xrcd* domain) const;
  // The way to `destination`, which may be a group's GID.
  AhHandle create_address_handle(const ibv_gid& destination) const;
  Address address_of(const ibv_qp* qp) const { return {qp->qp_num, gid()}; }

  // The next completion, waiting until `deadline`.
  std::optional<ibv_wc> poll(std::chrono::nanoseconds patience = kSoon) const;

  // The next asynchronous event, not acknowledged.
  std::optional<ibv_async_event> next_event(std::chrono::milliseconds patience) const;
  // The same, acknowledged.
  std::optional<ibv_async_event> take_event(std::chrono::milliseconds patience = kSoon) const;

 private:
  ContextHandle context_;
  PdHandle pd_;
  PdHandle other_pd_;
  CqHandle cq_;
};

// errno of the first call that fails, or 0.
int to_init(ibv_qp* qp, const Wiring& wiring = {});
// The masks are those of its type.
int to_rtr(ibv_qp* qp, const Address& peer, const Wiring& wiring = {});
int to_rts(ibv_qp* qp, const Wiring& wiring = {});
int connect(ibv_qp* qp, const Address& peer, const Wiring& wiring = {});
int to_state(ibv_qp* qp, ibv_qp_state state);
ibv_qp_attr query(ibv_qp* qp);
ibv_qp_state state_of(ibv_qp* qp);
// What it was granted.
ibv_qp_cap capabilities_of(ibv_qp* qp);

}  // namespace verbatim::conformance
