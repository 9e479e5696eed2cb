// What a process asks of its agent's connection manager, and what it is answered: the commands of cm/manager.h, which
// says what they do and how they fail, as values. Answer: what success brings.
//
// An event channel is a socket to the agent that holds one byte, its *mark*, while there are events to take; so it can
// be waited for like the kernel's. Who reads the mark owes the agent a TakeEvent or a DropMark, after which the agent
// puts it there again if there is still an event. A command that may take events back says whether the mark has become
// void: who gave it then reads the mark, and drops it, lest somebody waits for an event that is no more.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "cm/manager.h"

namespace verbatim::commands {

struct Nothing {
  bool operator==(const Nothing&) const = default;
};

// The end of an identifier or membership, or its move.
struct Ended {
  uint32_t events_taken = 0;
  bool mark_is_void = false;  // of the channel named in the command
  bool operator==(const Ended&) const = default;
};

// --- Channels ---

// An event, and what it says anew of its identifier: addresses, a path, a connection. The identifier of a
// connect_request is the new one.
struct Taken {
  cm::Event event;
  std::optional<cm::IdView> view;
};

// Goes with one descriptor: the program's end of the channel. EMFILE: the agent has none left.
struct OpenChannel {
  using Answer = cm::Channel;
};
// Only after its mark was read. EAGAIN: there is none.
struct TakeEvent {
  using Answer = Taken;
  cm::Channel channel;
};
struct DropMark {
  using Answer = Nothing;
  cm::Channel channel;
};

// --- Identifiers ---

struct Create {
  using Answer = cm::IdHandle;
  cm::Channel channel;
  cm::PortSpace space = cm::PortSpace::tcp;
  cm::QpType qp_type = cm::QpType::rc;
  uint64_t context = 0;
};
struct Destroy {
  using Answer = Ended;
  cm::IdHandle id;
  cm::Channel channel;
};
struct Migrate {
  using Answer = Ended;
  cm::IdHandle id;
  cm::Channel channel;  // the former
  cm::Channel to;
};
struct SetContext {
  using Answer = Nothing;
  cm::IdHandle id;
  uint64_t context = 0;
};
struct Query {
  using Answer = cm::IdView;
  cm::IdHandle id;
};

// --- Options ---

struct SetTos {
  using Answer = Nothing;
  cm::IdHandle id;
  uint8_t tos = 0;
};
struct SetAckTimeout {
  using Answer = Nothing;
  cm::IdHandle id;
  uint8_t ack_timeout = 0;
};
struct SetReuseAddress {
  using Answer = Nothing;
  cm::IdHandle id;
  bool reuse = false;
};
struct SetFamilyOnly {
  using Answer = Nothing;
  cm::IdHandle id;
  bool only = false;
};
struct SetPath {
  using Answer = Nothing;
  cm::IdHandle id;
  cm::Path path;
};

// --- Addresses. Whether the caller is privileged is its own word: ports are among processes of one user. ---

struct Bind {
  using Answer = Nothing;
  cm::IdHandle id;
  cm::Address source;
  bool privileged = false;
};
struct ResolveAddress {
  using Answer = Nothing;
  cm::IdHandle id;
  cm::Resolve what;  // a timeout of 0 to 2^31 milliseconds
};
struct ResolveRoute {
  using Answer = Nothing;
  cm::IdHandle id;
};

// --- Connections ---

struct Listen {
  using Answer = Nothing;
  cm::IdHandle id;
  int32_t backlog = 0;
};
struct Connect {
  using Answer = Nothing;
  cm::IdHandle id;
  cm::Offer offer;
};
struct Accept {
  using Answer = Nothing;
  cm::IdHandle id;
  cm::Offer offer;
};
struct Establish {
  using Answer = Nothing;
  cm::IdHandle id;
};
struct Reject {
  using Answer = Nothing;
  cm::IdHandle id;
  wire::RejectReason reason = wire::RejectReason::consumer_reject;
  cm::PrivateData private_data;
};
struct Disconnect {
  using Answer = Nothing;
  cm::IdHandle id;
};
struct NotifyEstablished {
  using Answer = Nothing;
  cm::IdHandle id;
};

// --- Multicast ---

struct Join {
  using Answer = cm::MembershipHandle;
  cm::IdHandle id;
  cm::Address group;
  uint64_t context = 0;
};
struct Leave {
  using Answer = Ended;
  cm::MembershipHandle membership;
  cm::Channel channel;
};

// Their order is that of the numbers they travel by: a change needs another version of the protocol (frame.cc).
using Command = std::variant<OpenChannel, TakeEvent, DropMark, Create, Destroy, Migrate, SetContext, Query, SetTos,
                             SetAckTimeout, SetReuseAddress, SetFamilyOnly, SetPath, Bind, ResolveAddress, ResolveRoute,
                             Listen, Connect, Accept, Establish, Reject, Disconnect, NotifyEstablished, Join, Leave>;

// Why not: an errno.
struct Failure {
  int32_t error = 0;
  bool operator==(const Failure&) const = default;
};

using Answer =
    std::variant<Failure, Nothing, cm::Channel, cm::IdHandle, cm::MembershipHandle, Taken, cm::IdView, Ended>;

}  // namespace verbatim::commands
