// The resolution of a service ID to a queue pair for datagrams (SIDR, IBTA 12.11), either side.
//
//     asker:    waiting ──SIDR_REP──▶ over          answerer:    asked ──answer: SIDR_REP──▶ answered
//                  └──(retries used up)──▶ over                                              └▶ the same again
//
// An answerer answers duplicates with what it has answered before. Not thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "base/time.h"
#include "cm/connection.h"
#include "cm/parameters.h"
#include "wire/cm_message.h"

namespace verbatim::cm {

enum class ResolutionState : uint8_t { waiting, over, asked, answered };

enum class ResolutionNews : uint8_t { none, answered, unreachable };

struct ResolutionStep {
  std::optional<wire::Mad> send;
  ResolutionNews news = ResolutionNews::none;
  Reason dropped = Reason::none;
};

class Resolution {
 public:
  // `req` goes out with the first step.
  static std::pair<Resolution, ResolutionStep> ask(Instant now, const Path& path, const wire::CmMessage& req,
                                                   Duration interval, uint8_t retries);
  static Resolution asked(wire::CommunicationId local_id, const Path& path, const wire::CmMessage& req);

  // Anything but `asked`: EINVAL. What stands in `rep` of the question is filled in.
  Result<ResolutionStep> answer(wire::SidrRep rep);
  ResolutionStep on_duplicate();  // of the request
  ResolutionStep on_answer();
  Instant deadline() const { return deadline_; }
  ResolutionStep on_deadline(Instant now);

  ResolutionState state() const { return state_; }
  wire::CommunicationId local_id() const { return local_id_; }
  wire::CommunicationId request_id() const { return request_id_; }
  const Path& path() const { return path_; }

 private:
  ResolutionState state_ = ResolutionState::asked;
  uint8_t retries_left_ = 0;
  wire::CommunicationId local_id_;    // what we call it
  wire::CommunicationId request_id_;  // what stands in the messages: the asker's
  wire::ServiceId service_id_;
  uint64_t transaction_id_ = 0;
  Path path_;
  Duration interval_;
  Instant deadline_ = kNever;
  wire::Mad last_{};  // what was sent last
};

}  // namespace verbatim::cm
