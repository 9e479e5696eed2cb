// A process's side of the agent: makes the process a member, asks for introductions, hears of peers and of deaths. When
// the agent dies it goes to the next one by itself, and says there whom it knows.
//
// Thread-safe. Events are delivered by receive(), on its caller's thread, one at a time and in order; no lock that
// introduce() or add_slot() takes is held meanwhile, so a handler may call these, but not receive(). Nobody may call
// receive() with a lock that a handler takes. start(), and calls that find the agent gone, wait up to about ten seconds
// for the next one; everything else never blocks.
//
// The child of a fork() between pause() and resume() may only resume and destroy its copy, which closes descriptors and
// tells nobody anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/event_poll.h"
#include "agent/identity.h"
#include "agent/message_socket.h"
#include "agent/protocol.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/types.h"

namespace verbatim {

struct PeerProcess {
  Incarnation incarnation;
  pid_t pid = 0;
  // What comes from them is its.
  std::vector<Slot> slots;
  // Whether we may reach it by them. Not when it asked for us and does not know us yet: it may use our memory from now
  // on; we may use its memory when on_peer_slot() has told a slot.
  bool knows_us = false;
  FileDescriptor segment;
  size_t segment_size = 0;  // bytes, as the peer says: not checked against the descriptor
  FileDescriptor doorbell;
};

class AgentEvents {
 public:
  virtual ~AgentEvents() = default;
  virtual void on_peer(PeerProcess peer) = 0;
  virtual void on_peer_slot(Incarnation peer, Slot slot) = 0;
  // Nothing more of it comes, unless it is introduced anew.
  virtual void on_peer_dead(Incarnation peer) = 0;
  // After introduce(): nobody has the slot for now.
  virtual void on_unowned(Slot slot) = 0;
  // After introduce_everyone(): on_peer() has told every member there was.
  virtual void on_everyone() = 0;
  // There is no agent for us now, and why, for a person. The next start() or introduce() tries again.
  virtual void on_refused(std::string_view why) = 0;
};

struct MemberDescription {
  Incarnation incarnation;
  std::vector<Slot> slots;  // claimed (slot_claim.h); at least one by the time of start()
  int segment_fd = -1;      // both borrowed: valid as long as the client lives
  size_t segment_size = 0;
  int doorbell_fd = -1;
};

class AgentClient {
 public:
  // Not valid() when there were no descriptors: of no use then.
  AgentClient(AgentIdentity identity, std::string agent_path, MemberDescription description);
  ~AgentClient() = default;
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  bool valid() const { return attached_; }

  // Finds or starts the agent and registers there; nothing to do if that is done. On success everything that later
  // members need of us is in the agent's hands: they can reach us although we never call receive().
  // Errors as connect_or_start(); EMFILE: no descriptors.
  Status start();

  // Wants to know the slot's owner. Answered by on_peer() or on_peer_slot(), or on_unowned() and one of these when an
  // owner appears. To ask again before there was an answer is nothing new. on_refused() stands for all the answers.
  // EMFILE, ENFILE: there is no descriptor left for what an introduction brings; nobody was asked.
  Status introduce(Slot slot);
  // Wants to know every member, those that come later too. Answered by on_peer() for each, and once by on_everyone().
  // Errors as introduce().
  Status introduce_everyone();
  // This process has claimed one more slot.
  void add_slot(Slot slot);

  // Readable while receive() has something to do. The same descriptor for the client's whole life; do not read it.
  int fd() const { return poll_.fd(); }

  // Delivers everything that the socket held when it was called; when it returns, that has been handled, be it by this
  // thread or by another.
  void receive(AgentEvents& events);

  // Between the two nothing is half done: around fork(), so that the child may destroy its copy. pause() waits as
  // start() does.
  void pause() { mutex_.lock(); }
  void resume() { mutex_.unlock(); }

  // The last attempt to be a member failed and there was none since.
  bool refused() const;

 private:
  struct SlotEvent {
    Incarnation peer;
    Slot slot;
  };
  struct DeadEvent {
    Incarnation peer;
  };
  struct UnownedEvent {
    Slot slot;
  };
  struct EveryoneEvent {};
  struct RefusedEvent {
    std::string why;
  };
  using Event = std::variant<PeerProcess, SlotEvent, DeadEvent, UnownedEvent, EveryoneEvent, RefusedEvent>;

  struct KnownProcess {
    pid_t pid = 0;
    uint64_t start_time = 0;
    std::set<Slot> slots;  // those we may reach it by
  };

  // With mutex_ held.
  Status connect();
  Result<FileDescriptor> reach_agent() const;
  Status greet(int socket) const;
  void connect_or_report();
  void disconnect();
  void hang_up(int error);
  void report(std::string why);
  Status set_aside();
  Result<agent::Packet> next_packet();
  void fill_ready();
  void handle(agent::Packet packet);
  void on_message(const agent::Peer& message, std::vector<FileDescriptor>& descriptors);
  void on_message(const agent::PeerSlot& message);
  void on_message(const agent::Dead& message);
  void on_message(const agent::Unowned& message);
  void on_message(const agent::Refused& message);
  void fulfil(Slot wish);
  void learn_slot(Incarnation incarnation, KnownProcess& peer, Slot slot);
  void request(const agent::ToAgent& message);
  void flush();
  bool is_known(Slot slot) const;

  std::optional<Event> next_event();
  static void deliver(Event event, AgentEvents& events);

  const AgentIdentity identity_;
  const std::string agent_path_;
  const agent::EventPoll poll_;  // holds wake_ and the socket of the moment
  const FileDescriptor wake_;    // readable while there are events that no socket announces
  bool attached_ = false;        // wake_ is in poll_; const after construction
  std::mutex receiving_;         // held through receive(), events included; taken before mutex_

  mutable std::mutex mutex_;  // guards what follows
  MemberDescription description_;
  bool started_ = false;
  bool refused_ = false;
  // Held so that there is room for the descriptors of the next introduction, whatever the program opens meanwhile.
  std::vector<FileDescriptor> set_aside_;
  FileDescriptor socket_;  // invalid while there is no agent
  agent::OutgoingQueue outgoing_;
  std::map<Incarnation, KnownProcess> peers_;
  std::set<Slot> wishes_;      // no owner known yet
  std::set<Slot> unanswered_;  // those that this agent was told of and has said nothing about
  bool wishes_everyone_ = false;
  std::deque<Event> ready_;
};

}  // namespace verbatim
