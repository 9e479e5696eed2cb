// What LocalEndpoint refuses, and of what it tells the peer: each check of a NIC's requester and responder.
#include <gtest/gtest.h>

#include "support/local_endpoint_ends.h"

namespace verbatim::local {
namespace {

using namespace testing_support;

class LocalEndpointRefusals : public LocalEndpointEnds {};

// ---- what is refused: our own side ----

TEST_P(LocalEndpointRefusals, AnUnknownLkeyIsALocalProtectionError) {
  SendWork request = write(8);
  sges[0].lkey.value ^= 1;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
  expect_no_notice();
}

TEST_P(LocalEndpointRefusals, AnLkeyOfAnotherPdIsALocalProtectionError) {
  RegionFields region = local_region();
  region.pd = PdId{kOwnPd.value + 1};
  republish_lkey(region);
  expect_failure(write(8), CompletionStatus::local_protection_error, Reason::local_key_other_pd);
  expect_no_notice();
}

TEST_P(LocalEndpointRefusals, AnSgeOutsideItsRegionIsALocalProtectionError) {
  for (int64_t start : {int64_t{-1}, int64_t(kMemory) - 7, int64_t(kMemory) + 1, INT64_MAX}) {
    SendWork request = write(8);
    sges[0].address = local.address() + static_cast<uint64_t>(start);
    expect_failure(request, CompletionStatus::local_protection_error, Reason::local_range);
  }
  expect_no_notice();
}

TEST_P(LocalEndpointRefusals, TheLastSgeIsCheckedBeforeTheFirstByteMoves) {
  SendWork request = write(0);
  sges = {{local.address(), kSliceBytes, lkey}, {local.address(), 8, MemoryKey{lkey.value ^ 1}}};
  request.sges = sges;
  request.length = kSliceBytes + 8;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
}

TEST_P(LocalEndpointRefusals, AReadIntoMemoryWithoutLocalWriteIsALocalProtectionError) {
  RegionFields region = local_region();
  region.access = 0;
  republish_lkey(region);
  expect_failure(read(8), CompletionStatus::local_protection_error, Reason::local_no_write_access);
  expect_no_notice();
  EXPECT_EQ(run(write(8)), Advance::done) << "a write only reads it";
}

TEST_P(LocalEndpointRefusals, AnSgeOfNoBytesIsNotLookedAt) {
  SendWork request = write(8);
  sges.push_back({0xdead, 0, MemoryKey{0xbad}});
  request.sges = sges;
  EXPECT_EQ(run(request), Advance::done);
}

TEST_P(LocalEndpointRefusals, OurErrorComesBeforeWaitingForThePeer) {
  peer_fields.state = static_cast<uint32_t>(QueuePairState::init);
  target.adapter().publish(peer_fields);
  SendWork request = write(8);
  sges[0].lkey.value ^= 1;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
}

TEST_P(LocalEndpointRefusals, MemoryOfOursThatIsGoneIsALocalProtectionError) {
  const SendWork request = write(8);
  local.vanish();
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_memory_gone);
  expect_no_notice();
}

TEST_P(LocalEndpointRefusals, AReadIntoMemoryThatIsGoneIsALocalProtectionError) {
  const SendWork request = read(8);
  local.forbid_writing();
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_memory_gone);
  expect_no_notice();
}

// ---- what is refused: the target's side ----

TEST_P(LocalEndpointRefusals, AnUnknownRkeyIsARemoteAccessError) {
  SendWork request = write(8);
  request.rkey.value ^= 1;
  expect_failure(request, CompletionStatus::remote_access_error, Reason::remote_key_unknown);
  expect_only_notice(NoticeKind::access_error);
}

TEST_P(LocalEndpointRefusals, AWithdrawnRkeyIsARemoteAccessError) {
  ASSERT_EQ(run(write(8)), Advance::done);
  target.adapter().withdraw_region(rkey);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_key_unknown);
}

