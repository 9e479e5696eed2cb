// The messages between an agent and its members: fixed-size structs in frames (frame.h, message_socket.h). A connection
// begins with the agent's WELCOME or REFUSED; the member answers with HELLO once it has checked who welcomed it,
// because HELLO carries its memory. Or it answers with MANAGE: from then on it is no member's connection, but one of a
// program that uses the connection manager, and carries commands (cm_protocol.h). Whatever decode() returns is valid:
// sizes, kinds, counts, slots and the number of descriptors have been checked. Plain values, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/frame.h"
#include "base/result.h"
#include "base/types.h"

namespace verbatim::agent {

inline constexpr size_t kMaxSlotsPerProcess = 16;  // 65,536 queue pairs

enum class MessageKind : uint16_t {
  hello = 1,
  add_slot = 2,
  introduce = 3,
  known_peer = 4,
  introduce_everyone = 5,
  manage = 6,
  welcome = 17,
  refused = 18,
  peer = 19,
  peer_slot = 20,
  dead = 21,
  everyone = 22,
  unowned = 23,
};

// Why an agent refuses a process. Numbers are never reused.
enum class Refusal : uint32_t {
  malformed_message = 1,
  other_version = 2,
  other_user = 3,
  other_namespace = 4,
  process_unreadable = 5,
  other_process = 6,
  slot_taken = 7,
  incarnation_taken = 8,
  out_of_descriptors = 9,
  does_not_read = 10,
};

// A sentence for a person. Total: unknown numbers have one too.
std::string_view describe(Refusal refusal);

struct SlotList {
  uint64_t count = 0;
  std::array<uint16_t, kMaxSlotsPerProcess> slots{};

  // Requires slots.size() <= kMaxSlotsPerProcess.
  static SlotList of(std::span<const Slot> slots);
  std::vector<Slot> list() const;
  bool valid() const;
};

// Member to agent.

// Descriptors: the adapter segment, the doorbell.
struct Hello {
  static constexpr MessageKind kKind = MessageKind::hello;
  static constexpr size_t kDescriptors = 2;
  uint64_t incarnation = 0;
  uint64_t start_time = 0;    // the sender's own (process.h); pins down which process was examined
  uint64_t segment_size = 0;  // bytes
  std::array<char, 16> comm{};
  SlotList slots;
  bool valid() const;
};

struct AddSlot {
  static constexpr MessageKind kKind = MessageKind::add_slot;
  static constexpr size_t kDescriptors = 0;
  uint64_t slot = 0;
  bool valid() const;
};

// Answered by PEER or PEER_SLOT; by UNOWNED when no member has the slot, and then by one of the former when one does.
struct Introduce {
  static constexpr MessageKind kKind = MessageKind::introduce;
  static constexpr size_t kDescriptors = 0;
  uint64_t slot = 0;
  bool valid() const;
};

// After HELLO to a new agent, one for each peer that the former one introduced and did not declare dead.
struct KnownPeer {
  static constexpr MessageKind kKind = MessageKind::known_peer;
  static constexpr size_t kDescriptors = 0;
  uint64_t incarnation = 0;
  uint64_t start_time = 0;
  int64_t pid = 0;
  bool valid() const;
};

// For who may be any of them: the sender to a multicast group. Answered by PEER and PEER_SLOT for each member there is,
// then EVERYONE, then more of the former as members come.
struct IntroduceEveryone {
  static constexpr MessageKind kKind = MessageKind::introduce_everyone;
  static constexpr size_t kDescriptors = 0;
  bool valid() const { return true; }
};

// Instead of HELLO: the connection is for commands to the connection manager.
struct Manage {
  static constexpr MessageKind kKind = MessageKind::manage;
  static constexpr size_t kDescriptors = 0;
  uint64_t start_time = 0;  // as in HELLO
  bool valid() const { return true; }
};

// Agent to member.

struct Welcome {
  static constexpr MessageKind kKind = MessageKind::welcome;
  static constexpr size_t kDescriptors = 0;
  bool valid() const { return true; }
};

// The connection ends with it.
struct Refused {
  static constexpr MessageKind kKind = MessageKind::refused;
  static constexpr size_t kDescriptors = 0;
  uint32_t reason = 0;  // a Refusal, or one of a later release
  bool valid() const { return true; }
};

// Another process that may reach us from now on; what comes from its slots is its. While it does not know us yet we may
// not reach it by them; those that we may follow as PEER_SLOT (registry.h says why). Descriptors: its adapter segment,
// its doorbell.
struct Peer {
  static constexpr MessageKind kKind = MessageKind::peer;
  static constexpr size_t kDescriptors = 2;
  uint64_t incarnation = 0;
  uint64_t start_time = 0;
  uint64_t segment_size = 0;
  int64_t pid = 0;
  uint64_t knows_us = 0;  // 0 or 1
  SlotList slots;
  bool valid() const;
};

struct PeerSlot {
  static constexpr MessageKind kKind = MessageKind::peer_slot;
  static constexpr size_t kDescriptors = 0;
  uint64_t incarnation = 0;
  uint64_t slot = 0;
  bool valid() const;
};

struct Dead {
  static constexpr MessageKind kKind = MessageKind::dead;
  static constexpr size_t kDescriptors = 0;
  uint64_t incarnation = 0;
  int64_t pid = 0;
  bool valid() const;
};

// The member has been told of every other one.
struct Everyone {
  static constexpr MessageKind kKind = MessageKind::everyone;
  static constexpr size_t kDescriptors = 0;
  bool valid() const { return true; }
};

// Answers INTRODUCE; also when the owner that there was ended before it was introduced.
struct Unowned {
  static constexpr MessageKind kKind = MessageKind::unowned;
  static constexpr size_t kDescriptors = 0;
  uint64_t slot = 0;
  bool valid() const;
};

using ToAgent = std::variant<Hello, AddSlot, Introduce, KnownPeer, IntroduceEveryone, Manage>;
using ToMember = std::variant<Welcome, Refused, Peer, PeerSlot, Dead, Everyone, Unowned>;

Frame encode(const ToAgent& message);
Frame encode(const ToMember& message);

// EPROTO: malformed. EPROTONOSUPPORT: another version of the protocol.
Result<ToAgent> decode_to_agent(std::span<const std::byte> bytes, size_t descriptors);
Result<ToMember> decode_to_member(std::span<const std::byte> bytes, size_t descriptors);

}  // namespace verbatim::agent
