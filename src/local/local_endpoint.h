// One direction of a queue pair to another of the same host: WRITE, READ and atomics are executed by the requester's
// own thread on the target's memory, after the checks a NIC's responder would make in the target's tables; a thread
// that was interrupted since makes them again before it touches anything more (touch_record.h). What needs the target's
// part (a receive, or memory that only it can reach) is posted to its lane, whole or in parts. No packets.
//
//   per slice:    resolve the peer → publish the touch → the target's queue pair (ready? names us? operation allowed?)
//                 → the target's region (key, PD, range, right) → our own SGEs → copy → withdraw the touch
//   per message:  resolve the peer → publish the touch → the target's queue pair → has it a receive? → our own SGEs
//                 → the lane → wake the target
//
// Not thread-safe: used under the lock of the queue pair that owns it. Never blocks.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <optional>

#include "local/adapter.h"
#include "local/lanes.h"
#include "local/own_memory.h"
#include "local/peer_table.h"
#include "proto/work.h"

namespace verbatim::local {

// What is copied under one touch: bounds how long a revocation waits and how long posting takes. Bytes. So much that
// the price of a system call does not matter.
inline constexpr uint64_t kSliceBytes = ProcessMemory::kMaxLength;
// What travels in a lane at once of what the other side can neither map nor reach through the kernel.
inline constexpr uint64_t kPartBytes = kLaneMessageBytes;

enum class Advance {
  done,        // the whole message is in place
  more,        // a slice was copied, others follow
  waiting,     // not ready: nothing was done, try again until the deadline; the verdict says for what
  failed,      // the verdict says why; the target has been told where the failure is also its own
  request,     // the target has to do it itself from `offset` on: post() it, or post_part() what moves data
  posted,      // the target will answer
  full,        // the lane is; try again
  no_receive,  // the target has no receive for it: nothing was done
};

// What goes with a message besides the work request.
struct Envelope {
  Awaiting awaiting;
  uint32_t stream = 0;
  // The target counts the stream's messages from this one on.
  bool first = false;
  // How many of the target's receives are used up, by its count (ReceiveCount) and with what is in flight.
  uint32_t receives_used = 0;
  // The target is known to have a receive for it: from its credits, or since it took one when this was tried before.
  bool receive_known = false;
};

// Whether it takes a receive at the target.
bool takes_receive(SendOpcode opcode);
bool is_atomic(SendOpcode opcode);
// Whether it moves data between its SGEs and the target's region: not what changes a single word, nor what touches
// none.
bool moves_data(SendOpcode opcode);
// The qp_access_flags and the region's right that it needs; 0 for those that only need a receive.
uint32_t right_needed(SendOpcode opcode);
// The target's region that `work` names, or false and the verdict: its key, domain, right and range. `target` is the
// queue pair it comes to; `region` is kept by who asks again and again (SegmentView::refresh).
bool find_region(const SegmentView& view, const QueuePairFields& target, const SendWork& work, KnownRegion& region,
                 Verdict& verdict);
// Executes an atomic on a word of this process; false and the fault if there is none. `before`: what it was.
bool execute_atomic(const SendWork& work, uint64_t* word, uint64_t* before, CopyFault* fault);
// The same on somebody else's, by a thread that is watched for atomic_sequence() and turns back when interrupted.
const rseq_cs& atomic_sequence(SendOpcode opcode);
CopyEnd execute_atomic_watched(const SendWork& work, uint64_t* word, uint64_t* before, CopyFault* fault);

class LocalEndpoint {
 public:
  // The references outlive the endpoint.
  LocalEndpoint(Adapter& adapter, PeerTable& peers, Lanes& lanes);

  struct Path {
    Qpn own;
    Qpn peer;
    PdId pd;
    Gid own_gid;
    Gid peer_gid;
    // What the target would refuse is its error too, and a message waits for a receive. Else it is lost (UC).
    bool reliable = true;
  };
  // Learns its peer and asks to be introduced. Fails, and is not connected, when nobody can be introduced.
  Status connect(const Path& path);

  // Executes `work` from byte `offset` on, which it moves forward, to the next multiple of kSliceBytes at most.
  Advance advance(const SendWork& work, uint64_t& offset, Verdict& verdict);

