#include "conformance/support/pair.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace verbatim::conformance {
namespace {

constexpr uint64_t kNobody = ~uint64_t{0};

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// What answers a requester of that type.
ibv_qp_type peer_of(ibv_qp_type type) { return type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type; }

}  // namespace

void PrintTo(const Posted& posted, std::ostream* out) {
  *out << (posted.error ? strerror(posted.error) : "all posted");
  if (posted.bad) *out << ", bad_wr is request " << *posted.bad;
}

void PrintTo(const Outcome& outcome, std::ostream* out) {
  if (outcome.id == kNobody)
    *out << "no completion";
  else
    *out << "WR " << outcome.id << " of QP " << outcome.qpn << ": " << ibv_wc_status_str(outcome.status)
         << (outcome.reason ? ", with a vendor_err" : ", no vendor_err");
}

Posted post(ibv_qp* qp, const std::vector<Request>& requests) {
  std::vector<ibv_send_wr> list(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    list[i] = {.wr_id = request.id,
               .next = i + 1 < requests.size() ? &list[i + 1] : nullptr,
               .sg_list = const_cast<ibv_sge*>(request.sges.data()),
               .num_sge = static_cast<int>(request.sges.size()),
               .opcode = request.opcode,
               .send_flags = request.flags,
               .imm_data = request.immediate};
    if (is_atomic(request.opcode))
      list[i].wr.atomic = {request.remote_address, request.compare_add, request.swap, request.rkey};
    else if (request.handle)
      list[i].wr.ud = {request.handle, request.qpn, request.qkey};
    else
      list[i].wr.rdma = {request.remote_address, request.rkey};
    list[i].qp_type.xrc.remote_srqn = request.shared_queue;
  }
  ibv_send_wr* bad = nullptr;
  Posted posted{.error = ibv_post_send(qp, list.data(), &bad)};
  if (posted.error && bad) posted.bad = static_cast<size_t>(bad - list.data());
  return posted;
}

Outcome outcome_of(const ibv_wc& completion) {
  return {completion.wr_id, completion.status, completion.qp_num, completion.vendor_err != 0};
}

void PairTest::set_up(Setting setting, ibv_wr_opcode opcode, uint64_t length, ibv_qp_type type, bool shared) {
  opcode_ = opcode;
  far_ = Responder::start(setting);
  near_.emplace();
  memory_.emplace(setting == Setting::other_process_file ? MemoryKind::file : MemoryKind::anonymous, length);
  region_ = near_->register_memory(*memory_);
  qp_ = near_->create_queue_pair(kOrdinaryCapabilities, false, type);
  remote_ = far_->register_memory(length);
  far_address_ = far_->create_queue_pair(peer_of(type), shared);
}

void PairTest::TearDown() {
  // The requester first: nothing may be on its way to a responder that goes.
  qp_.reset();
  far_.reset();
}

void PairTest::connect(const Wiring& near, const Wiring& far) {
  ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get()), far, peer_of(qp_->qp_type)), 0);
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, near), 0);
}

void PairTest::reconnect_near(const Wiring& wiring) {
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, wiring), 0);
}

Request PairTest::request(uint64_t id, uint64_t offset, uint32_t length, unsigned flags) const {
  return {.id = id,
          .opcode = opcode_,
          .sges = {local(offset, length)},
          .remote_address = remote_.address + offset,
          .rkey = remote_.rkey,
          .flags = flags,
          .shared_queue = far_address_.shared_queue};
}

Outcome PairTest::next() const {
  const std::optional<ibv_wc> completion = near_->poll();
  return completion ? outcome_of(*completion) : Outcome{.id = kNobody};
}

void PairTest::expect_responder_unharmed() {
  constexpr uint64_t kCheck = 0xc4ec;
  reconnect_near();
  EXPECT_EQ(post(request(kCheck, 0, 8)), kAllPosted);
  EXPECT_EQ(next(), succeeded(kCheck));
  EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
}

void PairTest::expect_responder_broken(ibv_event_type event, uint32_t receives) {
  const std::optional<Event> seen = far_->next_event();
  ASSERT_TRUE(seen) << "no event at the responder";
  EXPECT_EQ(seen->type, event) << ibv_event_type_str(seen->type);
  EXPECT_EQ(seen->queue_pair, 0u);
  EXPECT_EQ(far_->state_of(), IBV_QPS_ERR);
  for (uint32_t i = 0; i < receives; ++i) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << i << " was not flushed";
    EXPECT_EQ(outcome_of(*completion), (Outcome{i, IBV_WC_WR_FLUSH_ERR, far_address_.qpn, true}));
  }
  EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0)));
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0))) << "one error, one event";
}

std::string_view transport_name(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UC:
      return "Uc";
    case IBV_QPT_UD:
      return "Ud";
    case IBV_QPT_XRC_SEND:
      return "Xrc";
    default:
      return "Rc";
  }
}

std::string_view opcode_name(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return "Send";
    case IBV_WR_SEND_WITH_IMM:
      return "SendWithImmediate";
    case IBV_WR_SEND_WITH_INV:
      return "SendWithInvalidate";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "WriteWithImmediate";
    case IBV_WR_RDMA_READ:
      return "Read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "CompareAndSwap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "FetchAndAdd";
    default:
      return "Write";
  }
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) { return name(info.param); }

std::string way_name(const testing::TestParamInfo<std::tuple<Setting, ibv_wr_opcode>>& info) {
  return name(std::get<0>(info.param)) + std::string(opcode_name(std::get<1>(info.param)));
}

std::string lack_of_memory() {
  constexpr uint64_t kNeeded = 5 * kLongest;
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  while (meminfo >> word && word != "MemAvailable:") {
  }
  uint64_t kilobytes = 0;
  meminfo >> kilobytes;
  if (kilobytes >= kNeeded >> 10) return {};
  return "needs " + std::to_string(kNeeded >> 10) + " KiB of memory, " + std::to_string(kilobytes) + " are available";
}

bool test_everything() {
  const char* const value = std::getenv("VERBATIM_TEST_ALL");
  return value && std::string_view(value) == "1";
}

}  // namespace verbatim::conformance
