// Why something was refused or dropped: one number for each check that can refuse. A completion carries it as
// vendor_err, the log prints its name, verbatim(7) lists it. Numbers are never reused.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbatim {

enum class Reason : uint32_t {
  none = 0,
  // Found in the requester's own memory.
  local_key_unknown = 0x101,
  local_key_other_pd = 0x102,
  local_range = 0x103,
  local_no_write_access = 0x104,
  local_memory_gone = 0x105,
  // The work request itself.
  message_too_long = 0x201,
  no_read_depth = 0x202,
  atomic_length = 0x203,
  operation_not_for_type = 0x204,
  datagram_too_long = 0x205,
  datagram_other_pd = 0x206,
  // Found in the target's tables.
  remote_key_unknown = 0x301,
  remote_key_other_pd = 0x302,
  remote_range = 0x303,
  remote_no_access = 0x304,
  remote_memory_gone = 0x305,
  remote_operation_off = 0x306,
  remote_no_read_depth = 0x307,
  remote_key_other_qp = 0x308,
  remote_unaligned_atomic = 0x309,
  remote_receive_too_short = 0x30a,
  remote_receive_bad = 0x30b,
  remote_no_receive = 0x30c,
  remote_no_shared_queue = 0x30d,
  // The way to the peer.
  peer_dead = 0x401,
  peer_not_ready = 0x402,
  peer_unknown = 0x403,
  peer_names_another = 0x404,
  bad_response = 0x406,  // 0x405 was another
  // After the first error.
  flushed = 0x501,
  refused_by_peer = 0x502,
  completion_queue_full = 0x503,
  receive_too_short = 0x504,
  // Calls.
  no_global_route = 0x601,
  not_this_host = 0x602,
  no_agent = 0x603,
  // Memory windows.
  window_unknown = 0x701,
  window_bound = 0x702,
  window_region = 0x703,
  window_rights = 0x704,
  window_range = 0x705,
  not_invalidatable = 0x706,
  // Messages that nobody is told of but a person who asks.
  dropped_no_receive = 0x801,
  dropped_qkey = 0x802,
  dropped_no_peer = 0x803,
  dropped_too_long = 0x804,
  // Messages of the communication manager.
  mad_length = 0x901,
  mad_not_cm = 0x902,
  mad_attribute = 0x903,
  mad_field = 0x904,
  rdma_ip_cm_header = 0x905,
  cm_unknown = 0x906,
  cm_state = 0x907,
  cm_duplicate = 0x908,
  cm_address = 0x909,
  cm_backlog = 0x90a,
  cm_no_listener = 0x90b,
  cm_stale = 0x90c,
};

struct ReasonText {
  Reason reason;
  std::string_view name;
  std::string_view meaning;
};

// The row of a reason; the row of Reason::none for a number that is not in the table.
const ReasonText& describe(Reason reason);

}  // namespace verbatim
