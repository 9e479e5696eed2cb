#include "api/rdmacm/connections.h"

#include <algorithm>
#include <optional>
#include <span>

#include "api/rdmacm/connection_manager.h"
#include "api/rdmacm/convert_connection.h"
#include "api/rdmacm/events.h"
#include "api/rdmacm/identifiers.h"
#include "api/rdmacm/queue_pairs.h"

namespace verbatim::api {
namespace {

constexpr uint8_t kMostRetries = 7;

// "As many as there can be", which for who accepts is no more than the request says.
uint8_t chosen(uint8_t wanted, uint8_t most) { return wanted == RDMA_MAX_RESP_RES ? most : wanted; }

// What the program says, or what it did not say; with the identifier's queue pair, if it has one.
Result<cm::Offer> offer_of(IdObject& id, const rdma_conn_param* parameters, Depths most) {
  if (id.base.ps == RDMA_PS_TCP && !id.base.qp && !parameters) return Status{EINVAL};
  cm::Offer offer = from_c(parameters);
  cm::ConnectParameters& said = offer.parameters;
  if (!parameters) {
    said.responder_resources = said.initiator_depth = RDMA_MAX_RESP_RES;
    said.retry_count = said.rnr_retry_count = kMostRetries;
  }
  said.responder_resources = chosen(said.responder_resources, most.responder_resources);
  said.initiator_depth = chosen(said.initiator_depth, most.initiator_depth);
  if (id.base.qp) {
    said.qpn = {id.base.qp->qp_num};
    said.srq = id.base.qp->srq != nullptr;
  }
  offer.ece = id.local_ece;
  return offer;
}

Result<Depths> device_depths() {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  return Depths{manager.value()->most_responder_resources(), manager.value()->most_initiator_depth()};
}

bool exceeds(const cm::ConnectParameters& said, Depths device) {
  return said.responder_resources > device.responder_resources || said.initiator_depth > device.initiator_depth;
}

// The event that ends the call, and from then on an eye on the peer.
Status complete_connection(IdObject& id) {
  if (const Status completed = complete(id); !completed.ok()) return completed;
  if (!id.is_synchronous() || !id.base.qp) return Status::success();
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  return manager.ok() ? manager.value()->peer_watch().add(id) : manager.status();
}

}  // namespace

Status connect(IdObject& id, const rdma_conn_param* parameters) {
  const Result<Depths> device = device_depths();
  if (!device.ok()) return device.status();
  const Result<cm::Offer> offer = offer_of(id, parameters, device.value());
  if (!offer.ok()) return offer.status();
  if (!id.is_for_datagrams() && exceeds(offer.value().parameters, device.value())) return {EINVAL};
  const Status begun = run(id, commands::Connect{id.handle, offer.value()});
  return begun.ok() ? complete_connection(id) : begun;
}

Status accept(IdObject& id, const rdma_conn_param* parameters) {
  const Result<Depths> device = device_depths();
  if (!device.ok()) return device.status();
  const Depths asked{std::min(id.responder_resources, device.value().responder_resources),
                     std::min(id.initiator_depth, device.value().initiator_depth)};
  const Result<cm::Offer> offer = offer_of(id, parameters, asked);
  if (!offer.ok()) return offer.status();
  const cm::ConnectParameters& said = offer.value().parameters;
  if (!id.is_for_datagrams()) {
    if (exceeds(said, device.value())) return {EINVAL};
    if (id.base.qp) {
      const Status led = connect_queue_pair(id, Depths{said.responder_resources, said.initiator_depth});
      if (!led.ok()) return led;
    }
  }
  if (const Status accepted = run(id, commands::Accept{id.handle, offer.value()}); !accepted.ok()) {
    fail_queue_pair(id);
    return accepted;
  }
  // Who asked for a datagram service says nothing more.
  return id.is_for_datagrams() ? Status::success() : complete_connection(id);
}

Status listen(IdObject& id, int backlog) {
  const Status begun = run(id, commands::Listen{id.handle, backlog});
  return begun.ok() ? refresh(id) : begun;
}

Status reject(IdObject& id, wire::RejectReason reason, const void* private_data, size_t length) {
  if (!private_data) length = 0;
  return run(id, commands::Reject{id.handle, reason,
                                  cm::PrivateData(std::span(static_cast<const uint8_t*>(private_data), length))});
}

Status disconnect(IdObject& id) {
  fail_queue_pair(id);
  const Status begun = run(id, commands::Disconnect{id.handle});
  return begun.ok() ? complete(id) : begun;
}

}  // namespace verbatim::api
