#include "conformance/support/responder_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "conformance/support/own_segment.h"
#include "conformance/support/window.h"

namespace verbatim::conformance {

using Act = Command::Act;

namespace {

// Outlives its parent, but not for long.
pid_t fork_idle_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(120);
  for (;;) pause();
}

}  // namespace

Reply ResponderState::execute(const Command& command) {
  ibv_qp* const qp = command.queue_pair < queue_pairs_.size() ? queue_pairs_[command.queue_pair].get() : nullptr;
  Reply reply;
  switch (command.act) {
    case Act::register_memory:
      return register_memory(command);
    case Act::create_queue_pair:
      return create_queue_pair(command);
    case Act::post_receives:
      return post_receives(command);
    case Act::post_receive:
      return post_receive(command);
    case Act::post_send:
      return post_send(command);
    case Act::add_remotely:
      return add_remotely(command);
    case Act::next_event:
      return next_event(command);
    case Act::allocate_window:
      return allocate_window();
    case Act::bind_window:
      return bind_window(command);
    case Act::read:
      return read(command);
    case Act::compare:
      return compare(command);
    case Act::await_change:
      return await_change(command);
    case Act::deregister_memory:
      reply.error = ibv_dereg_mr(region_.release());
      break;
    case Act::lose_memory:
      if (command.truncates)
        memory_->truncate();
      else
        memory_->unmap();
      break;
    case Act::destroy_queue_pair:
      reply.error = ibv_destroy_qp(queue_pairs_[command.queue_pair].release());
      break;
    case Act::modify: {
      ibv_qp_attr attributes = command.attributes;
      reply.error = ibv_modify_qp(qp, &attributes, command.mask);
      break;
    }
    case Act::query:
      reply.attributes = query(qp);
      break;
    case Act::poll:
      if (const std::optional<ibv_wc> completion = side_.poll(command.patience)) {
        reply.found = true;
        reply.completion = *completion;
      }
      break;
    case Act::attach:
      reply.error = ibv_attach_mcast(qp, &command.group, 0);
      break;
    case Act::detach:
      reply.error = ibv_detach_mcast(qp, &command.group, 0);
      break;
    case Act::fill:
      fill(memory_->bytes(command.offset, command.length), command.seed, command.offset);
      break;
    case Act::begin_scribbling:
      writers_.emplace_back(scribble_over_own_segment);
      break;
    case Act::begin_writing:
      begin_writing(command);
      break;
    case Act::end_writing:
      end_writing();
      break;
    case Act::fork_child:
      return {.value = static_cast<uint64_t>(fork_idle_child())};
    case Act::stop:
      break;
  }
  return reply;
}

Reply ResponderState::register_memory(const Command& command) {
  region_.reset();
  memory_.emplace(command.memory, command.length);
  if (command.read_only) {
    fill(memory_->bytes(), command.seed);
    if (mprotect(memory_->data(), memory_->size(), PROT_READ) != 0) return {.error = errno};
  }
  ibv_pd* const pd = command.other_pd ? side_.other_pd() : side_.pd();
  const uint64_t iova = command.iova ? command.iova : memory_->address();
  region_.reset(ibv_reg_mr_iova(pd, memory_->data(), memory_->size(), iova, static_cast<int>(command.access)));
  if (!region_) return {.error = errno};
  return {.value = memory_->address(), .rkey = region_->rkey};
}

Reply ResponderState::create_queue_pair(const Command& command) {
  const bool extended = command.type == IBV_QPT_XRC_RECV;
  if (extended && !domain_) domain_ = side_.open_xrc_domain();
  if ((extended || command.shared) && !shared_) shared_ = side_.create_shared_queue(domain_.get());
  queue_pairs_.push_back(extended ? side_.create_xrc_receiver(domain_.get())
                                  : side_.create_queue_pair(kOrdinaryCapabilities, false, command.type,
                                                            command.shared ? shared_.get() : nullptr));
  if (!queue_pairs_.back()) return {.error = errno};
  Reply reply{.address = side_.address_of(queue_pairs_.back().get())};
  if (extended) reply.error = ibv_get_srq_num(shared_.get(), &reply.address.shared_queue);
  return reply;
}

Reply ResponderState::post_receives(const Command& command) {
  for (uint32_t i = 0; i < command.count; ++i) {
    ibv_recv_wr request{.wr_id = i};
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(queue_pairs_[command.queue_pair].get(), &request, &bad))
      return {.error = error};
  }
  return {};
}

Reply ResponderState::post_receive(const Command& command) const {
  ibv_sge sges[kReceivePieces];
  for (uint32_t i = 0; i < command.count; ++i)
    sges[i] = {memory_->address(command.pieces[i].offset), command.pieces[i].length, region_->lkey};
  ibv_recv_wr request{.wr_id = command.id, .sg_list = sges, .num_sge = static_cast<int>(command.count)};
  ibv_recv_wr* bad = nullptr;
  ibv_qp* const qp = queue_pairs_[command.queue_pair].get();
  ibv_srq* const srq = qp->qp_type == IBV_QPT_XRC_RECV ? shared_.get() : qp->srq;
  return {.error = srq ? ibv_post_srq_recv(srq, &request, &bad) : ibv_post_recv(qp, &request, &bad)};
}

