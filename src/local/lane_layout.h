// How messages travel between two processes of a host: each owns a lane toward the other in its own segment, which the
// other can only read. A lane holds a ring of requests with a ring of their payloads, and the answers to the requests
// that came the other way.
//
//   A's segment, lane toward B          B's segment, lane toward A
//     requests  ───────────────→ read by B
//     payload   ───────────────→
//                        read by A ←───  replies                 (to A's requests)
//     replies   ───────────────→ read by B                        (to B's requests)
//     requests, payload read by A ←────
//
// Request n is in requests[n % kLaneRequests] once its sequence is n + 1; its answer is in the other side's
// replies[n % kLaneRequests] once that one's sequence is n + 1. An answer frees the request's place and payload, so a
// reader never meets what is being overwritten, and no answer ever finds its place taken.
//
// What a message costs most is each cache line that one processor has to take from the other: one for a request of up
// to 8 bytes, and one for its answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/types.h"
#include "proto/work.h"

namespace verbatim::local {

inline constexpr uint32_t kLanes = 512;
inline constexpr uint32_t kLaneRequests = 256;
inline constexpr uint32_t kLanePayloadBytes = 256 * 1024;
// What lies beside the request itself. Bytes.
inline constexpr uint32_t kShortPayload = 72;

namespace lane_flag {
inline constexpr uint8_t kSolicited = 1;
// The payload is a list of Sge in the sender's memory, which the receiver fetches from there.
inline constexpr uint8_t kFetch = 2;
// The payload is in LaneRequest::data.
inline constexpr uint8_t kShort = 4;
// The messages of the stream are counted from this one on.
inline constexpr uint8_t kFirst = 8;
// Of a message that the receiver cannot fetch, the bytes from RequestFields::remote_address on.
inline constexpr uint8_t kPart = 16;
// A part that others follow.
inline constexpr uint8_t kMore = 32;
// What a READ asked for; `number` and `stream` are those of the question.
inline constexpr uint8_t kResponse = 64;
}  // namespace lane_flag

struct RequestFields {
  Qpn source;
  Qpn target;
  // The connection that the source speaks of (QueuePairFields::stream); messages of one are counted.
  uint32_t stream = 0;
  // Of the message; READs and WRITEs are counted for themselves.
  uint32_t number = 0;
  uint8_t opcode = 0;  // SendOpcode
  uint8_t flags = 0;   // lane_flag
  uint8_t pieces = 0;  // how many Sge are to be fetched
  uint8_t service_level = 0;
  uint32_t immediate = 0;     // or of a READ how many bytes it asks for
  uint32_t length = 0;        // of the message or part, bytes
  uint32_t payload = 0;       // where in the payload ring
  uint32_t key = 0;           // rkey of an atomic, READ or WRITE, Q_Key of a datagram
  uint32_t shared_queue = 0;  // XRC: the number of the shared receive queue
  uint64_t remote_address = 0;
};
static_assert(sizeof(RequestFields) == 48);

struct alignas(64) LaneRequest {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> words[sizeof(RequestFields) / 8];
  uint8_t data[kShortPayload];
};
static_assert(sizeof(LaneRequest) == 128);

enum class ReplyKind : uint8_t {
  none = 0,
  accepted,     // the message was taken; `value` is the result of an atomic, or 1 when the kernel fetched it
  refused,      // it ends in `status`
  not_ready,    // no receive is posted; `value` is how many were ever taken (ReceiveCount)
  absent,       // no queue pair is there that would take it
  skipped,      // an earlier message of its stream was not accepted, or the stream is over
  unreachable,  // it cannot be fetched: send it in parts
  no_room,      // for the response to a READ: ask again
};

struct ReplyFields {
  ReplyKind kind = ReplyKind::none;
  CompletionStatus status = CompletionStatus::success;
  // With accepted: how many receives the target has posted for messages to come, as far as it fits, so that the sender
  // need not look. 0: unknown, as where the queue is shared.
  uint16_t credits = 0;
  uint32_t reason = 0;
  uint64_t value = 0;
};
static_assert(sizeof(ReplyFields) == 16);

struct alignas(32) LaneReply {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> words[sizeof(ReplyFields) / 8];
};

struct Lane {
  alignas(4096) LaneRequest requests[kLaneRequests];
  alignas(64) LaneReply replies[kLaneRequests];
  alignas(4096) uint8_t payload[kLanePayloadBytes];
};

}  // namespace verbatim::local
