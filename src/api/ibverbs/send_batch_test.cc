#include "api/ibverbs/send_batch.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace verbatim::api {
namespace {

constexpr uint32_t kMaxSges = 3;
constexpr uint32_t kMaxInline = 8;

Sge piece(std::string_view text) {
  return {reinterpret_cast<uint64_t>(text.data()), static_cast<uint32_t>(text.size()), {}};
}

std::string text_of(const SendWork& work) {
  std::string text;
  for (const Sge& sge : work.sges) text.append(reinterpret_cast<const char*>(sge.address), sge.length);
  return text;
}

class SendBatchLocked : public testing::Test {
 protected:
  SendBatchLocked() { batch_.lock(); }
  ~SendBatchLocked() override { batch_.unlock(); }
  int error() { return batch_.finish().error(); }

  SendBatch batch_{QueuePairType::rc, kMaxSges, kMaxInline};
};

TEST_F(SendBatchLocked, RequestsComeOutInOrderWithTheirOwnSges) {
  batch_.add({.work_id = 1, .opcode = SendOpcode::rdma_write});
  batch_.set_sges(std::array{Sge{100, 10, {7}}, Sge{200, 20, {8}}});
  batch_.add({.work_id = 2, .opcode = SendOpcode::rdma_read});
  batch_.set_sges(std::array{Sge{300, 30, {9}}});
  const auto works = batch_.finish();
  ASSERT_TRUE(works.ok());
  ASSERT_EQ(works.value().size(), 2u);
  EXPECT_EQ(works.value()[0].work_id, 1u);
  EXPECT_EQ(works.value()[0].sges.size(), 2u);
  EXPECT_EQ(works.value()[0].length, 30u);
  EXPECT_EQ(works.value()[1].sges[0].address, 300u);
  EXPECT_EQ(works.value()[1].length, 30u);
}

TEST_F(SendBatchLocked, TheSumOfTheSgesMayBeMoreThan32BitsHold) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_sges(std::array{Sge{0, 0xffffffff, {}}, Sge{0, 2, {}}});
  EXPECT_EQ(batch_.finish().value()[0].length, uint64_t{1} << 32 | 1);
}

TEST_F(SendBatchLocked, InlineDataIsCopiedWhenItIsSet) {
  std::string first = "one", second = "two", third = "three";
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_inline_data(std::array{piece(first), piece(second)});
  batch_.add({.opcode = SendOpcode::rdma_write});
  batch_.set_inline_data(std::array{piece(third)});
  first = second = third = "xxxxx";
  const auto works = batch_.finish();
  ASSERT_TRUE(works.ok());
  EXPECT_EQ(text_of(works.value()[0]), "onetwo");
  EXPECT_EQ(text_of(works.value()[1]), "three");
  EXPECT_TRUE(works.value()[1].inline_data);
}

TEST_F(SendBatchLocked, TheLastSetterOfARequestCounts) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_inline_data(std::array{piece("abc")});
  batch_.set_sges(std::array{Sge{1, 2, {3}}});
  const auto works = batch_.finish();
  EXPECT_FALSE(works.value()[0].inline_data);
  EXPECT_EQ(works.value()[0].sges[0].address, 1u);
  EXPECT_EQ(works.value()[0].length, 2u);
}

TEST_F(SendBatchLocked, ARequestWithoutDataIsEmpty) {
  batch_.add({.opcode = SendOpcode::send});
  EXPECT_TRUE(batch_.finish().value()[0].sges.empty());
}

TEST_F(SendBatchLocked, ASetterWithoutARequestIsAnError) {
  batch_.set_sges({});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, TooManySgesAreAnError) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_sges(std::array<Sge, kMaxSges + 1>{});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, TooMuchInlineDataIsAnErrorAlsoWhen32BitsWouldWrap) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_inline_data(std::array{piece("12345"), piece("6789")});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, InlineDataWhoseSumWrapsIn32BitsIsNotCopied) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_inline_data(std::array{Sge{8, 0xffffffff, {}}, Sge{8, 1, {}}});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, InlineDataIsForSendAndWriteOnly) {
  batch_.add({.opcode = SendOpcode::rdma_read});
  batch_.set_inline_data(std::array{piece("abc")});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, AnOperationWithoutDataTakesNoSges) {
  batch_.add({.opcode = SendOpcode::local_invalidate});
  batch_.set_sges(std::array{Sge{1, 2, {3}}});
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(SendBatchLocked, TheFirstErrorStaysWhateverIsBuiltAfterIt) {
  batch_.fail(ENOMEM);
  batch_.add({.opcode = SendOpcode::rdma_read});
  batch_.set_inline_data(std::array{piece("abc")});
  EXPECT_EQ(error(), ENOMEM);
}

TEST_F(SendBatchLocked, AnAddressOfAnotherTypeIsAnError) {
  batch_.add({.opcode = SendOpcode::send});
  batch_.set_shared_queue(1);
  EXPECT_EQ(error(), EINVAL);
}

TEST(SendBatch, IsEmptyWhenItIsLockedAgain) {
  SendBatch batch(QueuePairType::rc, kMaxSges, kMaxInline);
  batch.lock();
  batch.add({.opcode = SendOpcode::send});
  batch.fail(EINVAL);
  batch.unlock();
  batch.lock();
  EXPECT_TRUE(batch.finish().value().empty());
  batch.unlock();
}

TEST(SendBatch, ADatagramSaysWhereItGoes) {
  SendBatch batch(QueuePairType::ud, kMaxSges, kMaxInline);
  batch.lock();
  batch.add({.opcode = SendOpcode::send});
  EXPECT_EQ(batch.finish().error(), EINVAL);
  batch.unlock();

  batch.lock();
  batch.add({.opcode = SendOpcode::send});
  batch.set_datagram({.address = {}, .qpn = {17}, .qkey = 18});
  ASSERT_TRUE(batch.finish().ok());
  EXPECT_EQ(batch.finish().value()[0].operands.datagram.qpn.value, 17u);
  batch.unlock();
}

TEST(SendBatch, AnXrcRequestSaysWhoseQueueButForWhatStaysHere) {
  SendBatch batch(QueuePairType::xrc_send, kMaxSges, kMaxInline);
  batch.lock();
  batch.add({.opcode = SendOpcode::local_invalidate});
  EXPECT_TRUE(batch.finish().ok());
  batch.add({.opcode = SendOpcode::send});
  batch.set_shared_queue(0);
  EXPECT_TRUE(batch.finish().ok());
  batch.add({.opcode = SendOpcode::send});
  EXPECT_EQ(batch.finish().error(), EINVAL);
  batch.unlock();
}

TEST(SendBatch, AnotherThreadWaitsUntilTheBatchIsDone) {
  SendBatch batch(QueuePairType::rc, kMaxSges, kMaxInline);
  batch.lock();
  std::thread other([&] {
    batch.lock();
    batch.add({.work_id = 2, .opcode = SendOpcode::send});
    batch.unlock();
  });
  batch.add({.work_id = 1, .opcode = SendOpcode::send});
  ASSERT_EQ(batch.finish().value().size(), 1u);
  EXPECT_EQ(batch.finish().value()[0].work_id, 1u);
  batch.unlock();
  other.join();
}

}  // namespace
}  // namespace verbatim::api
