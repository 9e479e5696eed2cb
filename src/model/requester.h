// The sending side of a queue pair: takes work requests in order, executes what it can on the peer's memory itself, and
// posts what needs the peer's part to its lane, where it is in flight until the answer has come.
//
//   posted ──→ direct (WRITE, READ, atomics that can be reached): executed when nothing is in flight
//          ──→ message (SEND, the notice of a WRITE_WITH_IMM, atomics by request): in flight ──→ answered, in order
//          ──→ in parts (what moves data that one side cannot reach in the other): alone, a few parts at a time
//          ──→ datagram, or a short UC message: done once it is in the lane
//
// A message that finds no receive is tried again until the RNR retries are over; one that finds no queue pair until the
// time-out. While it is not even known whose the peer is, a second is granted on top: an introduction by the agent is
// this host's affair, not the network's. Not thread-safe: used under the queue pair's lock. Never blocks.
#pragma once

#include <optional>

#include "local/datagram_sender.h"
#include "local/revocation.h"
#include "model/queue_pair_core.h"
#include "model/send_queue.h"

namespace verbatim::model {

class Requester {
 public:
  explicit Requester(QueuePairCore& core);

  // Learns whom it sends to (not UD).
  Status connect(const local::LocalEndpoint::Path& path) {
    fetching_ = Fetching::untried;
    credits_ = 0;
    // The answers come from another, or never.
    if (parts_) withdraw_parts();
    return endpoint_.connect(path);
  }
  const local::LocalEndpoint::Path& path() const { return endpoint_.path(); }

  // EINVAL: not in a state to send, too many SGEs, too much inline data, an opcode that the queue pair's type does not
  // have. ENOMEM: the queue is full.
  Status enqueue(const SendWork& work);

  uint64_t posted() const { return sends_.posted(); }
  // Forgets the requests after the first `posted`, of which none was executed.
  void take_back(uint64_t posted) { sends_.take_back(posted); }

  // Executes what it may, `budget` bytes or a little more; false when the head has failed: the queue pair is then in
  // error.
  bool run(uint64_t budget);
  // Work that no answer will carry on, and whether it can go on at once.
  Backlog backlog() const;
  // Whether a message has begun that must end before the queue is drained.
  bool is_amid_message() const { return sends_.is_amid_request(); }
  // The connection that its messages are of; another after clear().
  uint32_t stream() const { return stream_; }

  // An answer to what was posted. False when the head has failed.
  bool deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply);
  // Data that a READ in parts asked for. False when the head has failed.
  bool take_response(const local::Request& request);
  // Nobody will answer any more if the peer is dead; what was in flight is then to be tried anew, and fails.
  void look_after_peer();

  void flush();
  // As if nothing had ever been posted; answers to what was are nobody's.
  void clear();
  void retire(uint64_t count) { sends_.retire(count); }

 private:
  enum class Step {
    went_on,  // something was done
    waits,    // hold_ says for what
    failed,
  };
  // What the next request waits for.
  enum class Hold { nothing, answer, time };
  Step step(uint64_t& budget);
  // Whether the head of what is not issued may go on in this state.
  bool may_go_on() const;
  bool check(const SendWork& work, local::Verdict& verdict) const;
  Step execute_directly(const SendWork& work, uint64_t& budget);
  Step change_window(const SendWork& work);
  Step post_message(const SendWork& work);
  Step post_parts(const SendWork& work);
  bool goes_in_parts(const SendWork& work) const;
  bool awaits_first_fetch() const;
  Step post_datagram(const SendWork& work);
  Step on_outcome(const SendWork& work, local::Advance outcome, const local::Verdict& verdict);
  // The unreliable way: what the peer would refuse is lost, and the request succeeds.
  Step lose(const SendWork& work, const local::Verdict& verdict);
  // A wait that ends some time. False when it has.
  struct Wait {
    bool begun = false;
    Instant until = kNever;
  };
  // Of a peer that is dead: whether the program has yet to see some.
  bool may_have_last_answers() const;
  bool keep_waiting(Wait& wait, Duration patience);
  // Of a request whose peer's process is not known.
  bool await_introduction(const SendWork& work);
  void withdraw();
  bool on_part(const local::Awaiting& awaiting, const local::ReplyFields& reply);
  // The number of the oldest part in flight of a READ or WRITE.
  uint32_t oldest_part() const { return next_part_ - parts_->in_flight; }
  void use_receive();
  // The next part is in place.
  void part_done(const SendWork& work);
  // From byte `done` on, none in flight: in the beginning, and when those that were are to be posted anew.
  void begin_parts(uint64_t done);
  void withdraw_parts();
  void complete_head();
  // The head is done with.
  void pop_head();
  Step hold(Hold what) {
    hold_ = what;
    return Step::waits;
  }
  Step fail_head(const local::Verdict& verdict);
  void finish_head(CompletionStatus status, Reason reason);
  Duration introduction_patience() const;
  Duration not_ready_patience() const;
  Duration receiver_patience() const;

  QueuePairCore& core_;
  local::LocalEndpoint endpoint_;
  local::DatagramSender datagrams_;
  SendQueue sends_;
  uint64_t head_offset_ = 0;  // bytes of the next request that are in place, or on their way in parts
  bool data_placed_ = false;  // all of a WRITE_WITH_IMM's, whose notice is still to be posted
  bool by_request_ = false;   // the next request can only be executed by the peer
  // How the next request goes in parts, if it does: those from byte `done` to head_offset_ are in flight.
  struct Parts {
    uint64_t attempt;
    uint64_t done;
    uint32_t in_flight;
    // The first of a READ that the peer had no room to answer: it and what follows are asked for anew once all before
    // it have come.
    std::optional<uint32_t> refused;
  };
  std::optional<Parts> parts_;
  bool receive_taken_ = false;  // for the next request, as far as we know, when it was tried before
  // Whether the peer can fetch what is too long for a lane, from any memory.
  enum class Fetching { untried, works, forbidden };
  Fetching fetching_ = Fetching::untried;
  std::optional<local::Revocation> window_change_;  // the next request has made it, and waits for its end
  Hold hold_ = Hold::nothing;                       // since the last run
  Wait last_answers_;
  bool has_asked_ = false;  // the agent, for the next request
  Wait agent_answer_;
  Wait introduction_;
  Wait not_ready_;
  Wait no_receive_;

  uint64_t attempt_;
  uint32_t stream_;
  uint32_t next_number_ = 0;
  uint32_t next_part_ = 0;    // of READs and WRITEs
  bool starts_count_ = true;  // the peer has yet to take a message that begins the stream's count
  uint32_t receives_used_ = 0;
  uint32_t credits_ = 0;  // receives that the peer has for what comes next, as far as its answers said
};

}  // namespace verbatim::model
