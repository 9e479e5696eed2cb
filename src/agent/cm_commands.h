// What a process asks of its agent's connection manager, and what it is answered: the commands of cm/manager.h, which
// says what they do and how they fail, as values. Answer: what success brings.
//
// An event channel is a socket in which the agent puts the events, so that it can be waited for like the kernel's, and
// an event costs nobody a question. What ends or moves an identifier must not leave events of it in there: the command
// says how many the program has received, and the agent, which has sent more, answers EBUSY. The program then gives the
// command again together with the channel's socket, of which the agent takes back what is still in it.
//
// Commands whose Answer is None have none: what could be wrong with them is the sender's fault, and the next command
// about the same identifier fails.
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

struct None {};

// The end of an identifier or membership, or its move.
struct Ended {
  uint32_t events = 0;  // that the program has received, or some thread of it is about to have
  bool operator==(const Ended&) const = default;
};

// What comes by a channel: an event, and what it says anew of its identifier (addresses, a path, a connection). The
// identifier of a connect_request is the new one.
struct Taken {
  cm::Event event;
  std::optional<cm::IdView> view;
};

// --- Channels ---

// Goes with one descriptor: the program's end of the channel. EMFILE: the agent has none left.
struct OpenChannel {
  using Answer = cm::Channel;
};

// --- Identifiers ---

// The upper half of the handle is the channel's number, the lower half the program's to choose, each once.
struct Create {
  using Answer = None;
  cm::IdHandle id;
  cm::Channel channel;
  cm::PortSpace space = cm::PortSpace::tcp;
  cm::QpType qp_type = cm::QpType::rc;
  uint64_t context = 0;
};
// `channel`: the identifier's. `received`: how many events the program has received that count at the identifier: its
// own, and the requests to it. EBUSY: fewer than were sent, and the channel's socket does not go with the command.
struct Destroy {
  using Answer = Ended;
  cm::IdHandle id;
  cm::Channel channel;
  uint32_t received = 0;
};
struct Migrate {
  using Answer = Ended;
  cm::IdHandle id;
  cm::Channel channel;
  uint32_t received = 0;
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
// The program has received the request: it does not wait in the backlog any more.
struct TakeRequest {
  using Answer = None;
  cm::IdHandle id;
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
// As Destroy, of the membership's events.
struct Leave {
  using Answer = Ended;
  cm::MembershipHandle membership;
  cm::Channel channel;
  uint32_t received = 0;
};

// Their order is that of the numbers they travel by: a change needs another version of the protocol (frame.cc).
using Command =
    std::variant<OpenChannel, Create, Destroy, Migrate, SetContext, Query, SetTos, SetAckTimeout, SetReuseAddress,
                 SetFamilyOnly, SetPath, Bind, ResolveAddress, ResolveRoute, Listen, TakeRequest, Connect, Accept,
                 Establish, Reject, Disconnect, NotifyEstablished, Join, Leave>;

template <class Command>
inline constexpr bool kIsAnswered = !std::is_same_v<typename Command::Answer, None>;
// What may take a channel's socket along.
template <class Command>
inline constexpr bool kTakesEventsBack =
    std::is_same_v<Command, Destroy> || std::is_same_v<Command, Migrate> || std::is_same_v<Command, Leave>;

// Why not: an errno.
struct Failure {
  int32_t error = 0;
  bool operator==(const Failure&) const = default;
};

using Answer = std::variant<Failure, Nothing, cm::Channel, cm::MembershipHandle, cm::IdView, Ended>;

}  // namespace verbatim::commands
