// The data checker of messages: what is sent lands where the receive or the request says, whole and in order, nothing
// beside it changes, and each completion says what happened.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kGuard = 4096;
constexpr uint64_t kNearSeed = 2;
constexpr uint64_t kFarSeed = 1;
constexpr uint32_t kImmediate = 0x12fe34dc;
constexpr uint32_t kInlineLimit = kOrdinaryCapabilities.max_inline_data;

// What is sent, over which transport, and from which queue the receive comes.
struct Delivery {
  ibv_qp_type type;
  ibv_wr_opcode opcode;
  bool inline_data;
  bool shared;

  bool immediate() const { return opcode != IBV_WR_SEND; }
  bool writes() const { return opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
};

std::string name(const Delivery& delivery) {
  std::string name = delivery.type == IBV_QPT_RC ? "Rc" : "Uc";
  name += delivery.writes() ? "WriteWithImmediate" : delivery.immediate() ? "SendWithImmediate" : "Send";
  if (delivery.inline_data) name += "Inline";
  if (delivery.shared) name += "Shared";
  return name;
}

std::vector<Delivery> deliveries() {
  std::vector<Delivery> all;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC})
    for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM})
      for (const bool inline_data : {false, true})
        for (const bool shared : {false, true}) all.push_back({type, opcode, inline_data, shared});
  return all;
}

class Message : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Delivery>> {
 protected:
  const Delivery& delivery() const { return std::get<1>(GetParam()); }

  // The largest message that will be sent.
  void set_up_for(uint64_t largest) {
    size_ = largest + 3 * kGuard;
    set_up(std::get<0>(GetParam()), delivery().opcode, size_, delivery().type, delivery().shared);
    connect();
  }

  // Whether a message of this length can be sent this way.
  bool possible(uint64_t length) const { return !delivery().inline_data || length <= kInlineLimit; }

  Request message(uint64_t id, uint64_t offset, uint32_t length, uint64_t remote) const {
    Request request{.id = id, .opcode = delivery().opcode, .immediate = kImmediate};
    request.sges.push_back(local(offset, length));
    if (delivery().inline_data) {
      request.flags |= IBV_SEND_INLINE;
      request.sges.back().lkey = 0;  // is not looked at
    }
    if (delivery().writes()) {
      request.remote_address = remote_.address + remote;
      request.rkey = remote_.rkey;
    }
    return request;
  }

  // The receive that a message to `remote` takes: of a WRITE it is empty, for the data knows its own way.
  void post_receive(uint64_t id, uint64_t remote, uint32_t length) {
    post_receive(id, std::vector<Piece>{{remote, length}});
  }
  void post_receive(uint64_t id, const std::vector<Piece>& pieces) {
    EXPECT_EQ(far_->post_receive(0, id, delivery().writes() ? std::vector<Piece>{} : pieces), 0);
  }

  void expect_received(uint64_t id, uint64_t length) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id << " was not taken";
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, far_address_.qpn, false}));
    EXPECT_EQ(completion->opcode, delivery().writes() ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    EXPECT_EQ(completion->byte_len, length);
    EXPECT_EQ((completion->wc_flags & IBV_WC_WITH_IMM) != 0, delivery().immediate());
    if (delivery().immediate()) {
      EXPECT_EQ(completion->imm_data, kImmediate);
    }
  }

  void fill_both() {
    far_->fill(0, size_, kFarSeed);
    fill(memory_->bytes(0, size_), kNearSeed);
  }

  // All of the responder's memory: `length` bytes from `remote` on are the requester's from `offset` on.
  void expect_arrived(uint64_t offset, uint64_t length, uint64_t remote) {
    EXPECT_EQ(far_->first_difference(0, remote, kFarSeed, 0), std::nullopt) << "before the range";
    EXPECT_EQ(far_->first_difference(remote, length, kNearSeed, offset), std::nullopt);
    const uint64_t end = remote + length;
    EXPECT_EQ(far_->first_difference(end, size_ - end, kFarSeed, end), std::nullopt) << "after the range";
  }

  // One message into a receive that has room for `spare` bytes more.
  void expect_delivered(uint64_t offset, uint32_t length, uint64_t remote, uint32_t spare = 0) {
    if (!possible(length)) return;
    SCOPED_TRACE(std::to_string(length) + " bytes, " + std::to_string(offset) + " here, " + std::to_string(remote) +
                 " there");
    fill_both();
    ++last_id_;
    post_receive(last_id_, remote, length + spare);
    EXPECT_EQ(post(message(last_id_, offset, length, remote)), kAllPosted);
    // Inline data is the queue's own when the call returns.
    if (delivery().inline_data) fill(memory_->bytes(0, size_), kFarSeed);
    ASSERT_EQ(next(), succeeded(last_id_));
    expect_received(last_id_, length);
    if (!delivery().inline_data) {
      EXPECT_EQ(first_difference(memory_->bytes(0, size_), kNearSeed), std::nullopt) << "the source has changed";
    }
    expect_arrived(offset, length, remote);
  }

  uint64_t size_ = 0;
  uint64_t last_id_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Each, Message, testing::Combine(every_setting(), testing::ValuesIn(deliveries())),
                         [](const testing::TestParamInfo<std::tuple<Setting, Delivery>>& info) {
                           return name(std::get<0>(info.param)) + name(std::get<1>(info.param));
                         });

