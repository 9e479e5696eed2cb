#include "local/datagram_sender.h"

#include "local/own_message.h"
#include "proto/datagram_header.h"

namespace verbatim::local {

std::shared_ptr<LanePair> DatagramSender::lanes_to(Qpn target, Advance& outcome, Verdict& verdict) {
  constexpr auto kNobody = CompletionStatus::retry_exceeded;
  const Slot slot = target.slot();
  if (last_ && last_slot_ == slot && !last_->peer()->dead()) return last_;
  last_.reset();
  if (const Status status = install_guard(); !status.ok()) return nullptr;
  const std::shared_ptr<Peer> peer = peers_.find(slot);
  if (!peer) {
    const bool ended = peers_.has_ended(slot);
    outcome = ended ? Advance::failed : Advance::waiting;
    decide(verdict, kNobody, Reason::dropped_no_peer, "no process with QP {:#08x} has shown itself", target.value);
    if (!ended && !peers_.want(slot).ok()) outcome = Advance::failed;
    return nullptr;
  }
  last_ = lanes_.to(peer);
  last_slot_ = slot;
  if (!last_) outcome = Advance::full;
  return last_;
}

Advance DatagramSender::post(const SendWork& work, Qpn own, PdId pd, Verdict& verdict) {
  Advance outcome = Advance::failed;
  const DatagramTarget& to = work.operands.datagram;
  const std::shared_ptr<LanePair> lanes = lanes_to(to.qpn, outcome, verdict);
  const TouchRecords::Guard touch(adapter_.touch_records(), own.index(), {own, TouchTarget::kNoRegion},
                                  adapter_.view().revokes_by_membarrier());
  OwnMessage message;
  // A bad SGE is the request's own error, whether or not anybody is there.
  if (Verdict own_error; !message.gather(adapter_, work, pd, own_error)) {
    verdict = own_error;
    return Advance::failed;
  }
  if (!lanes) return outcome;
  const auto header = datagram_header(to.address, static_cast<uint32_t>(work.length));
  message.prepend(header);
  const RequestFields fields{.source = own,
                             .target = to.qpn,
                             .opcode = static_cast<uint8_t>(work.opcode),
                             .service_level = to.address.service_level,
                             .immediate = work.immediate,
                             .key = to.qkey};
  outcome = message.post(*lanes, fields, work, {}, verdict);
  if (outcome != Advance::posted) return outcome;
  lanes->peer()->wake();
  return Advance::done;
}

}  // namespace verbatim::local
