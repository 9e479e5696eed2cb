#include "model/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/undo.h"
#include "model/queue_pair.h"

namespace verbatim::model {
namespace {

// Who polls this often is carrying its work on; the engine stays out of the way.
constexpr Duration kLease = Duration::milliseconds(1);
// How many slices of each queue pair the engine does before it looks at its other duties.
constexpr int kEnginePasses = 16;
// A poll so long ago that its lease is over.
constexpr int64_t kNoLease = 0;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(Device& device, AsyncEvents& events, void* handle,
                                                                 int entries, const CompletionQueueOptions& options) {
  if (entries < 1 || entries > device.attributes().max_cqe) return Status{EINVAL};
  if (!device.cqs.take(device.attributes().max_cq)) return Status{ENOMEM};
  Undo taken([&] { device.cqs.give_back(); });
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(device, events, handle, entries, options));
  taken.keep();
  device.add(*queue);
  return queue;
}

CompletionQueue::CompletionQueue(Device& device, AsyncEvents& events, void* handle, int entries,
                                 const CompletionQueueOptions& options)
    : device_(device),
      events_(events),
      handle_(handle),
      options_(options),
      capacity_(static_cast<size_t>(entries)),
      places_(capacity_),
      ring_(std::make_unique_for_overwrite<Entry[]>(places_.count())) {}

CompletionQueue::~CompletionQueue() {
  device_.remove(*this);
  if (options_.channel) options_.channel->retire(completion_acknowledgement_);
  events_.retire(acknowledgement_);
  device_.cqs.give_back();
}

int CompletionQueue::entries() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(capacity_);
}

Status CompletionQueue::resize(int entries) {
  if (entries < 1 || entries > device_.attributes().max_cqe) return {EINVAL};
  const auto capacity = static_cast<size_t>(entries);
  const RingPlaces places(capacity);
  std::unique_ptr<Entry[]> ring = std::make_unique_for_overwrite<Entry[]>(places.count());
  std::lock_guard lock(mutex_);
  const uint64_t added = added_.load(std::memory_order_relaxed);
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  if (capacity < added - taken) return {EINVAL};
  for (uint64_t i = taken; i != added; ++i) ring[places.of(i)] = ring_[places_.of(i)];
  ring_ = std::move(ring);
  capacity_ = capacity;
  places_ = places;
  return Status::success();
}

void CompletionQueue::push(const Completion& completion, QueuePair& source, WorkQueueKind kind, uint64_t retires) {
  std::lock_guard lock(mutex_);
  if (!make_room(completion)) return;
  const uint64_t number = added_.load(std::memory_order_relaxed);
  Entry& entry = ring_[places_.of(number)];
  entry = {completion, &source, kind, retires};
  if (options_.timestamps) entry.completion.added_at = device_.clock().now();
  added_.store(number + 1, std::memory_order_release);  // pairs with holds()
  switch (notification_.on_completion(completion, device_.clock())) {
    case CompletionNotification::Owed::event:
      announce();
      break;
    case CompletionNotification::Owed::held:
      device_.waker().wake();
      break;
    case CompletionNotification::Owed::nothing:
      break;
  }
}

bool CompletionQueue::make_room(const Completion& completion) {
  if (broken()) return false;
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  if (added_.load(std::memory_order_relaxed) - taken < capacity_) return true;
  if (options_.ignore_overrun) {
    retire(ring_[places_.of(taken)]);
    taken_.store(taken + 1, std::memory_order_relaxed);
    return true;
  }
  log(LogLevel::warn, "CQ of {} entries: the completion of WR {:#x} of QP {:#08x} finds no room; the CQ is dead ({})",
      capacity_, completion.work_id, completion.qpn.value, describe(Reason::completion_queue_full).name);
  broken_.store(true, std::memory_order_relaxed);
  break_is_news_.store(true, std::memory_order_release);  // pairs with take_news_of_break()
  device_.waker().wake();
  events_.raise({AsyncEventType::completion_queue_error, handle_, 0, &acknowledgement_});
  return false;
}

bool CompletionQueue::take_news_of_break() {
  return break_is_news_.load(std::memory_order_relaxed) &&
         break_is_news_.exchange(false, std::memory_order_acquire);  // pairs with make_room()
}

void CompletionQueue::arm(bool solicited_only) {
  {
    std::lock_guard lock(mutex_);
    notification_.arm(solicited_only);
  }
  // Whoever arms is about to sleep: the work of others is the engine's from now on.
  polled_at_.store(kNoLease, std::memory_order_relaxed);
  device_.expect_sleep();
  if (feeder_count_.load(std::memory_order_relaxed) != 0) device_.waker().wake();
}

void CompletionQueue::moderate(const Moderation& moderation) {
  std::lock_guard lock(mutex_);
  if (notification_.moderate(moderation)) announce();
}

void CompletionQueue::announce() {
  if (options_.channel) options_.channel->raise({handle_, &completion_acknowledgement_});
}

Backlog CompletionQueue::announce_what_was_held(Instant now) {
  if (now >= notification_.due()) {
    std::lock_guard lock(mutex_);
    if (notification_.on_time(now)) announce();
  }
  return notification_.due() == kNever ? Backlog::none : Backlog::waiting;
}

void CompletionQueue::retire(const Entry& entry) { entry.source->retire(entry.kind, entry.retires); }

void CompletionQueue::purge(const QueuePair& source) {
  std::lock_guard lock(mutex_);
  const uint64_t added = added_.load(std::memory_order_relaxed);
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  uint64_t kept = taken;
  for (uint64_t i = taken; i != added; ++i)
    if (ring_[places_.of(i)].source != &source) ring_[places_.of(kept++)] = ring_[places_.of(i)];
  added_.store(kept, std::memory_order_relaxed);
}

void CompletionQueue::add_feeder(QueuePair& source) {
  {
    std::lock_guard lock(arrivals_mutex_);
    arrivals_.push_back(&source);
  }
  if (feeder_count_.fetch_add(1, std::memory_order_relaxed) != 0) return;
  // Whoever posts will most likely poll: a lease from now on.
  take_lease();
  device_.waker().wake();
}

void CompletionQueue::remove_feeder(QueuePair& source) {
  std::lock_guard running(feeders_mutex_);
  std::lock_guard lock(arrivals_mutex_);
  const size_t removed = std::erase(feeders_, &source) + std::erase(arrivals_, &source);
  feeder_count_.fetch_sub(static_cast<uint32_t>(removed), std::memory_order_relaxed);
}

void CompletionQueue::take_lease() {
  // Who has armed the queue and looks once more is about to sleep nevertheless.
  if (!notification_.armed()) polled_at_.store(device_.clock().now().ns, std::memory_order_relaxed);
}

void CompletionQueue::carry_on_polled() {
  take_lease();
  if (!feeders_mutex_.try_lock()) return;
  std::lock_guard running(feeders_mutex_, std::adopt_lock);
  run_feeders();
}

Backlog CompletionQueue::carry_on(Instant now) {
  const Backlog held = announce_what_was_held(now);
  if (feeder_count_.load(std::memory_order_relaxed) == 0) return held;
  if (now - Instant{polled_at_.load(std::memory_order_relaxed)} < kLease) return Backlog::waiting;
  std::lock_guard running(feeders_mutex_);
  Backlog backlog = Backlog::working;
  for (int pass = 0; pass < kEnginePasses && backlog == Backlog::working; ++pass) backlog = run_feeders();
  return std::max(backlog, held);
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
