// The connection manager of a host: what the kernel's rdma_cm and ib_cm are to librdmacm, without I/O. It knows every
// identifier of every process here, the ports, and the connections with their messages.
//
//      commands ──▶ ┌─────────┐ ──▶ events, for each channel         take_event()
//        on_mad ──▶ │ Manager │ ──▶ management datagrams             poll_mad()
//     on_answer ──▶ │         │ ──▶ questions about other hosts      poll_question()
//   on_deadline ──▶ └─────────┘     next_deadline()
//
// After each call: send what poll_mad() gives, in its order; ask what poll_question() gives; poll_channel() names the
// channels that have events; arm a timer for next_deadline(). None of them calls back.
//
// Both ends of a connection may be in one manager: a datagram whose destination GID is this host's is handed to
// on_mad() as one from outside would be. Processes appear as Owner and Channel, which the caller chooses.
//
// Commands fail with an errno and then leave everything as it was: ENOENT for an identifier that is not there, EINVAL
// for one of another owner, or in a state that does not allow it (identifier.h has the table); others stand at the
// command. The contract is that of the manual pages, with Linux' rdma_cm where they are silent.
//
// Two events are the library's to make, since only it knows whether the identifier has a queue pair (rdma_cm(7)):
// after connect_response it calls establish() and shows the program ESTABLISHED instead, or, if it cannot set up the
// queue pair, calls reject() and shows CONNECT_ERROR.
//
// Not thread-safe; no locks, no clock: `now` never goes backwards.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "base/reason.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/connection_table.h"
#include "cm/deadlines.h"
#include "cm/event.h"
#include "cm/event_queues.h"
#include "cm/identifier.h"
#include "cm/port_space.h"
#include "cm/resolution.h"

namespace verbatim::cm {

struct Configuration {
  uint64_t ca_guid = 0;  // of the device; each host has another
  // Of the numbers that are drawn: ports, PSNs, communication IDs. Another at each start, since a peer takes a request
  // with an ID that it has heard for a duplicate.
  uint64_t seed = 0;
  PortRules ports;
  bool ipv6_only = false;  // net.ipv6.bindv6only
  int max_backlog = 1024;  // net.rdma_ucm.max_backlog
  // How long a request to a port where nobody listens may wait for somebody. Between NICs a connection takes
  // milliseconds, and programs count on it: what their other side has told them just now, it will listen soon.
  Duration listener_patience = Duration::milliseconds(50);
  // What rdma_cm has fixed numbers for.
  uint8_t cm_response_timeout = 20;  // 4.096 us * 2^n
  uint8_t max_cm_retries = 15;
  uint8_t mra_service_timeout = 24;  // 4.096 us * 2^n
  uint8_t packet_lifetime = 18;      // 4.096 us * 2^n
  uint8_t ca_ack_delay = 15;         // 4.096 us * 2^n
};

// Where a management datagram goes, or came from: QP 1 there, from QP 1 here.
struct MadAddress {
  Gid local;
  Gid remote;
  bool operator==(const MadAddress&) const = default;
};

struct OutgoingMad {
  MadAddress address;
  wire::Mad bytes;
};

// "By what path does one get from `source`, which may be a wildcard, to `destination`, which is not of this host?"
struct Question {
  IdHandle id;
  Address source;
  Address destination;
};

struct Route {
  HostAddress source;  // which of our addresses
  uint8_t hop_limit = 64;
};

// What rdma_cm(7)'s calls that only ask can be answered from, and what init_qp_attr needs.
struct IdView {
  IdState state = IdState::idle;
  Channel channel;
  PortSpace space = PortSpace::tcp;
  QpType qp_type = QpType::rc;
  Address source;
  Address destination;
  bool has_device = false;         // bound to an address of the device: id->verbs is set
  std::optional<Path> path;        // from route_resolved, or the request
  std::optional<QpAttributes> qp;  // as far as they are known: from connect() or the request on
  bool knows_peer = false;         // qp has the peer's part too
  std::optional<uint8_t> ack_timeout;
  std::optional<uint8_t> tos;
};

struct Resolve {
  Address source;  // Family::none: whatever leads to the destination
  Address destination;
  Duration timeout;
  bool privileged = false;  // as for bind()
};

// What a program gives rdma_connect(3) and rdma_accept(3).
struct Offer {
  ConnectParameters parameters;
  PrivateData private_data;
  Ece ece;
  uint32_t q_key = 0;  // accept, for datagrams; 0: that of RDMA CM
};

inline constexpr uint32_t kUdpQKey = 0x01234567;  // RDMA_UDP_QKEY

class Manager {
 public:
  explicit Manager(const Configuration& configuration);

  // --- The host: may be called at any time; who is bound to an address that is gone stays so. ---
  // In the order of preference for who speaks to a group and does not say from where.
  void set_addresses(std::vector<HostAddress> addresses) { addresses_ = std::move(addresses); }
  // Every identifier that is bound to the device is told, and can only be destroyed from then on.
  void remove_device();
  // The hardware address of an interface is another: whoever uses it is told.
  void on_address_change(uint32_t interface_index);