TEST_P(LocalEndpointRefusals, ARegionWithdrawnBetweenSlicesEndsTheMessageThere) {
  const SendWork request = write(2 * kSliceBytes);
  ASSERT_EQ(step(request), Advance::more);
  target.adapter().withdraw_region(rkey);
  EXPECT_EQ(step(request), Advance::failed);
  EXPECT_EQ(verdict.reason, Reason::remote_key_unknown);
  EXPECT_EQ(offset, kSliceBytes);
}

TEST_P(LocalEndpointRefusals, ARegionOfAnotherPdIsARemoteAccessError) {
  RegionFields region = remote_region();
  region.pd = PdId{kPeerPd.value + 1};
  republish_region(region);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_key_other_pd);
  expect_only_notice(NoticeKind::access_error);
}

TEST_P(LocalEndpointRefusals, ARegionGrantsReadsAndWritesApart) {
  RegionFields region = remote_region();
  region.access = access::kLocalWrite | access::kRemoteRead;
  republish_region(region);
  EXPECT_EQ(run(read(8)), Advance::done);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_no_access);
  expect_only_notice(NoticeKind::access_error);
  region.access = access::kLocalWrite | access::kRemoteWrite;
  republish_region(region);
  EXPECT_EQ(run(write(8)), Advance::done);
  expect_failure(read(8), CompletionStatus::remote_access_error, Reason::remote_no_access);
}

TEST_P(LocalEndpointRefusals, OutsideTheRegionIsARemoteAccessError) {
  const uint64_t starts[] = {kIova - 1, kIova + kRegion - 7, kIova + kRegion + 1, kIova - kBefore, 0, UINT64_MAX - 3};
  for (SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read})
    for (uint64_t start : starts) {
      SendWork request = work(opcode, 8);
      request.remote_address = start;
      expect_failure(request, CompletionStatus::remote_access_error, Reason::remote_range);
    }
  EXPECT_EQ(notices(), 2 * std::size(starts));
}

TEST_P(LocalEndpointRefusals, AMessageThatEndsOutsideFailsBeforeItsFirstSlice) {
  expect_failure(write(3 * kSliceBytes, kRegion - 3 * kSliceBytes + 1), CompletionStatus::remote_access_error,
                 Reason::remote_range);
}

TEST_P(LocalEndpointRefusals, AMessageOfNoBytesNeedsNoRegion) {
  SendWork request = write(0);
  request.rkey = MemoryKey{0xdeadbeef};
  EXPECT_EQ(run(request), Advance::done);
  expect_no_notice();
}

