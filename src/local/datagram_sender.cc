#include "local/datagram_sender.h"

#include "local/multicast.h"
#include "local/own_message.h"
#include "proto/datagram_header.h"

namespace verbatim::local {
namespace {

constexpr uint32_t kPrivilegedQkey = 1u << 31;

}  // namespace

std::shared_ptr<LanePair> DatagramSender::lanes_to(Qpn target, Advance& outcome, Verdict& verdict) {
  constexpr auto kNobody = CompletionStatus::retry_exceeded;
  const Slot slot = target.slot();
  if (last_ && last_slot_ == slot && !last_->peer()->dead()) return last_;
  last_.reset();
  if (const Status status = install_guard(); !status.ok()) return nullptr;
  const std::shared_ptr<Peer> peer = peers_.find(slot);
  if (!peer) {
    const bool is_met = met_.contains(slot);
    outcome = is_met ? Advance::failed : Advance::waiting;
    decide(verdict, kNobody, Reason::dropped_no_peer, "no process with QP {:#08x} has shown itself", target.value);
    // By now the slot may be another's; later messages reach it.
    if (is_met && peers_.has_ended(slot)) {
      [[maybe_unused]] const Status wanted = peers_.want(slot);
    }
    return nullptr;
  }
  met_.insert(slot);
  last_ = lanes_.to(peer);
  last_slot_ = slot;
  if (!last_) outcome = Advance::full;
  return last_;
}

Advance DatagramSender::receivers(const DatagramTarget& to, Verdict& verdict) {
  receivers_.clear();
  Advance outcome = Advance::failed;
  if (!to.address.destination.is_multicast()) {
    std::shared_ptr<LanePair> lanes = lanes_to(to.qpn, outcome, verdict);
    if (!lanes) return outcome;
    receivers_.push_back({std::move(lanes), to.qpn});
    return Advance::done;
  }
  if (!install_guard().ok()) return Advance::failed;
  decide(verdict, CompletionStatus::retry_exceeded, Reason::dropped_no_peer, "nobody is attached to {}",
         to.address.destination.text());
  // Whoever made the address handle has asked for all processes.
  if (!peers_.has_everyone()) return Advance::waiting;
  for (const GroupMember& member : group_members(peers_, to.address.destination))
    if (std::shared_ptr<LanePair> lanes = lanes_.to(member.peer)) receivers_.push_back({std::move(lanes), member.qpn});
  return receivers_.empty() ? Advance::failed : Advance::done;
}

Advance DatagramSender::post(const SendWork& work, Qpn own, uint32_t own_qkey, PdId pd, Verdict& verdict) {
  const DatagramTarget& to = work.operands.datagram;
  const Advance found = receivers(to, verdict);
  const TouchRecords::Guard touch(adapter_.touch_records(), own.index(), {own, TouchTarget::kNoRegion},
                                  adapter_.view().revokes_by_membarrier());
  OwnMessage message;
  // A bad SGE is the request's own error, whether or not anybody is there.
  if (Verdict own_error; !message.gather(adapter_, work, pd, own_region_, own_error)) {
    verdict = own_error;
    return Advance::failed;
  }
  if (found != Advance::done) return found;
  const auto header = datagram_header(to.address, static_cast<uint32_t>(work.length));
  message.prepend(header);
  for (const Receiver& receiver : receivers_) {
    const RequestFields fields{.source = own,
                               .target = receiver.qpn,
                               .opcode = static_cast<uint8_t>(work.opcode),
                               .service_level = to.address.service_level,
                               .immediate = work.immediate,
                               .key = to.qkey & kPrivilegedQkey ? own_qkey : to.qkey};
    const Advance outcome = message.post(*receiver.lanes, fields, work, {}, verdict);
    // One member of a group whose lane is full misses a message; it does not hold up the others.
    if (outcome == Advance::failed || (outcome == Advance::full && receivers_.size() == 1)) return outcome;
    receiver.lanes->peer()->wake();
  }
  return Advance::done;
}

}  // namespace verbatim::local
