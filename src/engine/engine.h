// The process's own thread: started when first needed, asleep in epoll while there is nothing to do. A turn is
//
//   wait for a descriptor (or 1 ms while work waits for a peer) → its handler → Device::carry_on → again
//
// Its end is the end of the process: the kernel writes that into the liveness word for the peers to see.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "model/device.h"

namespace verbatim::engine {

class Engine final : public model::Waker {
 public:
  // A descriptor to watch, borrowed, and what to do on the engine's thread when it is readable.
  struct Source {
    int fd;
    std::function<void()> handle;
  };

  explicit Engine(const Clock& clock) : clock_(clock) {}
  // Stops the thread; only tests end an engine, a process keeps it until it ends.
  ~Engine();

  // Starts the thread, once; `liveness`, when given, is the futex word that the kernel marks at its end, and `awake`
  // the word that says whether it looks for work by itself (one of its own when there is none). The device and the
  // sources outlive the engine. Fails with the errno of epoll, eventfd or pthread_create.
  Status start(model::Device& device, std::vector<Source> sources, std::atomic<uint32_t>* liveness,
               std::atomic<uint32_t>* awake = nullptr);
  bool running() const { return running_.load(std::memory_order_acquire); }  // pairs with start()

  void wake() override;

  // Between the two the thread holds no lock but this, and has nothing half done. pause() waits for its turn to end.
  void pause() { turn_mutex_.lock(); }
  void resume() { turn_mutex_.unlock(); }

  // In the child of a fork the thread is gone; closes what it used.
  void abandon();

 private:
  static void* main(void* self);
  void turn();
  void ring();
  int patience(model::Backlog backlog);

  const Clock& clock_;
  model::Device* device_ = nullptr;
  std::vector<Source> sources_;
  std::atomic<uint32_t>* liveness_ = nullptr;

  std::mutex start_mutex_;
  std::atomic<bool> running_{false};
  std::atomic<bool> stopping_{false};
  // Not 0 while the engine will look for work without being woken. Pairs wake(), also a peer's, with patience().
  std::atomic<std::atomic<uint32_t>*> awake_{&own_awake_};
  std::atomic<uint32_t> own_awake_{0};
  pthread_t thread_{};
  FileDescriptor epoll_;
  FileDescriptor wakeup_;
  std::mutex turn_mutex_;  // held while the thread does not sleep; taken before every other lock
  int patience_ = 0;       // milliseconds until the next turn, -1 for ever; engine thread only
};

}  // namespace verbatim::engine
