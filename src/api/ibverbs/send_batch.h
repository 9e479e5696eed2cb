// The requests that a program builds between ibv_wr_start(3) and ibv_wr_complete(3) or ibv_wr_abort(3). They are kept
// here, with copies of their SGEs and inline data, until the queue pair may see them. A mistake is remembered and ends
// the batch with an error; what is built after it is not looked at.
// Not thread-safe: the queue pair's user holds it from wr_start on (lock()), as on hardware.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "proto/work.h"

namespace verbatim::api {

class SendBatch {
 public:
  // As the queue pair's: its type, SGEs a request, bytes of inline data a request.
  SendBatch(QueuePairType type, uint32_t max_sges, uint32_t max_inline_data)
      : type_(type), max_sges_(max_sges), max_inline_data_(max_inline_data) {}

  // Waits for whoever is building. Afterwards the batch is empty.
  void lock();
  void unlock() { mutex_.unlock(); }

  // Begins a request, which has no data yet. The setters below are of the last request: EINVAL when there is none.
  void add(const SendWork& work);
  // EINVAL: too many, or an operation that has no data.
  void set_sges(std::span<const Sge> sges);
  // Copies `pieces` one after the other; their lkeys are not looked at. EINVAL: more than the queue pair takes, or an
  // operation other than SEND and WRITE.
  void set_inline_data(std::span<const Sge> pieces);
  // EINVAL where the queue pair is not UD.
  void set_datagram(const DatagramTarget& target);
  // EINVAL where the queue pair is not an XRC initiator.
  void set_shared_queue(uint32_t number);
  void fail(int error);

  // The first error, or what was built, in order: good until the batch changes. EINVAL when a request of a UD or XRC
  // queue pair does not say where it goes.
  Result<std::span<const SendWork>> finish();

 private:
  // What is known of a request beside its SendWork.
  struct Parts {
    size_t first_sge = 0;
    size_t sge_count = 0;
    size_t inline_begin = 0;  // of its bytes in inline_data_
    bool addressed = false;
  };
  bool has_request();

  const QueuePairType type_;
  const uint32_t max_sges_;
  const uint32_t max_inline_data_;

  std::mutex mutex_;  // guards what follows
  int error_ = 0;
  std::vector<SendWork> works_;
  std::vector<Parts> parts_;  // one a request
  std::vector<Sge> sges_;     // an inline one's address is set by finish()
  std::vector<std::byte> inline_data_;
};

}  // namespace verbatim::api
