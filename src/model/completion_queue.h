// A completion queue by polling (ibv_poll_cq(3)), and the queue pairs that have unfinished work for it: whoever polls
// carries that work on. Thread-safe.
//
// Locks, in the order in which they may be taken: feeders, then a queue pair's (by try_lock), then the ring's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "model/async_events.h"
#include "model/device.h"
#include "proto/work.h"

namespace verbatim::model {

class CompletionQueue {
 public:
  // `handle` is the C object that events name. ENOMEM beyond the device's number of queues, EINVAL for an entry count
  // outside 1 … max_cqe.
  static Result<std::unique_ptr<CompletionQueue>> create(Device& device, AsyncEvents& events, void* handle,
                                                         int entries);
  // Nobody uses it any more (in_use() is false).
  ~CompletionQueue();

  int entries() const { return static_cast<int>(capacity_); }
  EventAcknowledgement& acknowledgement() { return acknowledgement_; }
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }  // pairs with remove_user()
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_user() { users_.fetch_sub(1, std::memory_order_release); }

  // Adds a completion of a queue of `source`. When the caller takes it out, the first `retires` requests ever posted
  // there are done with, and their room is free. A completion that finds no room is lost, and with it the queue.
  void push(const Completion& completion, QueuePair& source, WorkQueueKind kind, uint64_t retires);
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

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

  CompletionQueue(Device& device, AsyncEvents& events, void* handle, int entries);
  void carry_on_polled();
  Backlog run_feeders();
  static void retire(const Entry& entry);

  Device& device_;
  AsyncEvents& events_;
  void* const handle_;
  const size_t capacity_;
  std::atomic<int> users_{0};
  std::atomic<bool> broken_{false};
  EventAcknowledgement acknowledgement_;

  std::mutex mutex_;  // guards the ring
  std::unique_ptr<Entry[]> ring_;
  uint64_t added_ = 0;
  uint64_t taken_ = 0;

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
  if (feeder_count_.load(std::memory_order_relaxed) != 0) carry_on_polled();
  std::lock_guard lock(mutex_);
  int count = 0;
  for (; count < most && taken_ != added_; ++count, ++taken_) {
    const Entry& entry = ring_[taken_ % capacity_];
    take(entry.completion);
    retire(entry);
  }
  return count;
}

}  // namespace verbatim::model
