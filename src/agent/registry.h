// Who is there, who knows whom, and who must be told what: the agent's decisions, without a socket or a clock.
//
// The rule that revocation rests on (docs/ARCHITECTURE.md): a process can reach another's memory only once it may
// use one of its slots, and **that is told to Y only after X's socket has accepted PEER(Y)**. So X, who revokes access
// and then reads what its socket holds, finds everybody who may be using the memory. An introduction that R asks of O:
//
//      post PEER(R) to O, not to be used -- accepted --> post PEER(O) to R, with slots to use
//                                       -- accepted --> post PEER_SLOT(R) to O for each of R's slots
//
// O is told R's slots at once, since what R sends must be known for R's even if this agent ends meanwhile.
//
// A process is *present* while it is connected, and *absent* while it is only known to live: others hold its memory,
// but it has not come (back) to this agent. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "agent/message_socket.h"
#include "base/result.h"
#include "base/types.h"

namespace verbatim::agent {

struct MemberRecord {
  Incarnation incarnation;
  pid_t pid = 0;
  uint64_t start_time = 0;
  uint64_t segment_size = 0;
  std::vector<Slot> slots;
  std::shared_ptr<const SharedDescriptors> descriptors;  // the segment, the doorbell
};

// Where the registry's decisions go. Called from inside its methods, so it must not call back. `to` is present.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  // Registry::accepted(to, whom.incarnation) is owed once the message is in the socket's buffer.
  // `knows_us`: the receiver may use its slots.
  virtual void post_peer(Incarnation to, const MemberRecord& whom, bool knows_us) = 0;
  virtual void post_peer_slot(Incarnation to, Incarnation whom, Slot slot) = 0;
  virtual void post_dead(Incarnation to, Incarnation whom, pid_t pid) = 0;
  virtual void post_everyone(Incarnation to) = 0;
  virtual void post_unowned(Incarnation to, Slot slot) = 0;
};

class Registry {
 public:
  explicit Registry(Mailbox& mailbox) : mailbox_(mailbox) {}

  // EEXIST: the incarnation is present, or was another process's. EADDRINUSE: a present process has one of the slots.
  Status join(const MemberRecord& record);
  // EADDRINUSE: a present process, perhaps this one, has it. ENOSPC: the process has as many as there may be.
  Status add_slot(Incarnation member, Slot slot);
  // Wishes to know the owner of the slot, now or when it appears; is told if there is none. Its own slots, and what it
  // knows, are not asked for.
  void introduce(Incarnation member, Slot slot);
  // Wishes to know everybody, now and in time to come; is told when it knows all who are present.
  void introduce_everyone(Incarnation member);
  // The member holds that process's memory from an earlier agent's time. If it is not present, the caller must watch it
  // and call died() in the end. ENOSPC: the member claims to know more processes than there can be.
  Status know(Incarnation member, Incarnation whom, pid_t pid);
  // The socket of `to` has accepted PEER(whom).
  void accepted(Incarnation to, Incarnation whom);

  // It lives, but its connection is over: it becomes absent, and must be watched like one that is_known().
  void left(Incarnation member);
  // Present or absent, it is no more: everybody who knows it is told.
  void died(Incarnation process);

  bool is_present(Incarnation process) const;
  // Does anybody hold its memory, or will it soon?
  bool is_known(Incarnation process) const;

 private:
  enum class Acquaintance { posted, accepted };  // how far PEER has come

  struct Knowledge {
    Acquaintance state = Acquaintance::posted;
    std::set<Slot> told;
  };

  struct Process {
    MemberRecord record;  // of an absent one: only incarnation and pid
    bool present = false;
    std::map<Incarnation, Knowledge> knows;
    std::set<Slot> wishes;
    bool wishes_everyone = false;
    bool awaits_everyone = false;  // and was not told yet that this is so
  };

  Process* find(Incarnation incarnation);
  Process* owner_of(Slot slot);
  static bool knows(const Process& who, const Process& whom);
  static bool is_introduction_under_way(const Process& who, const Process& whom);
  static bool wishes_to_know(const Process& who, const Process& whom);
  void settle_with_all(Process& process);
  void settle(Process& one, Process& other);
  void tell_of_everyone();
  void disown(const Process& process);
  void post_peer(Process& to, const Process& whom);
  void tell_new_slots(Process& to, const Process& whom);

  Mailbox& mailbox_;
  std::map<Incarnation, Process> processes_;
  std::map<Slot, Incarnation> owners_;  // of present processes only
};

}  // namespace verbatim::agent
