// What the two sides of a queue pair share: what it was made with, what modify_qp has set, its state. Guarded by the
// queue pair's lock, but for the state, which may be looked at without.
#pragma once

#include <atomic>

#include "local/local_endpoint.h"
#include "model/address_vector.h"
#include "model/async_events.h"
#include "model/device.h"
#include "model/protection_domain.h"

namespace verbatim::model {

class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;
class XrcDomain;

// As ibv_qp_cap: requests, SGEs a request, bytes.
struct QueuePairCapabilities {
  uint32_t max_send_wr = 0;
  uint32_t max_recv_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_recv_sge = 0;
  uint32_t max_inline_data = 0;
};

// As ibv_qp_attr, without capabilities and alternate path. PSNs 24 bits, timers as IBTA encodes them.
struct QueuePairAttributes {
  QueuePairState state = QueuePairState::reset;
  QueuePairState current_state = QueuePairState::reset;
  PathMtu path_mtu = PathMtu::bytes_1024;
  uint8_t path_migration = 0;
  uint32_t qkey = 0;
  uint32_t receive_psn = 0;
  uint32_t send_psn = 0;
  Qpn destination;
  uint32_t access = 0;
  AddressVector address;
  uint16_t pkey_index = 0;
  uint8_t initiator_depth = 0;  // max_rd_atomic
  uint8_t responder_depth = 0;  // max_dest_rd_atomic
  uint8_t min_rnr_timer = 0;
  uint8_t port = 0;
  uint8_t timeout = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  bool notify_drained = false;  // en_sqd_async_notify
};

struct QueuePairSetup {
  QueuePairType type = QueuePairType::rc;
  // Of an XRC receiver, which belongs to its domain and uses none: null, as are its queues.
  ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* shared_receives = nullptr;
  XrcDomain* xrc_domain = nullptr;
  QueuePairCapabilities capabilities;
  bool signal_all = false;
  void* handle = nullptr;  // the C object that events name
};

struct QueuePairCore {
  Device& device;
  AsyncEvents& events;
  QueuePair& queue_pair;
  const QueuePairSetup setup;
  const Qpn qpn;
  QueuePairAttributes attributes{};
  std::atomic<QueuePairState> state{QueuePairState::reset};
  EventAcknowledgement acknowledgement{};
  bool silent = false;

  bool is(QueuePairType type) const { return setup.type == type; }
  // Whether every message is answered: RC and XRC.
  bool is_reliable() const { return !is(QueuePairType::uc) && !is(QueuePairType::ud); }
  PdId pd() const { return setup.pd ? setup.pd->id() : PdId{}; }
  // Nothing once the C object that events name has gone (QueuePair::silence).
  void raise(AsyncEventType type) {
    if (!silent) events.raise({type, setup.handle, 0, &acknowledgement});
  }
};

}  // namespace verbatim::model
