// The one device of this process, shared by all who open it: its limits and addresses, what its objects need from the
// layers below, and the registry by which the engine finds objects that have work or news. Thread-safe.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/time.h"
#include "local/adapter.h"
#include "local/lanes.h"
#include "local/peer_table.h"
#include "model/async_events.h"
#include "model/device_attributes.h"
#include "model/gid_table.h"
#include "model/protection_domain.h"
#include "model/window_table.h"

namespace verbatim::model {

class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;

enum class WorkQueueKind : uint8_t { send, receive };

// What is left to do: nothing, only what waits for a peer, or something that can go on at once.
enum class Backlog { none, waiting, working };

// Has the engine take a turn soon. Any thread, under locks; never blocks.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
};

// The host's addresses now. Asked by one thread at a time.
class AddressSource {
 public:
  virtual ~AddressSource() = default;
  virtual std::vector<GidInterface> interfaces() = 0;
};

// How many of each kind exist, against the limit the device advertises.
class Quota {
 public:
  bool take(int limit) {
    if (used_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
    give_back();
    return false;
  }
  void give_back() { used_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<int> used_{0};
};

class Device {
 public:
  // All references outlive the device.
  struct Surroundings {
    local::Adapter& adapter;
    local::PeerTable& peers;
    const Clock& clock;
    Waker& waker;
    AddressSource& addresses;
  };

  Device(const Surroundings& surroundings, DeviceAttributes attributes);

  const DeviceAttributes& attributes() const { return attributes_; }
  PortAttributes port() const;
  // The longest message, in bytes.
  uint32_t message_limit() const { return message_limit_; }

  // Copies; the table changes when addresses come and go.
  std::optional<GidEntry> gid_at(size_t index) const;
  // Looks at the host's addresses anew when it is not in the table: it may have come up after the device was opened.
  bool is_local(const Gid& gid);
  // Takes in the host's present addresses. When an index changed, every AsyncEvents of the device hears of it
  // (gid_change), and the answer is true.
  bool refresh_gids();

  local::Adapter& adapter() const { return surroundings_.adapter; }
  local::PeerTable& peers() const { return surroundings_.peers; }
  local::Lanes& lanes() { return lanes_; }
  const Clock& clock() const { return surroundings_.clock; }
  Waker& waker() const { return surroundings_.waker; }

  PdId next_pd_id();
  Quota pds, mrs, mws, cqs, qps, srqs, ahs;
  WindowTable& windows() { return windows_; }

  // A queue pair that others hold too, by its number; null where there is none, or nobody holds it as shared.
  std::shared_ptr<QueuePair> share(Qpn qpn);
  void add(QueuePair& queue_pair);
  // Nobody reaches the queue pair through the device after this returns.
  void remove(QueuePair& queue_pair);
  void add(CompletionQueue& queue);
  void remove(CompletionQueue& queue);
  // Nothing more is raised in it after remove() returns.
  void add(AsyncEvents& events);
  void remove(AsyncEvents& events);
  void add(SharedReceiveQueue& queue);
  void remove(SharedReceiveQueue& queue);
  // Completions of the queue pair are forgotten, whatever queue they are in.
  void purge_everywhere(const QueuePair& queue_pair);

  // Serves messages that have come, for whoever polls. Cheap when there are none.
  void serve_lanes();
  // What peers have answered by now has been heard when this returns. Without the lock of a queue pair.
  void hear_answers();
  // Whoever polls is about to sleep: what comes from now on wakes the engine.
  void expect_sleep();
  // Some peer has ended: requests that it was to answer end.
  void on_peer_dead();
  // Only while a request is being served: of that number, or null.
  SharedReceiveQueue* shared_receives_in_turn(uint32_t number) const;

  // Messages that were lost as unreliable ones may be.
  void count_dropped_message() { dropped_messages_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t dropped_messages() const { return dropped_messages_.load(std::memory_order_relaxed); }

  // The engine's turn, part one: what peers found wrong with operations on our queue pairs. `from` is the peer whose
  // notices are read; one thread at a time.
  void take_notices(local::Peer& from);
  // Part two: carries on work that nobody who polls is carrying on, and leads the users of broken completion queues to
  // ERR.
  Backlog carry_on(Instant now);

 private:
  const Surroundings surroundings_;
  const DeviceAttributes attributes_;
  const uint32_t message_limit_ = PortAttributes{}.max_msg_sz;

  std::mutex refresh_mutex_;  // held while addresses are read and taken in, so that no older list replaces a newer one
  // Hands what the lanes bring to the queue pairs that it is for.
  class LaneReceiver final : public local::Lanes::Receiver {
   public:
    explicit LaneReceiver(Device& device) : device_(device) {}
    std::optional<local::ReplyFields> serve(const local::Request& request) override;
    void deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply) override;

   private:
    Device& device_;
  };

  Backlog carry_on_lanes();

  local::Lanes lanes_;
  LaneReceiver lane_receiver_{*this};
  // How often somebody has polled since a queue was last armed, counted until he is known to spin: who polls on and on
  // serves the lanes himself, and the engine takes one off to see whether he still does.
  std::atomic<uint32_t> polls_{0};
  std::atomic<uint64_t> dropped_messages_{0};

  mutable std::mutex gid_mutex_;
  GidTable gids_;

  std::mutex events_mutex_;  // guards what follows; taken with any object's lock held
  std::unordered_set<AsyncEvents*> events_;

  std::atomic<uint32_t> last_pd_{0};
  WindowTable windows_;

  // Guards what follows; taken before any object's own lock. Queue pairs and shared receive queues come and go between
  // two turns of the lanes, so that who has the turn finds them without it.
  std::shared_mutex registry_mutex_;
  std::unordered_map<uint32_t, QueuePair*> queue_pairs_;
  std::unordered_set<CompletionQueue*> completion_queues_;
  std::unordered_map<uint32_t, SharedReceiveQueue*> shared_receive_queues_;  // by number
};

}  // namespace verbatim::model
