// Tells who waits in rdma_get_send_comp(3) or rdma_get_recv_comp(3) that the peer has gone: the queue pair of a
// connected synchronous identifier is led to ERR when its peer disconnects or dies, so that what was posted comes back.
// Nobody else would: the event that says so waits on a channel that only the identifier's own calls read.
//
// An event that came before and was not taken hides the news until it is. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "api/rdmacm/objects.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::api {

class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // A connected identifier with a queue pair. Starts the thread that watches, for the first. Fails with the errno of
  // what could not be had.
  Status add(IdObject& id);
  // From the return on its queue pair is left alone.
  void remove(const IdObject& id);

 private:
  Status start();
  [[noreturn]] void run();
  void look(uint64_t number);

  std::mutex mutex_;  // guards what follows
  FileDescriptor epoll_;
  std::map<uint64_t, IdObject*> watched_;
  uint64_t last_number_ = 0;
};

}  // namespace verbatim::api
