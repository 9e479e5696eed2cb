// The data checker of messages: what is sent lands where the receive or the request says, whole and in order, nothing
// beside it changes, and each completion says what happened.
#include "conformance/support/datagram_header.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kGuard = 4096;
constexpr uint64_t kNearSeed = 2;
constexpr uint64_t kFarSeed = 1;
constexpr uint32_t kImmediate = 0x12fe34dc;
constexpr uint32_t kInlineLimit = kOrdinaryCapabilities.max_inline_data;
constexpr uint32_t kReceives = kOrdinaryCapabilities.max_recv_wr;

// What is sent, over which transport, and from which queue the receive comes.
struct Delivery {
  ibv_qp_type type;
  ibv_wr_opcode opcode;
  bool inline_data;
  bool shared;

  bool immediate() const { return opcode == IBV_WR_SEND_WITH_IMM || writes(); }
  bool invalidates() const { return opcode == IBV_WR_SEND_WITH_INV; }
  bool writes() const { return opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
  bool datagram() const { return type == IBV_QPT_UD; }
  bool extended() const { return type == IBV_QPT_XRC_SEND; }
  unsigned flags() const {
    const auto when = [](bool has, ibv_wc_flags flag) { return has ? unsigned{flag} : 0; };
    return when(immediate(), IBV_WC_WITH_IMM) | when(invalidates(), IBV_WC_WITH_INV) | when(datagram(), IBV_WC_GRH);
  }
  // What lies before a message in its receive.
  uint32_t header() const { return datagram() ? kDatagramHeader : 0; }
};

std::string name(const Delivery& delivery) {
  std::string whole(transport_name(delivery.type));
  whole += opcode_name(delivery.opcode);
  if (delivery.inline_data) whole += "Inline";
  if (delivery.shared) whole += "Shared";
  return whole;
}

// IBTA volume 1, 9.2: only reliable services invalidate, and datagrams do not write.
std::vector<ibv_wr_opcode> opcodes_of(ibv_qp_type type) {
  std::vector<ibv_wr_opcode> all{IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
  if (type != IBV_QPT_UD) all.push_back(IBV_WR_RDMA_WRITE_WITH_IMM);
  if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) all.push_back(IBV_WR_SEND_WITH_INV);
  return all;
}

std::vector<Delivery> deliveries() {
  std::vector<Delivery> all;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND})
    for (const ibv_wr_opcode opcode : opcodes_of(type))
      for (const bool inline_data : {false, true})
        for (const bool shared : {false, true})
          if (shared || type != IBV_QPT_XRC_SEND) all.push_back({type, opcode, inline_data, shared});
  return all;
}

// Neither inline data nor a datagram is long.
std::vector<Delivery> deliveries_of_any_length() {
  std::vector<Delivery> all = deliveries();
  std::erase_if(all, [](const Delivery& delivery) { return delivery.inline_data || delivery.datagram(); });
  return all;
}

std::string message_name(const testing::TestParamInfo<std::tuple<Setting, Delivery>>& info) {
  return name(std::get<0>(info.param)) + name(std::get<1>(info.param));
}

class Message : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Delivery>> {
 protected:
  const Delivery& delivery() const { return std::get<1>(GetParam()); }

  // The largest message that will be sent.
  void set_up_for(uint64_t largest) {
    size_ = largest + 3 * kGuard;
    set_up(std::get<0>(GetParam()), delivery().opcode, size_, delivery().type, delivery().shared);
    connect();
    if (delivery().datagram()) {
      handle_ = near_->create_address_handle(far_address_.gid);
      ibv_port_attr port{};
      ASSERT_EQ(ibv_query_port(near_->context(), kPort, &port), 0);
      longest_ = 128u << port.active_mtu;
    }
    if (delivery().invalidates()) {
      remote_ = far_->register_memory(size_, kEveryAccess | IBV_ACCESS_MW_BIND);
      for (uint32_t& key : keys_) key = far_->allocate_window();
    }
  }
  void TearDown() override {
    PairTest::TearDown();
    handle_.reset();
  }

  // Whether a message of this length can be sent this way.
  bool possible(uint64_t length) const {
    return length <= longest_ && (!delivery().inline_data || length <= kInlineLimit);
  }

  // What a message that invalidates names. A window belongs to the queue pair by whose request it is bound, and an XRC
  // receiver has no requests: there, one that is not bound.
  uint32_t& key_of(uint64_t id) { return keys_[id % kReceives]; }
  const uint32_t& key_of(uint64_t id) const { return keys_[id % kReceives]; }

