#include "model/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "model/queue_pair.h"

namespace verbatim::model {
namespace {

// Who polls this often is carrying its work on; the engine stays out of the way.
constexpr Duration kLease = Duration::milliseconds(1);
// How many slices of each queue pair the engine does before it looks at its other duties.
constexpr int kEnginePasses = 16;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(Device& device, AsyncEvents& events, void* handle,
                                                                 int entries) {
  if (entries < 1 || entries > device.attributes().max_cqe) return Status{EINVAL};
  if (!device.cqs.take(device.attributes().max_cq)) return Status{ENOMEM};
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(device, events, handle, entries));
  device.add(*queue);
  return queue;
}

CompletionQueue::CompletionQueue(Device& device, AsyncEvents& events, void* handle, int entries)
    : device_(device),
      events_(events),
      handle_(handle),
      capacity_(static_cast<size_t>(entries)),
      ring_(std::make_unique_for_overwrite<Entry[]>(capacity_)) {}

CompletionQueue::~CompletionQueue() {
  device_.remove(*this);
  events_.retire(acknowledgement_);
  device_.cqs.give_back();
}

void CompletionQueue::push(const Completion& completion, QueuePair& source, WorkQueueKind kind, uint64_t retires) {
  std::lock_guard lock(mutex_);
  if (added_ - taken_ < capacity_) {
    ring_[added_++ % capacity_] = {completion, &source, kind, retires};
    return;
  }
  if (broken_.exchange(true, std::memory_order_relaxed)) return;
  log(LogLevel::warn, "CQ of {} entries: the completion of WR {:#x} of QP {:#08x} finds no room; the CQ is dead ({})",
      capacity_, completion.work_id, completion.qpn.value, describe(Reason::completion_queue_full).name);
  events_.raise({AsyncEventType::completion_queue_error, handle_, 0, &acknowledgement_});
}

void CompletionQueue::retire(const Entry& entry) { entry.source->retire(entry.kind, entry.retires); }

void CompletionQueue::purge(const QueuePair& source) {
  std::lock_guard lock(mutex_);
  uint64_t kept = taken_;
  for (uint64_t i = taken_; i != added_; ++i)
    if (ring_[i % capacity_].source != &source) ring_[kept++ % capacity_] = ring_[i % capacity_];
  added_ = kept;
}

void CompletionQueue::add_feeder(QueuePair& source) {
  {
    std::lock_guard lock(arrivals_mutex_);
    arrivals_.push_back(&source);
  }
  if (feeder_count_.fetch_add(1, std::memory_order_relaxed) != 0) return;
  // Whoever posts will most likely poll: a lease from now on.
  polled_at_.store(device_.clock().now().ns, std::memory_order_relaxed);
  device_.waker().wake();
}

void CompletionQueue::remove_feeder(QueuePair& source) {
  std::lock_guard running(feeders_mutex_);
  std::lock_guard lock(arrivals_mutex_);
  const size_t removed = std::erase(feeders_, &source) + std::erase(arrivals_, &source);
  feeder_count_.fetch_sub(static_cast<uint32_t>(removed), std::memory_order_relaxed);
}

void CompletionQueue::carry_on_polled() {
  polled_at_.store(device_.clock().now().ns, std::memory_order_relaxed);
  if (!feeders_mutex_.try_lock()) return;
  std::lock_guard running(feeders_mutex_, std::adopt_lock);
  run_feeders();
}

Backlog CompletionQueue::carry_on(Instant now) {
  if (feeder_count_.load(std::memory_order_relaxed) == 0) return Backlog::none;
  if (now - Instant{polled_at_.load(std::memory_order_relaxed)} < kLease) return Backlog::waiting;
  std::lock_guard running(feeders_mutex_);
  Backlog backlog = Backlog::working;
  for (int pass = 0; pass < kEnginePasses && backlog == Backlog::working; ++pass) backlog = run_feeders();
  return backlog;
}

Backlog CompletionQueue::run_feeders() {
  {
    std::lock_guard lock(arrivals_mutex_);
    feeders_.insert(feeders_.end(), arrivals_.begin(), arrivals_.end());
    arrivals_.clear();
  }
  Backlog backlog = Backlog::none;
  const size_t finished = std::erase_if(feeders_, [&](QueuePair* source) {
    const Backlog left = source->carry_on();
    backlog = std::max(backlog, left);
    return left == Backlog::none;
  });
  feeder_count_.fetch_sub(static_cast<uint32_t>(finished), std::memory_order_relaxed);
  return backlog;
}

}  // namespace verbatim::model
