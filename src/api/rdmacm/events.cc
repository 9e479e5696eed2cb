#include "api/rdmacm/events.h"

#include <algorithm>
#include <new>

#include "api/rdmacm/connection_manager.h"
#include "api/rdmacm/convert_connection.h"
#include "api/rdmacm/identifiers.h"
#include "api/rdmacm/queue_pairs.h"
#include "base/no_cancellation.h"

namespace verbatim::api {
namespace {

// Null: it is about none, or about one that was left.
MembershipObject* show_event_of(IdObject& id, cm::MembershipHandle handle) {
  if (!handle) return nullptr;
  const std::lock_guard lock(id.mutex);
  const auto found = std::ranges::find(id.memberships, handle, &MembershipObject::handle);
  if (found == id.memberships.end()) return nullptr;
  found->acknowledgements.show();
  return &*found;
}

void show_parameters(const cm::Event& from, const IdObject& id, EventObject& event) {
  if (!id.is_for_datagrams()) {
    event.base.param.conn = to_c(from.connection, event.private_data);
    return;
  }
  event.base.param.ud = to_c(from.datagram, event.private_data);
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (manager.ok())
    event.base.param.ud.ah_attr.grh.sgid_index = manager.value()->gid_index(from.datagram.path.source).value_or(0);
}

// The identifier of a request, as its listener is but for what the request brings.
Status take_request(const commands::Taken& taken, IdObject& listener, EventObject& event) {
  const cm::Event& from = taken.event;
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  std::unique_ptr<IdObject> id =
      make_id(listener.base.channel, listener.base.context, listener.base.ps, listener.base.qp_type);
  id->handle = from.id;
  id->responder_resources = from.connection.responder_resources;
  id->initiator_depth = from.connection.initiator_depth;
  id->remote_ece = from.ece;
  if (!taken.view) return {ENOENT};
  show(*taken.view, *id);
  manager.value()->ids().add(*id);
  if (listener.is_synchronous()) {
    if (const Status alone = migrate_id(*id, nullptr); !alone.ok()) {
      manager.value()->ids().remove(*id);
      return alone;
    }
  }
  event.base.id = &id.release()->base;
  event.base.listen_id = &listener.base;
  return Status::success();
}

// The active side of a connection with a queue pair: the program only hears that it is there, or is not.
void take_response(IdObject& id, rdma_cm_event& event) {
  if (!id.base.qp) return;
  Status led = connect_queue_pair(id, std::nullopt);
  if (led.ok()) led = run(id, commands::Establish{id.handle});
  event.event = led.ok() ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
  if (led.ok()) return;
  event.status = -led.error;
  fail_queue_pair(id);
  [[maybe_unused]] const Status told = run(id, commands::Reject{.id = id.handle});
}

Status take_multicast(const cm::Event& from, IdObject& id, EventObject& event) {
  if (!event.membership) return {ENOENT};
  event.base.param.ud.private_data = event.membership->context;
  if (from.type != cm::EventType::multicast_join) return Status::success();
  if (const Status attached = attach(id, *event.membership, from.datagram.path.destination); !attached.ok()) {
    event.base.event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event.base.status = -attached.error;
  }
  return Status::success();
}

// What the event does. A failure: there is nothing to show.
Status take(const commands::Taken& taken, IdObject& id, EventObject& event) {
  const cm::Event& from = taken.event;
  if (taken.view && from.id == id.handle) show(*taken.view, id);
  switch (from.type) {
    case cm::EventType::connect_request:
      return take_request(taken, id, event);
    case cm::EventType::connect_response:
      id.remote_ece = from.ece;
      take_response(id, event.base);
      return Status::success();
    case cm::EventType::rejected:
      fail_queue_pair(id);
      return Status::success();
    case cm::EventType::multicast_join:
    case cm::EventType::multicast_error:
      return take_multicast(from, id, event);
    default:
      return Status::success();
  }
}

std::unique_ptr<EventObject> make_event(const cm::Event& from, IdObject& id, MembershipObject* membership) {
  auto event = std::make_unique<EventObject>();
  event->base.id = &id.base;
  event->base.event = static_cast<rdma_cm_event_type>(from.type);
  event->base.status = from.status;
  event->private_data = from.private_data;
  event->account = &id;
  event->membership = membership;
  show_parameters(from, id, *event);
  return event;
}

// What the program will not acknowledge, since it is not shown.
void drop(const cm::Event& from, CmChannel& channel, IdObject& id, MembershipObject* membership) {
  if (from.type == cm::EventType::connect_request) {
    [[maybe_unused]] const auto ended = channel.call(commands::Destroy{.id = from.id, .channel = channel.handle()});
  }
  if (membership) membership->acknowledgements.add();
  id.acknowledgements.add();
}

// Null: it is about nobody, or nothing could come of it.
EventObject* event_of(CmChannel& channel, const commands::Taken& taken) {
  const cm::Event& from = taken.event;
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return nullptr;
  const bool is_request = from.type == cm::EventType::connect_request;
  IdObject* const id = manager.value()->ids().show_event_of(channel, is_request ? from.listener : from.id);
  if (!id) return nullptr;
  MembershipObject* const membership = show_event_of(*id, from.membership);
  if (is_request) [[maybe_unused]]
    const Status told = channel.tell(commands::TakeRequest{from.id});
  try {
    std::unique_ptr<EventObject> event = make_event(from, *id, membership);
    if (take(taken, *id, *event).ok()) return event.release();
  } catch (const std::bad_alloc&) {
  }
  drop(from, channel, *id, membership);
  return nullptr;
}

}  // namespace

Result<EventObject*> next_event(EventChannelObject& channel) {
  for (;;) {
    const Result<commands::Taken> taken = channel.current().take_event();
    if (!taken.ok()) return taken.status();
    const NoCancellation guard;
    if (EventObject* const event = event_of(*channel.impl, taken.value())) return event;
  }
}

void acknowledge(EventObject& event) {
  const std::unique_ptr<EventObject> owned(&event);
  // Last: who waits for it frees what it counts at.
  if (event.membership) event.membership->acknowledgements.add();
  event.account->acknowledgements.add();
}

void acknowledge_last(IdObject& id) {
  if (rdma_cm_event* const last = std::exchange(id.base.event, nullptr)) acknowledge(object_of(last));
}

Status complete(IdObject& id) {
  if (!id.is_synchronous()) return Status::success();
  acknowledge_last(id);
  const Result<EventObject*> event = next_event(*id.own_channel);
  if (!event.ok()) return event.status();
  id.base.event = &event.value()->base;
  if (id.base.event->status == 0) return Status::success();
  if (id.base.event->event == RDMA_CM_EVENT_REJECTED) return {ECONNREFUSED};
  return {id.base.event->status < 0 ? -id.base.event->status : EPROTO};
}

}  // namespace verbatim::api