  Request message(uint64_t id, uint64_t offset, uint32_t length, uint64_t remote) const {
    Request request{.id = id, .opcode = delivery().opcode, .immediate = kImmediate};
    if (delivery().invalidates()) request.immediate = key_of(id);
    if (delivery().extended()) request.shared_queue = far_address_.shared_queue;
    if (delivery().datagram()) {
      request.handle = handle_.get();
      request.qpn = far_address_.qpn;
      request.qkey = Wiring{}.qkey;
    }
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

  // The receive that a message to `remote` takes: of a WRITE it is empty, for the data knows its own way, of a datagram
  // it begins with the header. What the message invalidates is bound first, which no bound window lets happen.
  void post_receive(uint64_t id, uint64_t remote, uint32_t length) {
    post_receive(id, std::vector<Piece>{{remote, length}});
  }
  void post_receive(uint64_t id, std::vector<Piece> pieces) {
    pieces.front().offset -= delivery().header();
    pieces.front().length += delivery().header();
    if (delivery().invalidates() && !delivery().extended())
      key_of(id) = far_->bind_window(static_cast<uint32_t>(id % kReceives));
    EXPECT_EQ(far_->post_receive(0, id, delivery().writes() ? std::vector<Piece>{} : pieces), 0);
  }

  void expect_received(uint64_t id, uint64_t length) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id << " was not taken";
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, far_address_.qpn, false}));
    EXPECT_EQ(completion->opcode, delivery().writes() ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    EXPECT_EQ(completion->byte_len, length + delivery().header());
    EXPECT_EQ(completion->wc_flags, delivery().flags());
    if (delivery().immediate()) {
      EXPECT_EQ(completion->imm_data, kImmediate);
    }
    if (delivery().invalidates()) {
      EXPECT_EQ(completion->invalidated_rkey, key_of(id));
    }
    if (delivery().datagram()) {
      EXPECT_EQ(completion->src_qp, qp_->qp_num);
    }
  }

  void fill_both() {
    far_->fill(0, size_, kFarSeed);
    fill(memory_->bytes(0, size_), kNearSeed);
  }

  // The responder's memory: `length` bytes from `remote` on are the requester's from `offset` on, after their header.
  void expect_landed(uint64_t offset, uint64_t length, uint64_t remote) {
    EXPECT_EQ(far_->first_difference(remote, length, kNearSeed, offset), std::nullopt);
    if (delivery().datagram())
      expect_datagram_header(far_->bytes_at(remote - kDatagramHeader), near_->gid(), far_address_.gid);
  }
  void expect_unchanged(uint64_t begin, uint64_t end) {
    EXPECT_EQ(far_->first_difference(begin, end - begin, kFarSeed, begin), std::nullopt)
        << "outside, from " << begin << " to " << end;
  }
  // All of it.
  void expect_arrived(uint64_t offset, uint64_t length, uint64_t remote) {
    expect_unchanged(0, remote - delivery().header());
    expect_landed(offset, length, remote);
    expect_unchanged(remote + length, size_);
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
  uint64_t longest_ = UINT32_MAX;
  AhHandle handle_;
  uint32_t keys_[kReceives]{};
};
INSTANTIATE_TEST_SUITE_P(Each, Message, testing::Combine(every_setting(), testing::ValuesIn(deliveries())),
                         message_name);
using LongMessage = Message;
INSTANTIATE_TEST_SUITE_P(Each, LongMessage,
                         testing::Combine(every_setting(), testing::ValuesIn(deliveries_of_any_length())),
                         message_name);

TEST_P(Message, OfEverySizeAroundTheUsualLimits) {
  set_up_for((1 << 18) + 1);
  for (const uint32_t size :
       {0,    1,    2,    3,    7,     8,     9,     15,    16,     17,     31,     32,     33,
        63,   64,   65,   127,  128,   255,   256,   257,   1023,   1024,   1025,   4095,   4096,
        4097, 8191, 8192, 8193, 65535, 65536, 65537, 98304, 131071, 131073, 262143, 262144, 262145})
    expect_delivered(kGuard, size, kGuard);
}

TEST_P(LongMessage, OfMegabytes) {
  constexpr uint32_t kMegabyte = 1 << 20;
  set_up_for(test_everything() ? 64 * kMegabyte + 1 : 8 * kMegabyte);
  expect_delivered(kGuard + 1, kMegabyte + 3, kGuard + 7, 5);
  expect_delivered(kGuard, 8 * kMegabyte, kGuard);
  if (test_everything()) expect_delivered(kGuard + 3, 64 * kMegabyte + 1, kGuard + 2);
}

// One of each way that a long message takes.
std::vector<Delivery> deliveries_of_the_longest() {
  std::vector<Delivery> all = deliveries_of_any_length();
  std::erase_if(all, [](const Delivery& delivery) {
    return (delivery.shared && !delivery.extended()) ||
           (delivery.opcode != IBV_WR_SEND && delivery.opcode != IBV_WR_RDMA_WRITE_WITH_IMM);
  });
  return all;
}

using LongestMessage = Message;
INSTANTIATE_TEST_SUITE_P(Each, LongestMessage,
                         testing::Combine(every_setting(), testing::ValuesIn(deliveries_of_the_longest())),
                         message_name);