TEST_P(Message, OfEverySizeAroundTheUsualLimits) {
  set_up_for((1 << 18) + 1);
  for (const uint32_t size :
       {0,    1,    2,    3,    7,     8,     9,     15,    16,     17,     31,     32,     33,
        63,   64,   65,   127,  128,   255,   256,   257,   1023,   1024,   1025,   4095,   4096,
        4097, 8191, 8192, 8193, 65535, 65536, 65537, 98304, 131071, 131073, 262143, 262144, 262145})
    expect_delivered(kGuard, size, kGuard);
}

TEST_P(Message, FromAndToEveryAlignment) {
  set_up_for(300);
  const uint64_t step = test_everything() ? 1 : 7;
  for (uint64_t offset = 0; offset < 64; offset += step) {
    expect_delivered(kGuard + offset, 61, kGuard);
    expect_delivered(kGuard, 257, kGuard + offset);
  }
}

TEST_P(Message, IntoAReceiveThatHasRoomForMore) {
  set_up_for(3000);
  for (const uint32_t size : {0, 1, 63, 1000}) expect_delivered(kGuard + 1, size, kGuard + 3, 2000);
}

TEST_P(Message, GatheredFromPiecesAndScatteredIntoPieces) {
  set_up_for(200'000);
  for (const uint32_t size : {2u, 50u, kInlineLimit, 5001u, 140'001u}) {
    if (!possible(size)) continue;
    fill_both();
    ++last_id_;
    const uint32_t half = size / 2;
    const uint32_t first = size / 3;
    post_receive(last_id_, {{kGuard, first}, {kGuard + first, size}});
    Request request = message(last_id_, kGuard, half, kGuard);
    const ibv_sge rest = message(0, kGuard + half, size - half, kGuard).sges[0];
    request.sges.push_back({local(0, 0).addr, 0, rest.lkey});  // an empty piece between
    request.sges.push_back(rest);
    EXPECT_EQ(post(request), kAllPosted);
    ASSERT_EQ(next(), succeeded(last_id_));
    expect_received(last_id_, size);
    expect_arrived(kGuard, size, kGuard);
  }
}

TEST_P(Message, OfManyInOneListArriveInOrder) {
  const uint32_t each = delivery().inline_data ? 33 : 9001;
  constexpr uint32_t kCount = kOrdinaryCapabilities.max_recv_wr;
  set_up_for(uint64_t{kCount} * each);
  fill_both();
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint64_t at = kGuard + uint64_t{i} * each;
    post_receive(i, at, each);
    requests.push_back(message(i, at, each, at));
    if (i + 1 < kCount) requests.back().flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  EXPECT_EQ(post(requests), kAllPosted);
  EXPECT_EQ(next(), succeeded(kCount - 1));
  for (uint32_t i = 0; i < kCount; ++i) expect_received(i, each);
  expect_arrived(kGuard, uint64_t{kCount} * each, kGuard);
}

}  // namespace
}  // namespace verbatim::conformance
