// The data checker: every byte of READ and WRITE is where it belongs, and no byte beside it has changed.
#include <random>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kGuard = 4096;
constexpr uint64_t kNearSeed = 2;
constexpr uint64_t kFarSeed = 1;
constexpr uint32_t kInlineLimit = kOrdinaryCapabilities.max_inline_data;

// One operation and the transport that carries it.
struct Transfer {
  ibv_qp_type type;
  ibv_wr_opcode opcode;
  bool inline_data;

  bool reads() const { return opcode == IBV_WR_RDMA_READ; }
};

// IBTA volume 1, 9.2: only reliable services read. Nothing is read inline.
std::vector<Transfer> transfers_of_any_length() {
  std::vector<Transfer> all;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND}) {
    all.push_back({type, IBV_WR_RDMA_WRITE, false});
    if (type != IBV_QPT_UC) all.push_back({type, IBV_WR_RDMA_READ, false});
  }
  return all;
}

std::vector<Transfer> transfers() {
  std::vector<Transfer> all = transfers_of_any_length();
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND})
    all.push_back({type, IBV_WR_RDMA_WRITE, true});
  return all;
}

std::string transfer_name(const testing::TestParamInfo<std::tuple<Setting, Transfer>>& info) {
  const Transfer& transfer = std::get<1>(info.param);
  std::string whole = name(std::get<0>(info.param));
  whole += transport_name(transfer.type);
  return whole + (transfer.reads() ? "Read" : transfer.inline_data ? "WriteInline" : "Write");
}

class Data : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Transfer>> {
 protected:
  const Transfer& transfer() const { return std::get<1>(GetParam()); }
  bool reads() const { return transfer().reads(); }

  // The largest message that will be sent.
  void set_up_for(uint64_t largest) {
    size_ = largest + 3 * kGuard;
    set_up(std::get<0>(GetParam()), transfer().opcode, size_, transfer().type);
    connect();
  }
  // Whether a message of this length can be sent this way.
  bool possible(uint64_t length) const { return !transfer().inline_data || length <= kInlineLimit; }

  Request between(uint64_t id, const std::vector<Piece>& pieces, uint64_t remote) const {
    Request whole = request(id, remote, 0);
    whole.sges.clear();
    for (const Piece& piece : pieces) whole.sges.push_back(local(piece.offset, piece.length));
    if (transfer().inline_data) {
      whole.flags |= IBV_SEND_INLINE;
      for (ibv_sge& sge : whole.sges) sge.lkey = 0;  // is not looked at
    }
    return whole;
  }

  // Awaits request `id`, and the data of all before it. Over UC a completion says no more than that the data has left,
  // but a message that follows is received after it.
  void expect_done(uint64_t id) {
    ASSERT_EQ(next(), succeeded(id));
    if (transfer().type != IBV_QPT_UC) return;
    EXPECT_EQ(far_->post_receive(0, kNotice, {}), 0);
    EXPECT_EQ(post(Request{.id = kNotice, .opcode = IBV_WR_SEND}), kAllPosted);
    ASSERT_EQ(next(), succeeded(kNotice));
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(outcome_of(*received), (Outcome{kNotice, IBV_WC_SUCCESS, far_address_.qpn, false}));
  }

  // Sends the pieces of the requester's memory, in this order one message, to or from `remote` in the responder's
  // memory.
  void expect_moved(const std::vector<Piece>& pieces, uint64_t remote) {
    uint64_t length = 0;
    uint64_t end = kGuard;
    for (const Piece& piece : pieces) {
      length += piece.length;
      end = std::max(end, piece.offset + piece.length + kGuard);
    }
    if (!possible(length)) return;
    const uint64_t far_end = std::min(remote + length + kGuard, size_);
    end = std::min(end, size_);
    far_->fill(0, far_end, kFarSeed);
    fill(memory_->bytes(0, end), kNearSeed);
    EXPECT_EQ(post(between(++last_id_, pieces, remote)), kAllPosted);
    // Inline data is the queue's own when the call returns.
    const uint64_t seed_here = transfer().inline_data ? kFarSeed : kNearSeed;
    if (transfer().inline_data) fill(memory_->bytes(0, end), seed_here);
    ASSERT_NO_FATAL_FAILURE(expect_done(last_id_));
    if (reads()) {
      EXPECT_EQ(far_->first_difference(0, far_end, kFarSeed, 0), std::nullopt) << "a READ changed its source";
      expect_pieces_arrived(pieces, remote, end);
    } else {
      EXPECT_EQ(first_difference(memory_->bytes(0, end), seed_here), std::nullopt) << "a WRITE changed its source";
      EXPECT_EQ(far_->first_difference(0, remote, kFarSeed, 0), std::nullopt) << "before the range";
      EXPECT_EQ(far_->first_difference(remote + length, far_end - remote - length, kFarSeed, remote + length),
                std::nullopt)
          << "after the range";
      for (const Piece& piece : pieces) {
        EXPECT_EQ(far_->first_difference(remote, piece.length, kNearSeed, piece.offset), std::nullopt);
        remote += piece.length;
      }
    }
  }