TEST_P(LocalEndpointRefusals, AnOperationThatIsOffAtTheQueuePairIsAnInvalidRequest) {
  peer_fields.access = access::kRemoteRead;
  target.adapter().publish(peer_fields);
  expect_failure(write(8), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  expect_only_notice(NoticeKind::invalid_request);
  expect_failure(write(0), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  EXPECT_EQ(run(read(8)), Advance::done);
  peer_fields.access = access::kRemoteWrite;
  target.adapter().publish(peer_fields);
  expect_failure(read(8), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  EXPECT_EQ(run(write(8)), Advance::done);
}

TEST_P(LocalEndpointRefusals, AReadOfAPeerWithoutReadDepthIsAnInvalidRequest) {
  peer_fields.responder_depth = 0;
  target.adapter().publish(peer_fields);
  expect_failure(read(8), CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth);
  expect_only_notice(NoticeKind::invalid_request);
  EXPECT_EQ(run(write(8)), Advance::done);
}

TEST_P(LocalEndpointRefusals, TheQueuePairIsJudgedBeforeTheKey) {
  peer_fields.access = 0;
  target.adapter().publish(peer_fields);
  SendWork request = write(8);
  request.rkey.value ^= 1;
  expect_failure(request, CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
}

// ---- what was read before is good only while it is unchanged ----

TEST_P(LocalEndpointRefusals, ARegionThatChangesUnderItsKeyIsJudgedAnew) {
  ASSERT_EQ(run(write(8)), Advance::done);
  RegionFields region;
  ASSERT_TRUE(target.adapter().view().read(rkey, region));
  const RegionFields before = region;

  region.access = access::kRemoteRead;
  target.adapter().change_region(region);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_no_access);
  EXPECT_EQ(run(read(8)), Advance::done);

  region = before;
  region.length = 4;
  target.adapter().change_region(region);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_range);

  // The same bytes of the region are others of the memory now.
  constexpr uint64_t kShift = 4096;
  region = before;
  region.address += kShift;
  region.backing_offset += kShift;
  region.length -= kShift;
  target.adapter().change_region(region);
  const std::vector<uint8_t> unchanged(remote.data() + kBefore, remote.data() + kBefore + 8);
  std::fill_n(remote.data() + kBefore + kShift, 8, 0);
  local.data()[0] ^= 0xff;
  ASSERT_EQ(run(write(8)), Advance::done);
  EXPECT_TRUE(std::equal(unchanged.begin(), unchanged.end(), remote.data() + kBefore));
  EXPECT_TRUE(std::equal(local.data(), local.data() + 8, remote.data() + kBefore + kShift));

  target.adapter().change_region(before);
  ASSERT_EQ(run(write(8)), Advance::done);
  EXPECT_TRUE(std::equal(local.data(), local.data() + 8, remote.data() + kBefore));
}

TEST_P(LocalEndpointRefusals, ARegionOfOursThatChangesUnderItsKeyIsJudgedAnew) {
  ASSERT_EQ(run(read(8)), Advance::done);
  RegionFields region;
  ASSERT_TRUE(requester.adapter().view().read(lkey, region));
  region.access = 0;
  requester.adapter().change_region(region);
  expect_failure(read(8), CompletionStatus::local_protection_error, Reason::local_no_write_access);
  EXPECT_EQ(run(write(8)), Advance::done);
  requester.adapter().withdraw_region(lkey);
  expect_failure(write(8), CompletionStatus::local_protection_error, Reason::local_key_unknown);
}

TEST_P(LocalEndpointRefusals, AQueuePairThatChangesIsJudgedAnew) {
  const QueuePairFields before = peer_fields;
  ASSERT_EQ(run(write(8)), Advance::done);
  ASSERT_EQ(run(read(8)), Advance::done);

  peer_fields.access = access::kRemoteRead;
  target.adapter().publish(peer_fields);
  EXPECT_EQ(run(read(8)), Advance::done);
  expect_failure(write(8), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  EXPECT_EQ(run(read(8)), Advance::done);

  peer_fields = before;
  peer_fields.responder_depth = 0;
  target.adapter().publish(peer_fields);
  EXPECT_EQ(run(write(8)), Advance::done);
  expect_failure(read(8), CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth);

  peer_fields = before;
  peer_fields.state = static_cast<uint32_t>(QueuePairState::init);
  target.adapter().publish(peer_fields);
  EXPECT_EQ(run(write(8)), Advance::waiting);
  target.adapter().publish(before);
  EXPECT_EQ(run(write(8)), Advance::done);

  target.adapter().release_qpn(peer);
  EXPECT_EQ(run(write(8)), Advance::waiting);
}

TEST_P(LocalEndpointRefusals, MemoryOfTheTargetThatIsGoneIsARemoteOperationError) {
  const SendWork request = write(8);
  remote.vanish();
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_EQ(verdict.status, CompletionStatus::remote_operation_error);
  EXPECT_EQ(verdict.reason, Reason::remote_memory_gone);
  expect_only_notice(NoticeKind::operation_error);
  EXPECT_FALSE(touching());
}

TEST_P(LocalEndpointRefusals, AReadOfMemoryThatIsGoneIsARemoteOperationError) {
  const SendWork request = read(kSliceBytes);
  remote.vanish();
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_EQ(verdict.status, CompletionStatus::remote_operation_error);
  EXPECT_EQ(verdict.reason, Reason::remote_memory_gone);
  expect_only_notice(NoticeKind::operation_error);
}

INSTANTIATE_TEST_SUITE_P(, LocalEndpointRefusals, every_reach(), name_of);

}  // namespace
}  // namespace verbatim::local