  // --- Commands: identifiers ---
  // The port spaces of TCP have rc, those of UDP and IPoIB ud, and that of IB any type of queue pair. EINVAL: the
  // handle is none, or not the caller's to choose, or in use.
  Status create(Owner owner, IdHandle id, Channel channel, PortSpace space, QpType qp_type, uint64_t context);
  // Those of its events that are not taken are gone, with the new identifiers of requests. Its connection says goodbye
  // to the peer, and does so until it is answered.
  Status destroy(Instant now, Owner owner, IdHandle id);
  // What is not taken yet moves along.
  Status migrate(Owner owner, IdHandle id, Channel channel);
  // The context that events carry; of an identifier from connect_request, until then its listener's.
  Status set_context(Owner owner, IdHandle id, uint64_t context);
  Result<IdView> query(Owner owner, IdHandle id) const;

  // --- Commands: options, rdma_set_option(3) ---
  Status set_tos(Owner owner, IdHandle id, uint8_t tos);
  Status set_ack_timeout(Owner owner, IdHandle id, uint8_t ack_timeout);  // EINVAL for datagrams, and beyond 31
  Status set_reuse_address(Owner owner, IdHandle id, bool reuse);
  Status set_family_only(Owner owner, IdHandle id, bool only);
  // Then route_resolved. EINVAL: a number that is larger than it can be.
  Status set_path(Owner owner, IdHandle id, const Path& path);

  // --- Commands: addresses ---
  // `privileged`: may bind ports below PortRules::first_unprivileged. EAFNOSUPPORT, EINVAL (a link-local address
  // without its interface), EADDRNOTAVAIL (an address of nobody here), and what PortTable::bind() says.
  Status bind(Owner owner, IdHandle id, const Address& source, bool privileged);
  // Then addr_resolved or addr_error, at once if the destination is of this host. `source` may be of Family::none.
  Status resolve_address(Instant now, Owner owner, IdHandle id, const Resolve& what);
  Status resolve_route(Owner owner, IdHandle id);  // then route_resolved

  // --- Commands: connections ---
  // Of private data more than the message has room for: EINVAL. Numbers are cut to the bits that messages have for
  // them.
  Status listen(Instant now, Owner owner, IdHandle id, int backlog);
  Status connect(Instant now, Owner owner, IdHandle id, const Offer& offer);
  Status accept(Instant now, Owner owner, IdHandle id, const Offer& offer);
  Status establish(Instant now, Owner owner, IdHandle id);  // sends RTU
  // `reason`: consumer_reject or vendor_option_not_supported, else EINVAL.
  Status reject(Instant now, Owner owner, IdHandle id, wire::RejectReason reason, const PrivateData& private_data);
  Status disconnect(Instant now, Owner owner, IdHandle id);
  // rdma_notify(3), IBV_EVENT_COMM_EST. EISCONN: it is established already.
  Status notify_established(Instant now, Owner owner, IdHandle id);

  // --- Commands: multicast ---
  // Then multicast_join. EINVAL: no identifier for datagrams, not bound to an address, or no group.
  Result<MembershipHandle> join(Owner owner, IdHandle id, const Address& group, uint64_t context);
  Status leave(Owner owner, MembershipHandle membership);  // those of its events that are not taken are gone

  // --- Ends of others ---
  // All that was its is destroyed, and every peer is told: the process is dead, or has closed the channel.
  void on_owner_death(Instant now, Owner owner);
  void on_channel_closed(Instant now, Channel channel);

  // --- Messages. `address.local` is where it arrived. Reason::none: it was of use. ---
  Reason on_mad(Instant now, const MadAddress& address, std::span<const uint8_t> bytes);
  std::optional<OutgoingMad> poll_mad();

  // --- Other hosts ---
  std::optional<Question> poll_question();
  // An answer to a question that is no longer open has no effect. A failure's errno becomes the status of addr_error.
  void on_answer(IdHandle id, const Result<Route>& route);

  // --- Time. A call before the deadline has no effect. ---
  Instant next_deadline() const;  // kNever if there is none
  void on_deadline(Instant now);

  // --- Events ---
  // A channel that got its first event to take since it was last empty.
  std::optional<Channel> poll_channel() { return events_.poll_channel(); }
  bool has_event(Channel channel) const { return events_.has_event(channel); }
  const Event* next_event(Channel channel) const { return events_.front(channel); }  // null: there is none
  // Taking a connect_request makes the new identifier its channel's.
  std::optional<Event> take_event(Channel channel);
  // What was taken and has not reached the program, in its order: it is the channel's next again. What is about nothing
  // of the owner's is dropped.
  void put_back(Owner owner, Channel channel, std::span<const Event> events);
  // How many were taken and not put back.
  uint32_t events_taken(IdHandle id) const { return events_.taken(id); }
  uint32_t events_taken(MembershipHandle membership) const { return events_.taken(membership); }
  // The program knows of the request, which makes room in the backlog. EINVAL: it said so before.
  Status take_request(Owner owner, IdHandle request);