  void expect_moved(uint64_t offset, uint64_t length, uint64_t remote) {
    SCOPED_TRACE(std::to_string(length) + " bytes, " + std::to_string(offset) + " here, " + std::to_string(remote) +
                 " there");
    expect_moved({{offset, static_cast<uint32_t>(length)}}, remote);
  }

 private:
  // `pieces` ascend in the requester's memory, so that what is between them is easily named.
  void expect_pieces_arrived(const std::vector<Piece>& pieces, uint64_t remote, uint64_t end) {
    uint64_t at = 0;
    for (const Piece& piece : pieces) {
      EXPECT_EQ(first_difference(memory_->bytes(at, piece.offset - at), kNearSeed, at), std::nullopt) << "a gap";
      EXPECT_EQ(first_difference(memory_->bytes(piece.offset, piece.length), kFarSeed, remote), std::nullopt);
      remote += piece.length;
      at = piece.offset + piece.length;
    }
    EXPECT_EQ(first_difference(memory_->bytes(at, end - at), kNearSeed, at), std::nullopt) << "after the range";
  }

  static constexpr uint64_t kNotice = 0x207;

  uint64_t size_ = 0;
  uint64_t last_id_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Each, Data, testing::Combine(every_setting(), testing::ValuesIn(transfers())), transfer_name);
// What cannot be inline.
using LongData = Data;
INSTANTIATE_TEST_SUITE_P(Each, LongData,
                         testing::Combine(every_setting(), testing::ValuesIn(transfers_of_any_length())),
                         transfer_name);

TEST_P(Data, OfEverySizeAroundTheUsualLimits) {
  set_up_for((1 << 20) + 1);
  for (const uint64_t size :
       {0,    1,    2,     3,     7,     8,      9,      15,     16,      17,      31,     32,   33,
        63,   64,   65,    127,   128,   129,    255,    256,    257,     4095,    4096,   4097, 8191,
        8192, 8193, 65535, 65536, 65537, 131071, 131072, 131073, 1048575, 1048576, 1048577})
    expect_moved(kGuard, size, kGuard);
}

TEST_P(Data, FromAndToEveryAlignment) {
  set_up_for(300);
  const uint64_t step = test_everything() ? 1 : 3;
  for (uint64_t offset = 0; offset < 64; offset += step) {
    expect_moved(kGuard + offset, 129, kGuard);
    expect_moved(kGuard, 257, kGuard + offset);
    expect_moved(kGuard + offset, 63 + offset, kGuard + 63 - offset);
    expect_moved(kGuard + offset, 1 + offset, kGuard + 63 - offset);
  }
}