  // Shows the message to the target. Whoever delivers its answers (Lanes::Receiver) finds `envelope.awaiting` there.
  Advance post(const SendWork& work, const Envelope& envelope, Verdict& verdict);
  // The same for at most kPartBytes of the message, READ or WRITE, from byte `offset` on, which it moves forward.
  Advance post_part(const SendWork& work, const Envelope& envelope, uint64_t& offset, Verdict& verdict);
  // Puts what the target has answered where the SGEs say, from byte `offset` of them on: the word that an atomic found,
  // a part of a READ. False and the verdict if it cannot.
  bool store(const SendWork& work, uint64_t offset, std::span<const uint8_t> data, Verdict& verdict);
  // The target's min_rnr_timer, as last seen.
  uint32_t receiver_timer() const { return receiver_timer_; }

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

    // Only the first `bytes` of it.
    void cut(uint64_t bytes) {
      last = last && bytes == length;
      length = bytes;
    }
  };

  // Under a touch record. `more` also when it was interrupted, then with no more than a part of the slice.
  Advance advance_touching(const SendWork& work, uint64_t& offset, Verdict& verdict);
  // The peer's process: done, or why there is none.
  Advance find_living(Verdict& verdict);
  // Says that something of the peer is being touched, in its table of regions `entry`.
  TouchRecords::Guard touch_peer(uint32_t entry);
  // Says that something of this process is, by which only its own revocations are held up.
  TouchRecords::Guard touch_own();
  // Begins to watch the thread, unless the target's entries have changed since they were read.
  bool watch_admitted(const rseq_cs& sequence) const;
  // The target's entry; zeros when there is none.
  const QueuePairFields& read_target(const SendWork& work);
  bool target_ready(const QueuePairFields& target, Verdict& verdict) const;
  // Whether the target is ready for the operation and allows it: done, or waiting, or failed.
  Advance admit(const QueuePairFields& target, const SendWork& work, Verdict& verdict);
  bool operation_allowed(const QueuePairFields& target, const SendWork& work, uint32_t needed, Verdict& verdict);
  // Whether the target has a receive for the next message, as it says itself.
  bool has_receive(const QueuePairFields& target, const SendWork& work, const Envelope& envelope) const;
  // What a message or a part of one needs of the target: done, or why it cannot be posted.
  Advance prepare(const SendWork& work, const Envelope& envelope, bool needs_receive, Verdict& verdict);
  RequestFields fields_of(const SendWork& work, const Envelope& envelope) const;
  // The next `room` bytes, or as many as there are.
  bool gather(const SendWork& work, uint64_t offset, uint64_t room, Slice& slice, Verdict& verdict);
  // Cut the slice to what they have copied.
  Advance copy(const SendWork& work, const KnownRegion& region, TouchRecords::Guard& touch, Slice& slice,
               Verdict& verdict);
  Advance copy_direct(const SendWork& work, uint8_t* remote, Slice& slice, Verdict& verdict);
  Advance copy_by_kernel(const SendWork& work, uint64_t remote, TouchRecords::Guard& touch, Slice& slice,
                         Verdict& verdict);
  Advance change(const SendWork& work, const KnownRegion& region, const Slice& slice, Verdict& verdict);
  static bool read_word(const Slice& slice, uint64_t& word, Verdict& verdict);
  static bool scatter(const Slice& slice, std::span<const uint8_t> data, Verdict& verdict);
  const PeerMapping* mapping_of(const KnownRegion& region);
  void target_memory_gone(const SendWork& work, Verdict& verdict);
  // Also the target's error, unless the message is just lost.
  void tell_peer(NoticeKind kind) { owed_notice_ = kind; }

  Adapter& adapter_;
  PeerTable& peers_;
  Lanes& lanes_;
  Path path_;
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<LanePair> lanes_to_peer_;
  uint32_t receiver_timer_ = 0;
  std::optional<NoticeKind> owed_notice_;
  uint32_t target_stream_ = 0;
  // What was read last, so that a stream of operations copies and judges it once.
  KnownQueuePair target_;
  QueuePairFields shared_target_;  // the same with the PD of an XRC request's shared receive queue
  KnownRegion region_;
  KnownRegion own_region_;
  // The target's entry at which an operation was last allowed, and the rights that it needed.
  uint64_t admitted_at_ = QueuePairEntry::kUnseen;
  uint32_t admitted_rights_ = 0;
  // The region whose mapping, if it has one, is at hand.
  KnownRegion mapped_region_;
  std::shared_ptr<const PeerMapping> mapping_;
};

}  // namespace verbatim::local
