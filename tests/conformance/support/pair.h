// The fixture of the scripts: a requester in the test's process, a responder where the Setting says, and one of the two
// one-sided operations. The script is the same for all of them.
#pragma once

#include <ostream>
#include <tuple>
#include <vector>

#include "base/sanitizer.h"
#include "conformance/support/responder.h"

namespace verbatim::conformance {

// One send work request, without the C structures' lists.
struct Request {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::vector<ibv_sge> sges;
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  unsigned flags = IBV_SEND_SIGNALED;
  uint32_t immediate = 0;  // as it lies in memory, or the key to invalidate
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  // A datagram's target.
  ibv_ah* handle = nullptr;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
  // The shared receive queue that an XRC message names.
  uint32_t shared_queue = 0;
};

// What ibv_post_send made of a list: its errno, and which request bad_wr named.
struct Posted {
  int error = 0;
  std::optional<size_t> bad;
  bool operator==(const Posted&) const = default;
};
inline constexpr Posted kAllPosted{};
void PrintTo(const Posted& posted, std::ostream* out);
Posted post(ibv_qp* qp, const std::vector<Request>& requests);

// Of a completion, what is meaningful whatever its status; `reason` is whether vendor_err says anything.
struct Outcome {
  uint64_t id = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t qpn = 0;
  bool reason = false;
  bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out);
Outcome outcome_of(const ibv_wc& completion);

class PairTest : public testing::Test {
 protected:
  // Both memories have `length` bytes; neither queue pair is connected.
  // `type` is the requester's. `shared`: the responder takes its receives from a shared receive queue.
  void set_up(Setting setting, ibv_wr_opcode opcode, uint64_t length = kLength, ibv_qp_type type = IBV_QPT_RC,
              bool shared = false);
  void TearDown() override;

  // Connects both ends to each other; EXPECTs success.
  void connect(const Wiring& near = {}) { connect(near, near); }
  void connect(const Wiring& near, const Wiring& far);
  // The requester's end, from whatever state it is in.
  void reconnect_near(const Wiring& wiring = {});

  ibv_sge local(uint64_t offset, uint32_t length) const { return {memory_->address(offset), length, region_->lkey}; }
  // The operation under test between the same offsets of both memories. Over XRC it names the responder's queue.
  Request request(uint64_t id, uint64_t offset, uint32_t length, unsigned flags = IBV_SEND_SIGNALED) const;
  Posted post(const std::vector<Request>& requests) const { return conformance::post(qp_.get(), requests); }
  Posted post(const Request& request) const { return conformance::post(qp_.get(), {request}); }

  // The next completion of the requester; an outcome that equals no other when there is none within kSoon.
  Outcome next() const;
  bool no_completion(std::chrono::nanoseconds patience = {}) const { return !near_->poll(patience); }
  Outcome succeeded(uint64_t id) const { return {id, IBV_WC_SUCCESS, qp_->qp_num, false}; }
  Outcome failed(uint64_t id, ibv_wc_status status) const { return {id, status, qp_->qp_num, true}; }
  Outcome flushed(uint64_t id) const { return failed(id, IBV_WC_WR_FLUSH_ERR); }

  // That the responder has noticed nothing: it still serves the peer that it is connected to, and has no news.
  void expect_responder_unharmed();
  // That its queue pair is in ERR, said so by that event, and flushed its receives 0 … receives - 1.
  void expect_responder_broken(ibv_event_type event, uint32_t receives);

  static constexpr uint64_t kLength = 16384;

  ibv_wr_opcode opcode_ = IBV_WR_RDMA_WRITE;
  std::unique_ptr<Responder> far_;
  std::optional<Side> near_;
  std::optional<Memory> memory_;
  MrHandle region_;
  QpHandle qp_;
  Address far_address_;
  RemoteMemory remote_;
};

// A script for each setting and both operations.
class EachWay : public PairTest, public testing::WithParamInterface<std::tuple<Setting, ibv_wr_opcode>> {
 protected:
  EachWay() { set_up(std::get<0>(GetParam()), std::get<1>(GetParam())); }
  Setting setting() const { return std::get<0>(GetParam()); }
  bool reads() const { return opcode_ == IBV_WR_RDMA_READ; }
};
// A script for each setting, that says itself what it posts.
class EachSetting : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  EachSetting() { set_up(GetParam(), IBV_WR_RDMA_WRITE); }
};

// Under the AddressSanitizer without other_process_anonymous, where the kernel copies and there is nothing to see for
// it: how we ask the kernel, it sees in the tests of src/local.
inline auto those_to_see(std::vector<Setting> settings) {
#if defined(VERBATIM_ADDRESS_SANITIZER)
  std::erase(settings, Setting::other_process_anonymous);
#endif
  return testing::ValuesIn(settings);
}
inline auto every_setting() {
  return those_to_see({Setting::in_process, Setting::other_process_file, Setting::other_process_anonymous,
                       Setting::other_process_unreachable});
}
// Those where a READ or WRITE is executed while it is posted.
inline auto direct_settings() {
  return those_to_see({Setting::in_process, Setting::other_process_file, Setting::other_process_anonymous});
}
inline auto other_processes() {
  return those_to_see(
      {Setting::other_process_file, Setting::other_process_anonymous, Setting::other_process_unreachable});
}
inline auto direct_processes() { return those_to_see({Setting::other_process_file, Setting::other_process_anonymous}); }
inline auto every_way() {
  return testing::Combine(every_setting(), testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ));
}
std::string_view transport_name(ibv_qp_type type);
std::string_view opcode_name(ibv_wr_opcode opcode);
std::string setting_name(const testing::TestParamInfo<Setting>& info);
std::string way_name(const testing::TestParamInfo<std::tuple<Setting, ibv_wr_opcode>>& info);

// The longest message of the port.
inline constexpr uint64_t kLongest = uint64_t{1} << 31;
// Why no test moves one; empty when there is memory for it at both ends, in two tests at once.
std::string lack_of_memory();

// VERBATIM_TEST_ALL=1: also what takes long.
bool test_everything();

}  // namespace verbatim::conformance