TEST_P(LongData, UnalignedAcrossPagesAndSlices) {
  set_up_for(600'000);
  for (const uint64_t size : {4095, 4097, 65535, 65537, 262'145, 524'289, 599'999 - 4096})
    for (const uint64_t offset : {1, 7, 63, 4095}) {
      expect_moved(kGuard + offset, size, kGuard + 1);
      expect_moved(kGuard + 3, size, kGuard + offset);
    }
}

TEST_P(Data, OfEverySizeUpToTwoPages) {
  if (!test_everything()) GTEST_SKIP() << "VERBATIM_TEST_ALL=1 does";
  set_up_for(8192);
  for (uint64_t size = 0; size <= 8192; ++size) expect_moved(kGuard, size, kGuard);
}

TEST_P(Data, InScatteredPieces) {
  set_up_for(600'000);
  std::mt19937_64 random(20240607);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (const size_t count : {1, 2, 5, 32})
    for (const uint64_t longest : {8, 300, 5000, 16000})
      for (int round = 0; round < 3; ++round) {
        std::vector<Piece> pieces;
        uint64_t at = kGuard;
        for (size_t i = 0; i < count; ++i) {
          at += 1 + below(70);
          const auto length = static_cast<uint32_t>(below(4) == 0 ? 0 : below(longest) + 1);
          pieces.push_back({at, length});
          at += length;
        }
        expect_moved(pieces, kGuard + below(100));
      }
}

TEST_P(Data, InPiecesThatAreAllEmpty) {
  set_up_for(100);
  expect_moved({{kGuard, 0}, {kGuard + 1, 0}, {kGuard + 2, 0}}, kGuard);
}

TEST_P(Data, WithAnEmptyPieceAtEitherEnd) {
  set_up_for(1000);
  expect_moved({{kGuard, 0}, {kGuard + 5, 60}, {kGuard + 200, 0}}, kGuard + 3);
}

TEST_P(Data, OfManyMessagesInOneList) {
  set_up_for(1 << 20);
  const uint32_t each = transfer().inline_data ? 61 : 9001;
  constexpr uint64_t kCount = 60;
  far_->fill(0, kCount * each, kFarSeed);
  fill(memory_->bytes(), kNearSeed);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < kCount; ++i) {
    requests.push_back(between(i, {{i * each, each}}, i * each));
    if (i + 1 < kCount) requests.back().flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  EXPECT_EQ(post(requests), kAllPosted);
  if (transfer().inline_data) fill(memory_->bytes(), kFarSeed);
  ASSERT_NO_FATAL_FAILURE(expect_done(kCount - 1));
  if (reads())
    EXPECT_EQ(first_difference(memory_->bytes(0, kCount * each), kFarSeed), std::nullopt);
  else
    EXPECT_EQ(far_->first_difference(0, kCount * each, kNearSeed, 0), std::nullopt);
}

TEST_P(LongData, UpToTheLongestMessage) {
  if (!test_everything()) GTEST_SKIP() << "VERBATIM_TEST_ALL=1 does";
  if (const std::string lack = lack_of_memory(); !lack.empty()) GTEST_SKIP() << lack;
  set_up_for(kLongest);
  for (uint64_t size = 1 << 21; size < kLongest / 4; size *= 8)
    for (const int64_t more : {-1, 0, 1}) expect_moved(kGuard + 1, size + static_cast<uint64_t>(more), kGuard + 2);
  expect_moved(kGuard, kLongest, kGuard);
  // As many pieces, each of 64 MiB, and together just as long.
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < 32; ++i) pieces.push_back({kGuard + i * (kLongest / 32), kLongest / 32});
  expect_moved(pieces, kGuard);
}

class LastByte : public PairTest, public testing::WithParamInterface<std::tuple<Setting, ibv_qp_type>> {};
INSTANTIATE_TEST_SUITE_P(Each, LastByte,
                         testing::Combine(other_processes(), testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND)),
                         [](const testing::TestParamInfo<std::tuple<Setting, ibv_qp_type>>& info) {
                           return name(std::get<0>(info.param)) + std::string(transport_name(std::get<1>(info.param)));
                         });

TEST_P(LastByte, IsWrittenLast) {
  constexpr uint64_t kLargest = 300'000;
  set_up(std::get<0>(GetParam()), IBV_WR_RDMA_WRITE, kLargest + kGuard, std::get<1>(GetParam()));
  connect();
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto length = static_cast<uint32_t>(2 + random() % (round % 2 ? 200 : kLargest - 2));
    const uint64_t offset = random() % 64;
    const uint64_t seed = 10 + static_cast<uint64_t>(round);
    uint8_t before = 0;
    do {
      far_->fill(0, kLargest + kGuard, random());
      before = far_->byte_at(offset + length - 1);
      fill(memory_->bytes(), seed);
    } while (before == memory_->data()[offset + length - 1]);
    far_->begin_await_last_byte(before, offset, length, seed, offset);
    EXPECT_EQ(post(request(1, offset, length)), kAllPosted);
    EXPECT_EQ(far_->end_await_last_byte(), std::nullopt) << length << " bytes at " << offset;
    EXPECT_EQ(next(), succeeded(1));
  }
}

}  // namespace
}  // namespace verbatim::conformance