TEST_P(LongestMessage, ArrivesWhole) {
  if (!test_everything()) GTEST_SKIP() << "VERBATIM_TEST_ALL=1 does";
  if (const std::string lack = lack_of_memory(); !lack.empty()) GTEST_SKIP() << lack;
  set_up_for(kLongest);
  expect_delivered(kGuard, kLongest, kGuard);
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
  set_up_for(600'000);
  for (const uint32_t size : {2u, 50u, kInlineLimit, 1001u, 5001u, 300'001u}) {
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

TEST_P(Message, OfAsManyPiecesAsTheDeviceAllows) {
  set_up_for(8192);
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(near_->context(), &limits), 0);
  ASSERT_EQ(limits.max_sge, static_cast<int>(kReceivePieces));
  const uint32_t each = delivery().inline_data ? kInlineLimit / kReceivePieces : 29;
  constexpr uint64_t kNearStride = 90;
  const uint64_t far_stride = delivery().writes() ? each : 110;
  fill_both();
  Request request = message(1, kGuard, each, kGuard);
  const uint32_t key = request.sges[0].lkey;
  request.sges.clear();
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < kReceivePieces; ++i) {
    request.sges.push_back({local(kGuard + i * kNearStride, 0).addr, each, key});
    pieces.push_back({kGuard + i * far_stride, each});
  }
  post_receive(1, pieces);
  if (delivery().invalidates()) request.immediate = key_of(1);
  EXPECT_EQ(post(request), kAllPosted);
  ASSERT_EQ(next(), succeeded(1));
  expect_received(1, kReceivePieces * each);
  uint64_t end = 0;
  for (uint64_t i = 0; i < kReceivePieces; ++i) {
    expect_unchanged(end, pieces[i].offset - (i == 0 ? delivery().header() : 0));
    EXPECT_EQ(far_->first_difference(pieces[i].offset, each, kNearSeed, kGuard + i * kNearStride), std::nullopt) << i;
    end = pieces[i].offset + each;
  }
  expect_unchanged(end, size_);
}

TEST_P(Message, OfOnePieceMoreIsRefused) {
  set_up_for(64);
  Request more = message(2, kGuard, 1, kGuard);
  more.sges.assign(kOrdinaryCapabilities.max_send_sge + 1, more.sges[0]);
  fill_both();
  post_receive(1, kGuard, 8);
  EXPECT_EQ(post({message(1, kGuard, 8, kGuard), more, message(3, kGuard, 8, kGuard)}), (Posted{EINVAL, 1}));
  EXPECT_EQ(next(), succeeded(1));
  expect_received(1, 8);
  EXPECT_TRUE(no_completion());
}

TEST_P(Message, OfManyInOneListArriveInOrder) {
  const uint32_t each = delivery().inline_data ? 33 : delivery().datagram() ? 1001 : 9001;
  constexpr uint32_t kCount = kReceives;
  const uint64_t stride = each + delivery().header();
  set_up_for(kCount * stride);
  fill_both();
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint64_t at = kGuard + i * stride;
    post_receive(i, at, each);
    requests.push_back(message(i, at, each, at));
    if (i + 1 < kCount) requests.back().flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  EXPECT_EQ(post(requests), kAllPosted);
  if (delivery().inline_data) fill(memory_->bytes(0, size_), kFarSeed);
  EXPECT_EQ(next(), succeeded(kCount - 1));
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint64_t at = kGuard + i * stride;
    expect_received(i, each);
    expect_landed(at, each, at);
  }
  expect_unchanged(0, kGuard - delivery().header());
  expect_unchanged(kGuard + kCount * stride - delivery().header(), size_);
}

using Invalidation = Message;
INSTANTIATE_TEST_SUITE_P(Each, Invalidation,
                         testing::Combine(every_setting(),
                                          testing::Values(Delivery{IBV_QPT_RC, IBV_WR_SEND_WITH_INV, false, false},
                                                          Delivery{IBV_QPT_RC, IBV_WR_SEND_WITH_INV, false, true})),
                         message_name);

TEST_P(Invalidation, TakesTheWindowsRightsAway) {
  set_up_for(64);
  expect_delivered(kGuard, 64, kGuard);
  const uint32_t key = far_->bind_window(0);
  Request write{.id = 100, .sges = {local(0, 8)}, .remote_address = remote_.address, .rkey = key};
  EXPECT_EQ(post(write), kAllPosted);
  EXPECT_EQ(next(), succeeded(100));
  key_of(16) = key;
  EXPECT_EQ(far_->post_receive(0, 16, {{kGuard, 64}}), 0);
  EXPECT_EQ(post(message(16, kGuard, 64, kGuard)), kAllPosted);
  EXPECT_EQ(next(), succeeded(16));
  expect_received(16, 64);
  write.id = 101;
  EXPECT_EQ(post(write), kAllPosted);
  EXPECT_EQ(next(), failed(101, IBV_WC_REM_ACCESS_ERR));
}

}  // namespace
}  // namespace verbatim::conformance