  // How much there is, for who looks for leaks.
  struct Population {
    size_t identifiers = 0, memberships = 0, connections = 0, resolutions = 0, ports = 0, events = 0, accounts = 0;
    bool operator==(const Population&) const = default;
  };
  Population population() const;

 private:
  // The addresses of a request, and who listens there.
  struct Request {
    Address local;
    Address remote;
    PortSpace space;
    Path path;
  };

  // manager.cc
  Identifier& add(Owner owner, IdHandle handle, Channel channel, PortSpace space, QpType qp_type, uint64_t context);
  Result<Identifier*> find(Owner owner, IdHandle id);
  Result<Identifier*> find_for(Command command, Owner owner, IdHandle id);
  Status bind_source(Identifier& id, const Address& source, const Address& destination, bool privileged);
  const HostAddress* host_address(const Address& address) const;
  const HostAddress* source_towards_group(const Address& group) const;
  void arrive(Identifier& id, const HostAddress& source, uint8_t hop_limit);
  void fail_resolution(Identifier& id, int error);
  Path path_of(const Identifier& id) const;
  void end(Instant now, Identifier& id);
  void leave_backlog(Identifier& request);
  void end_memberships(Identifier& id);

  // manager_connect.cc
  Status connect_datagram(Instant now, Identifier& id, const Offer& offer);
  wire::Req request_of(const Identifier& id, const Offer& offer) const;
  void part_from_connection(Instant now, Identifier& id);
  void part_from_resolution(Identifier& id);

  // A request to a port where nobody listens yet. At `until` it is refused.
  struct Unheard {
    Instant until;
    MadAddress from;
    wire::CmMessage message;
  };

  // manager_messages.cc
  Reason hear(Instant now, const Unheard& request, const wire::Req& req);
  Reason hear(Instant now, const Unheard& request, const wire::SidrReq& req);
  bool wait_for_listener(Instant now, const Unheard& request);
  void hear_again(Instant now);
  Reason on(Instant now, const MadAddress& from, const wire::CmMessage& message, const wire::Req& req);
  Reason on(Instant now, const MadAddress& from, const wire::CmMessage& message, const wire::SidrReq& req);
  Reason on(Instant now, const MadAddress& from, const wire::CmMessage& message, const wire::SidrRep& rep);
  template <class Message>
  Reason on(Instant now, const MadAddress& from, const wire::CmMessage& message, const Message& body);
  ConnectionEntry* named_by(const wire::Rej& rej);
  ConnectionEntry* named_by(const wire::Mra& mra);
  ConnectionEntry* named_by(const wire::Rep& rep);
  template <class Message>
  ConnectionEntry* named_by(const Message& message);
  template <class Message>
  Reason on_unknown(const MadAddress& from, uint64_t transaction_id, const Message& message);
  Reason on_unknown(const MadAddress& from, uint64_t transaction_id, const wire::Rej& rej);
  Reason refuse(const MadAddress& from, const wire::CmMessage& message, wire::RejectReason reason, Reason dropped);
  ConnectionEntry* find_stale(const MadAddress& from, uint64_t remote_ca_guid, Qpn remote_qpn);
  void end_stale(Instant now, ConnectionEntry& stale);
  std::variant<Request, Reason> read_request(const MadAddress& from, wire::ServiceId service,
                                             std::span<const uint8_t> private_data) const;
  Identifier* listener_for(const Request& request, QpType qp_type);
  Identifier& add_request(Identifier& listener, const Request& request, QpType qp_type);

  // manager_events.cc
  void send(const Path& path, const wire::Mad& bytes) { mads_.push_back({{path.source, path.destination}, bytes}); }
  Reason take_step(ConnectionEntry& entry, const ConnectionStep& step, const wire::CmBody* body);
  Reason take_step(Resolution& resolution, const ResolutionStep& step, const wire::SidrRep* rep);
  void report(const Identifier& id, Event event);
  void report(ConnectionNews news, Identifier& id, const wire::CmBody* body);

  uint32_t draw() { return static_cast<uint32_t>(random_()); }
  wire::CommunicationId new_communication_id();
  ConnectionRules rules() const;

  Configuration configuration_;
  std::mt19937_64 random_;
  uint32_t transaction_half_;
  wire::CommunicationId last_communication_id_;
  uint64_t last_handle_ = 0;
  bool has_device_ = true;
  std::vector<HostAddress> addresses_;

  std::map<IdHandle, Identifier> ids_;
  PortTable ports_;
  ConnectionTable connections_;
  std::map<wire::CommunicationId, std::pair<Resolution, IdHandle>> resolutions_;
  std::map<std::pair<Gid, wire::CommunicationId>, wire::CommunicationId> asked_;  // who asks, and what they call it
  Deadlines<wire::CommunicationId> resolution_deadlines_;
  Deadlines<IdHandle> address_deadlines_;
  std::map<MembershipHandle, IdHandle> memberships_;
  std::deque<Unheard> unheard_;  // in the order of their ends

  std::deque<OutgoingMad> mads_;
  std::deque<Question> questions_;
  EventQueues events_;
};

}  // namespace verbatim::cm
