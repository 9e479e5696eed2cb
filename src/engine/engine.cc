#include "engine/engine.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "base/event_counter.h"
#include "engine/liveness.h"

namespace verbatim::engine {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr int kWaitingMilliseconds = 1;
constexpr int kEvents = 16;

Status watch(int epoll, int fd, uint32_t index) {
  epoll_event event{.events = EPOLLIN, .data = {.u32 = index}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? Status::success() : Status{errno};
}

void empty_eventfd(int fd) {
  uint64_t value;
  [[maybe_unused]] const ssize_t count = read(fd, &value, sizeof value);
}

// A program's signals are for its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Engine::~Engine() {
  if (!running()) return;
  stopping_.store(true, std::memory_order_release);  // pairs with main()
  ring();
  pthread_join(thread_, nullptr);
}

Status Engine::start(model::Device& device, std::vector<Source> sources, std::atomic<uint32_t>* liveness,
                     std::atomic<uint32_t>* awake) {
  std::lock_guard lock(start_mutex_);
  if (running()) return Status::success();
  device_ = &device;
  sources_ = std::move(sources);
  liveness_ = liveness;
  if (awake) awake_.store(awake, std::memory_order_relaxed);
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  wakeup_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wakeup_.valid()) return {errno};
  const int wakeup = wakeup_.get();
  sources_.push_back({wakeup, [wakeup] { empty_eventfd(wakeup); }});
  for (uint32_t i = 0; i < sources_.size(); ++i)
    if (Status status = watch(epoll_.get(), sources_[i].fd, i); !status.ok()) return status;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  int error;
  {
    SignalsBlocked blocked;
    error = pthread_create(&thread_, &attributes, &Engine::main, this);
  }
  pthread_attr_destroy(&attributes);
  if (error) return {error};
  // Peers may look at the word as soon as they are introduced, which happens after this.
  if (liveness_) wait_until_alive(*liveness_);
  running_.store(true, std::memory_order_seq_cst);  // pairs with running() and wake()
  // Who called wake() since the thread began to look for work found nobody running to be woken.
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with wake()
  ring();
  return Status::success();
}

void* Engine::main(void* self) {
  auto* engine = static_cast<Engine*>(self);
  pthread_setname_np(pthread_self(), "verbatim");
  LivenessMark mark;
  if (engine->liveness_) mark.set(*engine->liveness_);
  while (!engine->stopping_.load(std::memory_order_acquire)) engine->turn();  // pairs with ~Engine
  return nullptr;
}

void Engine::turn() {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.get(), events, kEvents, patience_);
  std::lock_guard lock(turn_mutex_);
  for (int i = 0; i < count; ++i) sources_[events[i].data.u32].handle();
  patience_ = patience(device_->carry_on(clock_.now()));
}

int Engine::patience(model::Backlog backlog) {
  std::atomic<uint32_t>& awake = *awake_.load(std::memory_order_relaxed);
  switch (backlog) {
    case model::Backlog::working:
      awake.store(1, std::memory_order_relaxed);
      return 0;
    case model::Backlog::waiting:
      awake.store(1, std::memory_order_relaxed);
      return kWaitingMilliseconds;
    case model::Backlog::none:
      break;
  }
  awake.store(0, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with wake(): either it writes, or we see its work
  if (device_->carry_on(clock_.now()) == model::Backlog::none) return -1;
  awake.store(1, std::memory_order_relaxed);
  return kWaitingMilliseconds;
}

void Engine::wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with patience()
  if (!awake_.load(std::memory_order_relaxed)->exchange(1, std::memory_order_seq_cst) &&
      running_.load(std::memory_order_seq_cst))
    ring();
}

void Engine::ring() { add_to_eventfd(wakeup_.get()); }

void Engine::abandon() {
  running_.store(false, std::memory_order_relaxed);
  epoll_.reset();
  wakeup_.reset();
}

}  // namespace verbatim::engine
