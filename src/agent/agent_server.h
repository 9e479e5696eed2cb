// The agent: admits processes of its identity, introduces them to each other, tells of deaths. One thread, one epoll;
// runs in the verbatim-agent process or on a thread of a test. What to tell whom is decided by Registry; this class
// moves it over sockets.
//
// A member that hangs up, or whose process ends (a forked child keeps its socket open), is dead: its peers are told.
// One that we cut off for its messages is not: it is watched until its process ends or it comes back.
//
// A connection that began with MANAGE is an owner of CmService, until it is over for whatever reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "agent/admission.h"
#include "agent/cm_service.h"
#include "agent/event_poll.h"
#include "agent/identity.h"
#include "agent/message_socket.h"
#include "agent/protocol.h"
#include "agent/registry.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace verbatim::agent {

struct AgentOptions {
  // run() returns when there has been no connection for this long.
  Duration linger = Duration::milliseconds(1000);
  // A process being torn down gives its slot back a little before it counts as dead: how long the next owner waits.
  Duration slot_grace = Duration::milliseconds(2000);
  // Messages that wait for one member beyond what its socket holds; more, and it is cut off.
  size_t queue_limit = 16384;
};

class AgentServer : private Mailbox {
 public:
  // The listener is a listening SOCK_SEQPACKET socket at identity.agent_name().
  AgentServer(AgentIdentity identity, FileDescriptor listener, AgentOptions options = {});
  AgentServer(const AgentServer&) = delete;
  AgentServer& operator=(const AgentServer&) = delete;

  // Serves until idle or stopped, then success; otherwise why it could not. Once only.
  Status run();
  // Any thread, before, during or after run().
  void stop();

 private:
  using Id = uint64_t;  // of a connection or watch; never reused, so that a late event finds nobody
  using Descriptors = std::shared_ptr<const SharedDescriptors>;

  struct Postponed {
    ToAgent message;
    Descriptors descriptors;
    Instant deadline;
  };

  struct Connection {
    FileDescriptor socket;
    Admission process;
    Incarnation member;  // 0 until its HELLO has been accepted
    OutgoingQueue outgoing;
    bool send_stalled = false;           // the kernel is short of something that EPOLLOUT does not tell of
    std::optional<Postponed> postponed;  // waits for a slot to become free; nothing is read meanwhile
    bool is_managing = false;            // it carries commands to cm_
    uint32_t interest = EPOLLIN;         // what the poll waits for at the socket
  };

  // An absent process, whose memory somebody has.
  struct Watch {
    Incarnation process;
    pid_t pid = 0;
    uint64_t start_time = 0;
    FileDescriptor pidfd;  // invalid while we are short of descriptors
  };

  // agent_server.cc: the loop, who comes and who goes.
  Status prepare();
  void serve_once();
  Instant next_deadline() const;
  void on_event(uint64_t tag, uint32_t events);
  void on_socket(Id id, uint32_t events);
  void on_watched_end(Id id);
  void on_time(Instant now);
  void on_retry();
  bool is_idle(Instant now);
  void accept_all();
  void admit(FileDescriptor socket);
  void pause_listener(bool paused);
  void retry_soon();
  void bury(Id id);
  void cut_off(Id id, Refusal refusal);
  void remove(Id id);
  void watch(Watch watch);
  void open_watch(Id id);
  void unwatch(Incarnation process);
  void forget_unknown();

  // agent_messages.cc: what members say and what they are told.
  void read_from(Id id);
  void handle(Id id, const ToAgent& message, const Descriptors& descriptors);
  std::optional<Refusal> on_hello(Id id, const Hello& message, const Descriptors& descriptors);
  std::optional<Refusal> on_request(Connection& connection, const ToAgent& message);
  std::optional<Refusal> on_known_peer(Incarnation member, const KnownPeer& message);
  std::optional<Refusal> on_manage(Connection& connection, const Manage& message);
  Status start_cm();
  void on_command(Id id, const Packet& packet);
  void retry_postponed();
  void flush_all();
  void flush(Id id);
  void update_interest(Id id, Connection& connection);
  void post(Incarnation to, const ToMember& message, Descriptors descriptors = nullptr, Incarnation introduces = {});
  void post_peer(Incarnation to, const MemberRecord& whom, bool knows_us) override;
  void post_peer_slot(Incarnation to, Incarnation whom, Slot slot) override;
  void post_dead(Incarnation to, Incarnation whom, pid_t pid) override;
  void post_everyone(Incarnation to) override;
  void post_unowned(Incarnation to, Slot slot) override;

  // Where an event comes from, in the low bits of epoll's 64; the Id in the others.
  enum class Source : uint64_t { listener, wake, socket, process, watch, cm };
  static constexpr int kSourceBits = 3;
  static constexpr uint64_t tag_of(Source source, Id id) { return id << kSourceBits | static_cast<uint64_t>(source); }

  const AgentIdentity identity_;
  const AgentOptions options_;
  FileDescriptor listener_;
  EventPoll poll_;
  FileDescriptor wake_;
  std::atomic<bool> stopping_{false};
  Registry registry_{*this};
  std::unique_ptr<CmService> cm_;  // from the first MANAGE on
  Id next_id_ = 1;
  std::map<Id, Connection> connections_;
  std::map<Incarnation, Id> members_;
  std::map<Id, Watch> watches_;
  std::set<Id> to_flush_;
  bool somebody_left_ = false;  // postponed messages may go on
  bool listener_paused_ = false;
  Instant retry_at_ = kNever;
  Instant brief_wait_end_{};  // another command is likely until then
  Instant idle_since_;
};

}  // namespace verbatim::agent