Request ResponderState::request_of(const Command& command) const {
  Request request{.id = command.id,
                  .opcode = command.opcode,
                  .remote_address = command.remote_address,
                  .rkey = command.rkey,
                  .flags = command.flags,
                  .immediate = command.immediate,
                  .compare_add = 1,
                  .qpn = command.target.qpn,
                  .qkey = Wiring{}.qkey,
                  .shared_queue = command.target.shared_queue};
  const Piece& piece = command.pieces[0];
  if (piece.length) request.sges = {{memory_->address(piece.offset), piece.length, region_->lkey}};
  return request;
}

Reply ResponderState::post_send(const Command& command) {
  Request request = request_of(command);
  ibv_qp* const qp = queue_pairs_[command.queue_pair].get();
  if (qp->qp_type == IBV_QPT_UD) {
    handles_.push_back(side_.create_address_handle(command.target.gid));
    request.handle = handles_.back().get();
  }
  Posted posted;
  do posted = post(qp, {request});
  while (posted.error == ENOMEM && (std::this_thread::yield(), true));
  return {.error = posted.error};
}

Reply ResponderState::add_remotely(const Command& command) const {
  const bool swaps = command.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  Request request{.opcode = command.opcode,
                  .sges = {{memory_->address(), sizeof(uint64_t), region_->lkey}},
                  .remote_address = command.remote_address,
                  .rkey = command.rkey};
  uint64_t seen = 0;
  for (uint32_t added = 0; added < command.count;) {
    request.compare_add = swaps ? seen : 1;
    request.swap = seen + 1;
    if (const Posted posted = post(queue_pairs_[command.queue_pair].get(), {request}); posted.error)
      return {.error = posted.error};
    const std::optional<ibv_wc> completion = side_.poll();
    if (!completion || completion->status != IBV_WC_SUCCESS) return {.error = EIO};
    uint64_t before;
    std::memcpy(&before, memory_->data(), sizeof before);
    if (!swaps || before == seen) ++added;
    seen = before;
  }
  return {};
}

Reply ResponderState::next_event(const Command& command) {
  std::optional<ibv_async_event> event = side_.next_event(command.patience);
  if (!event) return {};
  Reply reply{.found = true, .event = {.type = event->event_type, .queue_pair = UINT32_MAX}};
  for (size_t i = 0; i < queue_pairs_.size(); ++i)
    if (queue_pairs_[i].get() == event->element.qp) reply.event.queue_pair = static_cast<uint32_t>(i);
  ibv_ack_async_event(&*event);
  return reply;
}

void ResponderState::begin_writing(const Command& command) {
  const auto write = [this, request = request_of(command)](const std::stop_token& stop, ibv_qp* qp) {
    while (!stop.stop_requested()) {
      const int error = post(qp, {request}).error;
      EXPECT_TRUE(error == 0 || error == ENOMEM) << strerror(error);
      // The CQ is everybody's; room for one's own requests comes from whoever takes their completions.
      ibv_wc completions[4];
      EXPECT_GE(ibv_poll_cq(side_.cq(), 4, completions), 0);
    }
  };
  writers_.emplace_back(write, queue_pairs_[command.queue_pair].get());
}

void ResponderState::end_writing() {
  writers_.clear();
  queue_pairs_.clear();
}

Reply ResponderState::allocate_window() {
  windows_.emplace_back(ibv_alloc_mw(side_.pd(), IBV_MW_TYPE_2));
  if (!windows_.back()) return {.error = errno};
  return {.rkey = windows_.back()->rkey};
}

Reply ResponderState::bind_window(const Command& command) const {
  ibv_mw* const window = windows_[command.window].get();
  conformance::bind_window(side_, queue_pairs_[0].get(), window,
                           {.mr = region_.get(),
                            .addr = memory_->address(),
                            .length = memory_->size(),
                            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE});
  return {.rkey = window->rkey};
}

Reply ResponderState::read(const Command& command) const {
  Reply reply;
  const uint64_t length = std::min<uint64_t>(kReadBytes, memory_->size() - command.offset);
  std::ranges::copy(memory_->bytes(command.offset, length), reply.bytes.begin());
  return reply;
}

Reply ResponderState::compare(const Command& command) const {
  const std::optional<uint64_t> where =
      first_difference(memory_->bytes(command.offset, command.length), command.seed, command.position);
  return {.found = where.has_value(), .value = where.value_or(0)};
}

Reply ResponderState::await_change(const Command& command) const {
  const auto deadline = std::chrono::steady_clock::now() + command.patience;
  const std::atomic_ref<uint8_t> last(memory_->data()[command.offset + command.length - 1]);
  while (last.load(std::memory_order_acquire) == command.byte) {
    if (std::chrono::steady_clock::now() >= deadline) return {.error = ETIMEDOUT};
  }
  return compare(command);
}

}  // namespace verbatim::conformance
