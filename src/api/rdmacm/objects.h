// The C objects of rdma_cma.h that programs hold, each with ours behind the part whose layout the ABI fixes. A pointer
// to the one is a pointer to the other.
#pragma once

#include <rdma/rdma_cma.h>

#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "agent/cm_client.h"
#include "base/no_cancellation.h"
#include "cm/event.h"

namespace verbatim::api {

// Made by rdma_create_event_channel(3), or with an identifier that is synchronous.
struct EventChannelObject {
  rdma_event_channel base{};
  std::unique_ptr<CmChannel> impl;

  EventChannelObject() = default;
  EventChannelObject(const EventChannelObject&) = delete;
  EventChannelObject& operator=(const EventChannelObject&) = delete;
  ~EventChannelObject() {
    if (impl) impl->move_to(base.fd);
  }

  // Programs put a copy of the descriptor in its place, and close the first.
  CmChannel& current() const {
    impl->move_to(base.fd);
    return *impl;
  }
};

// How many events the program was shown, and how many of them it has acknowledged: who ends what they are about waits
// until all are (rdma_destroy_id(3)).
class Acknowledgements {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();  // with the lock held: who waits for this frees it
  }
  // `at_least`, or as many as were shown: when the agent is gone nobody knows how many were received.
  void await(uint32_t at_least) {
    const NoCancellation guard;  // what is half destroyed could not be destroyed again
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= at_least && count_ >= shown_; });
  }
  void show() {
    const std::lock_guard lock(mutex_);
    ++shown_;
  }
  uint32_t shown() {
    const std::lock_guard lock(mutex_);
    return shown_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint32_t count_ = 0;
  uint32_t shown_ = 0;
};

// A multicast group that an identifier has joined; guarded by the identifier's mutex.
struct MembershipObject {
  cm::MembershipHandle handle;
  cm::Address group;
  void* context = nullptr;
  bool receives = true;  // else it only sends
  // The queue pair that was attached when the program heard that it had joined, and to what.
  ibv_qp* attached = nullptr;
  ibv_gid gid{};
  Acknowledgements acknowledgements;
};

struct IdObject {
  rdma_cm_id base{};
  cm::IdHandle handle;
  // A synchronous identifier's, whose base.channel it is: each of its calls ends with the event that it began.
  std::unique_ptr<EventChannelObject> own_channel;
  Acknowledgements acknowledgements;
  // Of the queue pair that rdma_get_request(3) makes for a request; rdma_create_ep(3) was given it.
  std::optional<ibv_qp_init_attr> request_attributes;
  // What the manager said last: at each event that says something new of the identifier, and when it was asked.
  cm::IdView view;
  // Of a request: what its peer asks for, in our terms.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  cm::Ece local_ece;
  cm::Ece remote_ece;
  ibv_sa_path_rec path_record{};
  std::mutex mutex;  // guards what follows
  std::list<MembershipObject> memberships;

  bool is_synchronous() const { return own_channel != nullptr; }
  bool is_for_datagrams() const { return base.qp_type == IBV_QPT_UD; }
  CmChannel& channel() const;
};

struct EventObject {
  rdma_cm_event base{};
  cm::PrivateData private_data;
  // Where its acknowledgement counts: at the listener of a request; of a multicast event also at the membership.
  IdObject* account = nullptr;
  MembershipObject* membership = nullptr;
};

inline EventChannelObject& object_of(rdma_event_channel* channel) {
  return *reinterpret_cast<EventChannelObject*>(channel);
}
inline IdObject& object_of(rdma_cm_id* id) { return *reinterpret_cast<IdObject*>(id); }
inline EventObject& object_of(rdma_cm_event* event) { return *reinterpret_cast<EventObject*>(event); }

inline CmChannel& IdObject::channel() const { return object_of(base.channel).current(); }

// What the calls of rdma_cma.h return: 0, or -1 with errno. Programs know no exception.
template <class Call>
int answer(Call&& call) {
  Status status;
  try {
    status = call();
  } catch (const std::bad_alloc&) {
    status = {ENOMEM};
  }
  if (status.ok()) return 0;
  errno = status.error;
  return -1;
}

// A command that is answered by success alone.
template <class Command>
Status run(const IdObject& id, const Command& command) {
  return id.channel().call(command).status();
}

}  // namespace verbatim::api
