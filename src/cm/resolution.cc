#include "cm/resolution.h"

#include <cerrno>

namespace verbatim::cm {

std::pair<Resolution, ResolutionStep> Resolution::ask(Instant now, const Path& path, const wire::CmMessage& message,
                                                      Duration interval, uint8_t retries) {
  const wire::SidrReq& req = std::get<wire::SidrReq>(message.body);
  Resolution resolution;
  resolution.state_ = ResolutionState::waiting;
  resolution.retries_left_ = retries;
  resolution.local_id_ = resolution.request_id_ = req.request_id;
  resolution.service_id_ = req.service_id;
  resolution.transaction_id_ = message.transaction_id;
  resolution.path_ = path;
  resolution.interval_ = interval;
  resolution.deadline_ = now + interval;
  resolution.last_ = wire::emit_cm(message);
  return {resolution, ResolutionStep{.send = resolution.last_}};
}

Resolution Resolution::asked(wire::CommunicationId local_id, const Path& path, const wire::CmMessage& message) {
  const wire::SidrReq& req = std::get<wire::SidrReq>(message.body);
  Resolution resolution;
  resolution.local_id_ = local_id;
  resolution.request_id_ = req.request_id;
  resolution.service_id_ = req.service_id;
  resolution.transaction_id_ = message.transaction_id;
  resolution.path_ = path;
  return resolution;
}

Result<ResolutionStep> Resolution::answer(wire::SidrRep rep) {
  if (state_ != ResolutionState::asked) return Status{EINVAL};
  rep.request_id = request_id_;
  rep.service_id = service_id_;
  state_ = ResolutionState::answered;
  last_ = wire::emit_cm({transaction_id_, rep});
  return ResolutionStep{.send = last_};
}

ResolutionStep Resolution::on_duplicate() {
  if (state_ == ResolutionState::answered) return {.send = last_};
  return {.dropped = Reason::cm_duplicate};
}

ResolutionStep Resolution::on_answer() {
  if (state_ != ResolutionState::waiting) return {.dropped = Reason::cm_state};
  state_ = ResolutionState::over;
  deadline_ = kNever;
  return {.news = ResolutionNews::answered};
}

ResolutionStep Resolution::on_deadline(Instant now) {
  if (deadline_ > now) return {};
  if (retries_left_ == 0) {
    state_ = ResolutionState::over;
    deadline_ = kNever;
    return {.news = ResolutionNews::unreachable};
  }
  --retries_left_;
  deadline_ = now + interval_;
  return {.send = last_};
}

}  // namespace verbatim::cm
