// A completion queue (ibv_poll_cq(3), ibv_req_notify_cq(3)), and the queue pairs that have unfinished work for it:
// whoever polls carries that work on, or the engine when nobody does. Thread-safe.
//
// Locks, in the order in which they may be taken: feeders, then a queue pair's (by try_lock), then the ring's, then
// that of an event queue.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/ring_places.h"
#include "base/spin_lock.h"
#include "model/async_events.h"
#include "model/completion_channel.h"
#include "model/completion_notification.h"
#include "model/device.h"
#include "proto/work.h"

namespace verbatim::model {

// What a queue may have beyond completions to poll.
struct CompletionQueueOptions {
  // Where its completion events go; null: nowhere. Outlives the queue.
  CompletionChannel* channel = nullptr;
  // A completion that finds no room takes the oldest one's place, and the queue lives on.
  bool ignore_overrun = false;
  // Each completion says when it was added.
  bool timestamps = false;
};

class CompletionQueue {
 public:
  // `handle` is the C object that events name. ENOMEM beyond the device's number of queues, EINVAL for an entry count
  // outside 1 … max_cqe.
  static Result<std::unique_ptr<CompletionQueue>> create(Device& device, AsyncEvents& events, void* handle, int entries,
                                                         const CompletionQueueOptions& options = {});
  // Nobody uses it any more (in_use() is false). Waits until its events are acknowledged.
  ~CompletionQueue();

  int entries() const;
  bool empty() const { return !holds(1); }
  // EINVAL: outside 1 … max_cqe, or fewer than the completions that are in it.
  Status resize(int entries);
  // Of its asynchronous events, and of its completion events.
  EventAcknowledgement& acknowledgement() { return acknowledgement_; }
  EventAcknowledgement& completion_acknowledgement() { return completion_acknowledgement_; }
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }  // pairs with remove_user()
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_user() { users_.fetch_sub(1, std::memory_order_release); }

  // Adds a completion of a queue of `source`. When the caller takes it out, the first `retires` requests ever posted
  // there are done with, and their room is free. A completion that finds no room is lost, and with it the queue: it
  // takes in nothing more, and the engine leads the queue pairs that use it to ERR.
  void push(const Completion& completion, QueuePair& source, WorkQueueKind kind, uint64_t retires);
  bool broken() const { return broken_.load(std::memory_order_relaxed); }
  // Whether it broke since this was last asked. For Device.
  bool take_news_of_break();

  // The channel gets an event for the next completion that is added; with `solicited_only`, for the next that is
  // solicited or an error.
  void arm(bool solicited_only);
  void moderate(const Moderation& moderation);

  // Takes up to `most` completions, oldest first, into `take(const Completion&)`; returns how many.
  template <class Take>
  int poll(int most, Take&& take);

  // Forgets the completions of a queue pair that is reset or destroyed.
  void purge(const QueuePair& source);

  // `source` has work that no post call will finish. Called with its lock held; idempotent until it is finished.
  void add_feeder(QueuePair& source);
  // After this returns nobody carries on work of `source`. Called without its lock.
  void remove_feeder(QueuePair& source);
  // The engine's turn: does what a poll would do, if nobody has polled for a while.
  Backlog carry_on(Instant now);

 private:
  struct Entry {
    Completion completion;
    QueuePair* source;
    WorkQueueKind kind;
    uint64_t retires;
  };

  CompletionQueue(Device& device, AsyncEvents& events, void* handle, int entries,
                  const CompletionQueueOptions& options);
  bool make_room(const Completion& completion);
  void announce();
  void take_lease();
  Backlog announce_what_was_held(Instant now);
  void carry_on_polled();
  // Whether a poll for so many would find them. Takes no lock: most polls find nothing.
  bool holds(int most) const {
    const uint64_t taken = taken_.load(std::memory_order_relaxed);
    const uint64_t added = added_.load(std::memory_order_acquire);  // pairs with push()
    return added - taken >= static_cast<uint64_t>(std::max(most, 1));
  }
  Backlog run_feeders();
  static void retire(const Entry& entry);

  Device& device_;
  AsyncEvents& events_;
  void* const handle_;
  const CompletionQueueOptions options_;
  std::atomic<int> users_{0};
  std::atomic<bool> broken_{false};
  // Pairs push() with take_news_of_break().
  std::atomic<bool> break_is_news_{false};
  EventAcknowledgement acknowledgement_;
  EventAcknowledgement completion_acknowledgement_;

  mutable SpinLock mutex_;  // guards the ring and the notification
  size_t capacity_;
  RingPlaces places_;
  std::unique_ptr<Entry[]> ring_;
  // Written under mutex_.
  std::atomic<uint64_t> added_{0};
  std::atomic<uint64_t> taken_{0};
  CompletionNotification notification_;

  // How many feeders there are, for those who only want to know whether any. Written under feeders_mutex_.
  std::atomic<uint32_t> feeder_count_{0};
  std::atomic<int64_t> polled_at_{0};
  std::mutex feeders_mutex_;
  std::vector<QueuePair*> feeders_;
  // Queue pairs that became feeders while their lock was held; taken over by the next run.
  std::mutex arrivals_mutex_;
  std::vector<QueuePair*> arrivals_;
};

template <class Take>
int CompletionQueue::poll(int most, Take&& take) {
  // Who has not taken what is there needs no more yet, so that messages come no faster than receives are posted.
  if (device_.lanes().in_use() && !holds(most)) device_.serve_lanes();
  if (feeder_count_.load(std::memory_order_relaxed) != 0) carry_on_polled();
  if (empty()) return 0;
  std::lock_guard lock(mutex_);
  const uint64_t added = added_.load(std::memory_order_relaxed);
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  int count = 0;
  for (; count < most && taken != added; ++count) {
    const Entry& entry = ring_[places_.of(taken++)];
    take(entry.completion);
    retire(entry);
  }
  taken_.store(taken, std::memory_order_relaxed);
  return count;
}

}  // namespace verbatim::model
