#include "agent/registry.h"

#include <algorithm>
#include <cerrno>

#include "agent/protocol.h"

namespace verbatim::agent {

Status Registry::join(const MemberRecord& record) {
  const Process* former = find(record.incarnation);
  if (former && (former->present || former->record.pid != record.pid)) return {EEXIST};
  for (Slot slot : record.slots) {
    if (owner_of(slot)) return {EADDRINUSE};
  }
  Process& process = processes_[record.incarnation];
  process.record = record;
  process.present = true;
  for (Slot slot : record.slots) owners_[slot] = record.incarnation;
  settle_with_all(process);
  return Status::success();
}

Status Registry::add_slot(Incarnation member, Slot slot) {
  Process& process = *find(member);
  if (owner_of(slot)) return {EADDRINUSE};
  if (process.record.slots.size() == kMaxSlotsPerProcess) return {ENOSPC};
  process.record.slots.push_back(slot);
  owners_[slot] = member;
  settle_with_all(process);
  return Status::success();
}

void Registry::introduce(Incarnation member, Slot slot) {
  Process& process = *find(member);
  Process* owner = owner_of(slot);
  if (owner == &process) return;
  process.wishes.insert(slot);
  if (owner) {
    settle(process, *owner);
  } else {
    mailbox_.post_unowned(member, slot);
  }
}

void Registry::introduce_everyone(Incarnation member) {
  Process& process = *find(member);
  process.wishes_everyone = process.awaits_everyone = true;
  settle_with_all(process);
  tell_of_everyone();
}

Status Registry::know(Incarnation member, Incarnation whom, pid_t pid) {
  Process& process = *find(member);
  if (whom == member) return Status::success();
  if (process.knows.size() >= kLastSlot && !process.knows.contains(whom)) return {ENOSPC};
  process.knows[whom].state = Acquaintance::accepted;
  Process* known = find(whom);
  if (!known) {
    processes_[whom].record = {.incarnation = whom, .pid = pid};
  } else if (known->present) {
    settle(process, *known);
  }
  return Status::success();
}

void Registry::accepted(Incarnation to, Incarnation whom) {
  Process* receiver = find(to);
  if (!receiver || !receiver->knows.contains(whom)) return;  // one of the two is gone meanwhile
  receiver->knows[whom].state = Acquaintance::accepted;
  if (Process* known = find(whom); known && known->present) settle(*receiver, *known);
  tell_of_everyone();
}

void Registry::left(Incarnation member) {
  Process& process = *find(member);
  disown(process);
  const pid_t pid = process.record.pid;
  process = {};
  process.record = {.incarnation = member, .pid = pid};
  if (!is_known(member)) processes_.erase(member);
  tell_of_everyone();
}

void Registry::died(Incarnation incarnation) {
  Process* process = find(incarnation);
  if (!process) return;
  disown(*process);
  const pid_t pid = process->record.pid;
  processes_.erase(incarnation);
  for (auto& [other, survivor] : processes_) {
    if (survivor.knows.erase(incarnation) && survivor.present) mailbox_.post_dead(other, incarnation, pid);
  }
  tell_of_everyone();
}

bool Registry::is_present(Incarnation incarnation) const {
  const auto found = processes_.find(incarnation);
  return found != processes_.end() && found->second.present;
}

// Moves each pair as far as it can go after the process joined or got a slot.
void Registry::settle_with_all(Process& process) {
  for (auto& [incarnation, other] : processes_) {
    if (other.present && &other != &process) settle(process, other);
  }
}

// One step of the introduction in the diagram of the header; the next one follows in accepted().
void Registry::settle(Process& one, Process& other) {
  if (is_introduction_under_way(one, other) || is_introduction_under_way(other, one)) return;
  if (knows(one, other) && knows(other, one)) {
    tell_new_slots(one, other);
    tell_new_slots(other, one);
    return;
  }
  const bool one_asks = wishes_to_know(one, other);
  if (!one_asks && !wishes_to_know(other, one)) return;
  Process& asker = one_asks ? one : other;
  Process& owner = one_asks ? other : one;
  if (!knows(owner, asker)) {
    post_peer(owner, asker);
  } else {
    post_peer(asker, owner);
  }
}

// Who waited for the last of those present: both know each other, or will never do so.
void Registry::tell_of_everyone() {
  for (auto& [incarnation, process] : processes_) {
    if (!process.awaits_everyone) continue;
    const bool complete = std::all_of(processes_.begin(), processes_.end(), [&, &asker = process](const auto& entry) {
      const Process& other = entry.second;
      return !other.present || &other == &asker || (knows(asker, other) && knows(other, asker));
    });
    if (!complete) continue;
    process.awaits_everyone = false;
    mailbox_.post_everyone(incarnation);
  }
}

// Who was to be introduced to the owner, and had not been told yet, has its answer.
void Registry::disown(const Process& process) {
  for (Slot slot : process.record.slots) {
    owners_.erase(slot);
    for (const auto& [incarnation, other] : processes_)
      if (other.present && other.wishes.contains(slot)) mailbox_.post_unowned(incarnation, slot);
  }
}

void Registry::post_peer(Process& to, const Process& whom) {
  Knowledge& knowledge = to.knows[whom.record.incarnation];
  knowledge.state = Acquaintance::posted;
  const bool knows_us = knows(whom, to);
  if (knows_us) {
    for (Slot slot : whom.record.slots) {
      knowledge.told.insert(slot);
      to.wishes.erase(slot);
    }
  }
  mailbox_.post_peer(to.record.incarnation, whom.record, knows_us);
}

void Registry::tell_new_slots(Process& to, const Process& whom) {
  Knowledge& knowledge = to.knows[whom.record.incarnation];
  for (Slot slot : whom.record.slots) {
    to.wishes.erase(slot);
    if (knowledge.told.insert(slot).second) {
      mailbox_.post_peer_slot(to.record.incarnation, whom.record.incarnation, slot);
    }
  }
}

Registry::Process* Registry::find(Incarnation incarnation) {
  const auto found = processes_.find(incarnation);
  return found == processes_.end() ? nullptr : &found->second;
}

Registry::Process* Registry::owner_of(Slot slot) {
  const auto found = owners_.find(slot);
  return found == owners_.end() ? nullptr : find(found->second);
}

bool Registry::knows(const Process& who, const Process& whom) {
  const auto found = who.knows.find(whom.record.incarnation);
  return found != who.knows.end() && found->second.state == Acquaintance::accepted;
}

bool Registry::is_introduction_under_way(const Process& who, const Process& whom) {
  const auto found = who.knows.find(whom.record.incarnation);
  return found != who.knows.end() && found->second.state == Acquaintance::posted;
}

bool Registry::wishes_to_know(const Process& who, const Process& whom) {
  return who.wishes_everyone || std::any_of(whom.record.slots.begin(), whom.record.slots.end(),
                                            [&](Slot slot) { return who.wishes.contains(slot); });
}

bool Registry::is_known(Incarnation incarnation) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& entry) { return entry.second.knows.contains(incarnation); });
}

}  // namespace verbatim::agent
