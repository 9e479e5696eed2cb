#include "conformance/support/responder.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::conformance {

using Act = Command::Act;

namespace {

Command command_of(Act act, uint32_t index, const FarRequest& request) {
  return {.act = act,
          .queue_pair = index,
          .remote_address = request.remote_address,
          .rkey = request.rkey,
          .id = request.id,
          .pieces = {request.piece},
          .opcode = request.opcode,
          .immediate = request.immediate,
          .flags = request.flags,
          .target = request.target};
}

}  // namespace

std::string name(Setting setting) {
  switch (setting) {
    case Setting::in_process:
      return "InProcess";
    case Setting::other_process_file:
      return "OtherProcessFileMemory";
    case Setting::other_process_anonymous:
      return "OtherProcessAnonymousMemory";
    case Setting::other_process_unreachable:
      return "OtherProcessUnreachableMemory";
  }
  return "";
}

bool is_other_process(Setting setting) { return setting != Setting::in_process; }

RemoteMemory Responder::register_memory(uint64_t length, unsigned access, bool other_pd) {
  return register_as({.access = access, .other_pd = other_pd, .length = length});
}

RemoteMemory Responder::register_memory_at(uint64_t length, uint64_t iova, unsigned access) {
  return register_as({.access = access, .iova = iova, .length = length});
}

RemoteMemory Responder::register_read_only_memory(uint64_t length, uint64_t seed) {
  return register_as({.access = IBV_ACCESS_REMOTE_READ, .read_only = true, .length = length, .seed = seed});
}

RemoteMemory Responder::register_as(Command command) {
  command.act = Act::register_memory;
  command.memory = memory_;
  const Reply reply = ask(command);
  EXPECT_EQ(reply.error, 0);
  return {reply.value, reply.rkey};
}

void Responder::deregister_memory() { EXPECT_EQ(ask({.act = Act::deregister_memory}).error, 0); }

void Responder::begin_scribbling() { ask({.act = Act::begin_scribbling}); }

void Responder::lose_memory(bool by_truncation) { ask({.act = Act::lose_memory, .truncates = by_truncation}); }

void Responder::fill(uint64_t offset, uint64_t length, uint64_t seed) {
  ask({.act = Act::fill, .offset = offset, .length = length, .seed = seed});
}

std::optional<uint64_t> Responder::first_difference(uint64_t offset, uint64_t length, uint64_t seed,
                                                    uint64_t position) {
  const Reply reply =
      ask({.act = Act::compare, .offset = offset, .length = length, .seed = seed, .position = position});
  return reply.found ? std::optional(reply.value) : std::nullopt;
}

void Responder::begin_await_last_byte(uint8_t before, uint64_t offset, uint64_t length, uint64_t seed,
                                      uint64_t position) {
  tell({.act = Act::await_change,
        .byte = before,
        .offset = offset,
        .length = length,
        .seed = seed,
        .position = position,
        .patience = kSoon});
}

std::optional<uint64_t> Responder::end_await_last_byte() {
  const Reply reply = answer();
  EXPECT_EQ(reply.error, 0) << "the byte never changed";
  return reply.found ? std::optional(reply.value) : std::nullopt;
}

std::array<uint8_t, kReadBytes> Responder::bytes_at(uint64_t offset) {
  return ask({.act = Act::read, .offset = offset}).bytes;
}

uint32_t Responder::allocate_window() {
  const Reply reply = ask({.act = Act::allocate_window});
  EXPECT_EQ(reply.error, 0);
  return reply.rkey;
}

uint32_t Responder::bind_window(uint32_t index) { return ask({.act = Act::bind_window, .window = index}).rkey; }

Address Responder::create_queue_pair(ibv_qp_type type, bool shared) {
  return ask({.act = Act::create_queue_pair, .type = type, .shared = shared}).address;
}

int Responder::destroy_queue_pair(uint32_t index) {
  return ask({.act = Act::destroy_queue_pair, .queue_pair = index}).error;
}

int Responder::modify(uint32_t index, const ibv_qp_attr& attributes, int mask) {
  return ask({.act = Act::modify, .queue_pair = index, .mask = mask, .attributes = attributes}).error;
}

int Responder::to_state(uint32_t index, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return modify(index, attributes, IBV_QP_STATE);
}

int Responder::connect(uint32_t index, const Address& peer, const Wiring& wiring, ibv_qp_type type) {
  if (const int error = modify(index, init_attributes(wiring), init_mask(type))) return error;
  if (const int error = modify(index, rtr_attributes(wiring, peer), rtr_mask(type))) return error;
  return modify(index, rts_attributes(wiring), rts_mask(type));
}

ibv_qp_state Responder::state_of(uint32_t index) {
  return ask({.act = Act::query, .queue_pair = index}).attributes.qp_state;
}

int Responder::post_receives(uint32_t index, uint32_t count) {
  return ask({.act = Act::post_receives, .queue_pair = index, .count = count}).error;
}

int Responder::post_receive(uint32_t index, uint64_t id, const std::vector<Piece>& pieces) {
  Command command{.act = Act::post_receive, .queue_pair = index, .id = id};
  EXPECT_LE(pieces.size(), kReceivePieces);
  command.count = static_cast<uint32_t>(std::min(pieces.size(), kReceivePieces));
  std::copy_n(pieces.begin(), command.count, command.pieces);
  return ask(command).error;
}

std::optional<ibv_wc> Responder::poll(std::chrono::milliseconds patience) {
  const Reply reply = ask({.act = Act::poll, .patience = patience});
  return reply.found ? std::optional(reply.completion) : std::nullopt;
}

int Responder::post_send(uint32_t index, const FarRequest& request) {
  return ask(command_of(Act::post_send, index, request)).error;
}

int Responder::add_remotely(uint32_t index, ibv_wr_opcode opcode, const RemoteMemory& there, uint32_t count) {
  return ask({.act = Act::add_remotely,
              .queue_pair = index,
              .count = count,
              .remote_address = there.address,
              .rkey = there.rkey,
              .opcode = opcode})
      .error;
}

void Responder::begin_writing(uint32_t index, const FarRequest& request) {
  ask(command_of(Act::begin_writing, index, request));
}

void Responder::end_writing() { ask({.act = Act::end_writing}); }

int Responder::attach(uint32_t index, const ibv_gid& group) {
  return ask({.act = Act::attach, .queue_pair = index, .group = group}).error;
}

int Responder::detach(uint32_t index, const ibv_gid& group) {
  return ask({.act = Act::detach, .queue_pair = index, .group = group}).error;
}

pid_t Responder::fork_child() { return static_cast<pid_t>(ask({.act = Act::fork_child}).value); }

std::optional<Event> Responder::next_event(std::chrono::milliseconds patience) {
  const Reply reply = ask({.act = Act::next_event, .patience = patience});
  return reply.found ? std::optional(reply.event) : std::nullopt;
}

}  // namespace verbatim::conformance
