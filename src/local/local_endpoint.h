// One direction of a queue pair to another of the same host: WRITE and READ are executed by the requester's own
// thread on the target's memory, after the checks a NIC's responder would make in the target's tables. No packets.
//
//   per slice:  resolve the peer → publish the touch → the target's queue pair (ready? names us? operation allowed?)
//               → the target's region (key, PD, range, right) → our own SGEs → copy → withdraw the touch
//
// Not thread-safe: used under the lock of the queue pair that owns it. Never blocks.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <string>

#include "local/adapter.h"
#include "local/peer_table.h"
#include "proto/work.h"

namespace verbatim::local {

// What is copied under one touch: bounds how long a revocation waits and how long posting takes. Bytes.
inline constexpr uint64_t kSliceBytes = 64 * 1024;
inline constexpr int kMaxSges = 32;

// Why an operation ended in error, or why it waits.
struct Verdict {
  CompletionStatus status = CompletionStatus::success;
  Reason reason = Reason::none;
  // The values that disagreed, in words; empty unless the log wants them.
  std::string detail;
};

enum class Advance {
  done,     // the whole message is in place
  more,     // a slice was copied, others follow
  waiting,  // not ready: nothing was done, try again until the deadline; the verdict says for what
  failed,   // the verdict says why; the target has been told where the failure is also its own
};

class LocalEndpoint {
 public:
  // The references outlive the endpoint.
  LocalEndpoint(Adapter& adapter, PeerTable& peers);

  struct Path {
    Qpn own;
    Qpn peer;
    PdId pd;
    Gid own_gid;
    Gid peer_gid;
  };
  // Learns its peer and asks to be introduced. Fails, and is not connected, when nobody can be introduced.
  Status connect(const Path& path);

  // Executes at most kSliceBytes of `work`, from byte `offset` on, which it moves forward.
  Advance advance(const SendWork& work, uint64_t& offset, Verdict& verdict);

  // The process of the other end, once known.
  const std::shared_ptr<Peer>& peer() const { return peer_; }
  const Path& path() const { return path_; }

 private:
  struct Slice {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool last = false;
    int pieces = 0;
    std::array<iovec, kMaxSges> local;
  };

  Advance resolve(Verdict& verdict);
  bool target_ready(const QueuePairFields& target, Verdict& verdict) const;
  bool operation_allowed(const QueuePairFields& target, const SendWork& work, Verdict& verdict);
  bool find_region(const QueuePairFields& target, const SendWork& work, RegionFields& region, Verdict& verdict);
  bool gather(const SendWork& work, uint64_t offset, Slice& slice, Verdict& verdict) const;
  // Where the SGE's first byte is in this process, or null.
  uint8_t* locate(const Sge& sge, const SendWork& work, Verdict& verdict) const;
  Advance copy(const SendWork& work, const RegionFields& region, const Slice& slice, Verdict& verdict);
  bool copy_direct(const SendWork& work, uint8_t* remote, const Slice& slice, Verdict& verdict);
  bool copy_by_kernel(const SendWork& work, uint64_t remote, const Slice& slice, Verdict& verdict);
  // Also the target's error: leaves a notice and rings.
  void tell_peer(NoticeKind kind);

  Adapter& adapter_;
  PeerTable& peers_;
  Path path_;
  std::shared_ptr<Peer> peer_;
  // The last region used and its mapping here, so that a stream of operations looks it up once.
  RegionFields mapped_region_;
  std::shared_ptr<const PeerMapping> mapping_;
};

}  // namespace verbatim::local
