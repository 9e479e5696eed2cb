// ibv_reg_mr(3): what may be registered with which rights, and addresses of the program's choice.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class MemoryRegion : public testing::Test {
 protected:
  // errno of registering, 0 when that succeeds.
  int registration_error(void* address, uint64_t length, unsigned access) const {
    errno = 0;
    const MrHandle mr(ibv_reg_mr(side_.pd(), address, length, static_cast<int>(access)));
    return mr ? 0 : errno;
  }

  Side side_;
  const uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
};

TEST_F(MemoryRegion, RemoteWritersNeedLocalWrite) {
  const Memory memory(MemoryKind::anonymous, 4096);
  const auto error = [&](unsigned access) { return registration_error(memory.data(), 4096, access); };
  EXPECT_EQ(error(IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(error(IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(error(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), EINVAL);
  EXPECT_EQ(error(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(error(IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(error(0), 0);
}

TEST_F(MemoryRegion, UnknownRightsAreRefusedAndHintsIgnored) {
  const Memory memory(MemoryKind::anonymous, 4096);
  EXPECT_EQ(registration_error(memory.data(), 4096, kEveryAccess | 1u << 19), EINVAL);
  EXPECT_EQ(registration_error(memory.data(), 4096, kEveryAccess | IBV_ACCESS_RELAXED_ORDERING), 0);
}

TEST_F(MemoryRegion, NoLengthIsRefused) {
  const Memory memory(MemoryKind::anonymous, 4096);
  EXPECT_EQ(registration_error(memory.data(), 0, kEveryAccess), EINVAL);
  EXPECT_EQ(registration_error(memory.data(), ~uint64_t{0}, kEveryAccess), EINVAL);
}

TEST_F(MemoryRegion, MemoryThatIsNotThereIsRefused) {
  const Memory memory(MemoryKind::anonymous, 4 * page_);
  ASSERT_EQ(munmap(memory.data() + 2 * page_, page_), 0);
  for (const unsigned access : {kEveryAccess, unsigned{IBV_ACCESS_REMOTE_READ}, 0u}) {
    EXPECT_EQ(registration_error(memory.data() + 2 * page_, page_, access), EFAULT);
    EXPECT_EQ(registration_error(memory.data(), 4 * page_, access), EFAULT) << "a hole in the middle";
    EXPECT_EQ(registration_error(memory.data() + 2 * page_ - 1, 2, access), EFAULT) << "one byte of it";
    EXPECT_EQ(registration_error(memory.data(), 2 * page_, access), 0);
  }
}

TEST_F(MemoryRegion, ReadOnlyMemoryCanBeReadOnly) {
  for (const MemoryKind kind : {MemoryKind::anonymous, MemoryKind::file}) {
    const Memory memory(kind, 4 * page_);
    ASSERT_EQ(mprotect(memory.data() + page_, page_, PROT_READ), 0);
    EXPECT_EQ(registration_error(memory.data() + page_, page_, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    EXPECT_EQ(registration_error(memory.data(), 4 * page_, kEveryAccess), EFAULT);
    EXPECT_EQ(registration_error(memory.data() + page_, page_, 0), 0);
    EXPECT_EQ(registration_error(memory.data(), 4 * page_, IBV_ACCESS_REMOTE_READ), 0);
  }
}

TEST_F(MemoryRegion, ConstantsOfTheProgramCanBeRead) {
  static const char constant[] = "in the program's own file";
  EXPECT_EQ(registration_error(const_cast<char*>(constant), sizeof constant, IBV_ACCESS_REMOTE_READ), 0);
}

TEST_F(MemoryRegion, KeysAreFreshAndAllDifferent) {
  const Memory memory(MemoryKind::anonymous, 4096);
  std::vector<MrHandle> regions;
  for (int i = 0; i < 2000; ++i) regions.push_back(side_.register_memory(memory));
  std::vector<uint32_t> keys;
  for (const MrHandle& mr : regions) keys.push_back(mr->rkey);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST_F(MemoryRegion, SaysWhatItIs) {
  const Memory memory(MemoryKind::anonymous, 4096);
  const MrHandle mr(ibv_reg_mr(side_.pd(), memory.data() + 3, 1000, kEveryAccess));
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->addr, memory.data() + 3);
  EXPECT_EQ(mr->length, 1000u);
  EXPECT_EQ(mr->pd, side_.pd());
  EXPECT_EQ(mr->context, side_.context());
}

// ---- addresses of the program's choice ----

class RegionAt : public EachWay {
 protected:
  static constexpr uint64_t kIova = 0x7000'0000'0000'0123;

  void operate_at(uint64_t iova, MrHandle region) {
    ASSERT_TRUE(region) << strerror(errno);
    region_ = std::move(region);
    connect();
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    const auto at = [&](uint64_t offset, uint32_t length) { return ibv_sge{iova + offset, length, region_->lkey}; };
    EXPECT_EQ(post({1, opcode_, {at(5, 100), at(1000, 100)}, remote_.address + 40, remote_.rkey}), kAllPosted);
    EXPECT_EQ(next(), succeeded(1));
    if (reads()) {
      EXPECT_EQ(first_difference(memory_->bytes(5, 100), 1, 40), std::nullopt);
      EXPECT_EQ(first_difference(memory_->bytes(1000, 100), 1, 140), std::nullopt);
    } else {
      EXPECT_EQ(far_->first_difference(40, 100, 2, 5), std::nullopt);
      EXPECT_EQ(far_->first_difference(140, 100, 2, 1000), std::nullopt);
    }
    EXPECT_EQ(post({2, opcode_, {at(kLength - 99, 100)}, remote_.address, remote_.rkey}), kAllPosted);
    EXPECT_EQ(next(), failed(2, IBV_WC_LOC_PROT_ERR)) << "one byte too far";
  }
};
INSTANTIATE_TEST_SUITE_P(Each, RegionAt, every_way(), way_name);

TEST_P(RegionAt, ItsOwnIovaAsTheLocalAddress) {
  operate_at(kIova, MrHandle(ibv_reg_mr_iova(near_->pd(), memory_->data(), kLength, kIova, kEveryAccess)));
}

TEST_P(RegionAt, ZeroAsTheLocalAddress) {
  operate_at(0, MrHandle(ibv_reg_mr(near_->pd(), memory_->data(), kLength,
                                    static_cast<int>(kEveryAccess | IBV_ACCESS_ZERO_BASED))));
}

TEST_P(RegionAt, ItsOwnIovaAsTheRemoteAddress) {
  remote_ = far_->register_memory_at(kLength, kIova);
  connect();
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  EXPECT_EQ(post({1, opcode_, {local(7, 200)}, kIova + 300, remote_.rkey}), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  if (reads()) {
    EXPECT_EQ(first_difference(memory_->bytes(7, 200), 1, 300), std::nullopt);
  } else {
    EXPECT_EQ(far_->first_difference(300, 200, 2, 7), std::nullopt);
  }
  EXPECT_EQ(post({2, opcode_, {local(0, 1)}, kIova + kLength, remote_.rkey}), kAllPosted);
  EXPECT_EQ(next(), failed(2, IBV_WC_REM_ACCESS_ERR)) << "one byte too far";
}

// Memory on demand need not be there when it is registered, and comes when it is used.
TEST_P(RegionAt, OnDemandIsFaultedInByTheOperation) {
  region_.reset();
  ASSERT_EQ(madvise(memory_->data(), kLength, MADV_DONTNEED), 0);
  operate_at(memory_->address(), near_->register_memory(*memory_, kEveryAccess | IBV_ACCESS_ON_DEMAND));
}

TEST_P(RegionAt, TheWholeAddressSpaceOnDemand) {
  const MrHandle all(ibv_reg_mr(near_->pd(), nullptr, SIZE_MAX, static_cast<int>(kEveryAccess | IBV_ACCESS_ON_DEMAND)));
  ASSERT_TRUE(all) << strerror(errno);
  connect();
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  EXPECT_EQ(post({1, opcode_, {{memory_->address(3), 500, all->lkey}}, remote_.address, remote_.rkey}), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  if (reads()) {
    EXPECT_EQ(first_difference(memory_->bytes(3, 500), 1, 0), std::nullopt);
  } else {
    EXPECT_EQ(far_->first_difference(0, 500, 2, 3), std::nullopt);
  }
}

// ---- ibv_alloc_null_mr(3) ----

using NullRegion = EachWay;
INSTANTIATE_TEST_SUITE_P(Each, NullRegion, every_way(), way_name);

TEST_P(NullRegion, ReadsAsZerosAndForgetsWhatIsWritten) {
  const MrHandle null(ibv_alloc_null_mr(near_->pd()));
  ASSERT_TRUE(null) << strerror(errno);
  connect();
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  constexpr uint32_t kNowhere = 7000;
  const ibv_sge nowhere{0x7fff'ffff'0000, kNowhere, null->lkey};
  for (uint64_t id = 1; id <= 2; ++id) {
    EXPECT_EQ(post({id, opcode_, {local(0, 100), nowhere, local(100, 50)}, remote_.address, remote_.rkey}), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  }
  if (reads()) {
    EXPECT_EQ(first_difference(memory_->bytes(0, 100), 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(100, 50), 1, 100 + kNowhere), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(150, kLength - 150), 2, 150), std::nullopt);
  } else {
    EXPECT_EQ(far_->first_difference(0, 100, 2, 0), std::nullopt);
    for (const uint64_t offset : {100u, 3000u, 99 + kNowhere}) EXPECT_EQ(far_->byte_at(offset), 0);
    EXPECT_EQ(far_->first_difference(100 + kNowhere, 50, 2, 100), std::nullopt);
    EXPECT_EQ(far_->first_difference(150 + kNowhere, kLength - 150 - kNowhere, 1, 150 + kNowhere), std::nullopt);
  }
}

TEST_P(NullRegion, IsNotForPeersAndNotRegisteredAnew) {
  const MrHandle null(ibv_alloc_null_mr(near_->pd()));
  ASSERT_TRUE(null);
  EXPECT_EQ(null->rkey, 0u);
  EXPECT_EQ(null->length, SIZE_MAX);
  EXPECT_EQ(ibv_rereg_mr(null.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
}

// ---- ibv_rereg_mr(3) ----

using Reregistered = EachWay;
INSTANTIATE_TEST_SUITE_P(Each, Reregistered, every_way(), way_name);

TEST_P(Reregistered, ItsRangeIsTheNewOne) {
  connect();
  ASSERT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_->data() + 4096, 4096, 0), 0);
  EXPECT_EQ(region_->addr, memory_->data() + 4096);
  EXPECT_EQ(region_->length, 4096u);
  EXPECT_EQ(post(request(1, 4096, 4096)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(post(request(2, 0, 1)), kAllPosted);
  EXPECT_EQ(next(), failed(2, IBV_WC_LOC_PROT_ERR));
}

TEST_P(Reregistered, ItsPdIsTheNewOne) {
  connect();
  ASSERT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_PD, near_->other_pd(), nullptr, 0, 0), 0);
  EXPECT_EQ(region_->pd, near_->other_pd());
  EXPECT_EQ(post(request(1, 0, 100)), kAllPosted);
  EXPECT_EQ(next(), failed(1, IBV_WC_LOC_PROT_ERR));
}

TEST_P(Reregistered, ItsRightsAreTheNewOnes) {
  connect();
  ASSERT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(post(request(1, 0, 100)), kAllPosted);
  EXPECT_EQ(next(), reads() ? failed(1, IBV_WC_LOC_PROT_ERR) : succeeded(1));
}

TEST_P(Reregistered, ErrorsAreNamedAndChangeNothing) {
  connect();
  const auto result = [&](int flags, void* address, size_t length, unsigned access) {
    errno = 0;
    return std::pair(ibv_rereg_mr(region_.get(), flags, nullptr, address, length, static_cast<int>(access)), errno);
  };
  constexpr int kRange = IBV_REREG_MR_CHANGE_TRANSLATION;
  constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;
  void* const here = memory_->data();
  EXPECT_EQ(result(1 << 10, here, 8, 0), std::pair(int{IBV_REREG_MR_ERR_INPUT}, EINVAL)) << "an unknown flag";
  EXPECT_EQ(result(kRange, nullptr, 8, 0), std::pair(int{IBV_REREG_MR_ERR_INPUT}, EINVAL));
  EXPECT_EQ(result(kRange, here, 0, 0), std::pair(int{IBV_REREG_MR_ERR_INPUT}, EINVAL));
  EXPECT_EQ(result(kRange, here, 8, kEveryAccess), std::pair(int{IBV_REREG_MR_ERR_INPUT}, EINVAL)) << "no such change";
  EXPECT_EQ(result(0, nullptr, 0, 0), std::pair(int{IBV_REREG_MR_ERR_CMD}, EINVAL)) << "no change at all";
  EXPECT_EQ(result(kAccess, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), std::pair(int{IBV_REREG_MR_ERR_CMD}, EINVAL));
  EXPECT_EQ(result(kRange, reinterpret_cast<void*>(8), 8, 0), std::pair(int{IBV_REREG_MR_ERR_CMD}, EFAULT));
  EXPECT_EQ(region_->addr, here);
  EXPECT_EQ(region_->length, kLength);
  EXPECT_EQ(post(request(1, 0, kLength)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

// ---- ibv_advise_mr(3) ----

TEST_F(MemoryRegion, AdviceIsForMemoryOnDemand) {
  const Memory memory(MemoryKind::anonymous, 4 * page_);
  const MrHandle on_demand = side_.register_memory(memory, kEveryAccess | IBV_ACCESS_ON_DEMAND);
  ASSERT_TRUE(on_demand);
  ibv_sge range{memory.address(), 100, on_demand->lkey};
  const auto advise = [&](int advice, uint32_t flags) {
    return ibv_advise_mr(side_.pd(), static_cast<ibv_advise_mr_advice>(advice), flags, &range, 1);
  };
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT + 1, 0), EOPNOTSUPP);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2), EINVAL);
  range.length = static_cast<uint32_t>(4 * page_ + 1);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), EFAULT);
}

using RegionOfReadOnlyMemory = EachSetting;
INSTANTIATE_TEST_SUITE_P(Each, RegionOfReadOnlyMemory, every_setting(), setting_name);

TEST_P(RegionOfReadOnlyMemory, IsTheSourceOfAWrite) {
  fill(memory_->bytes(), 2);
  region_.reset();
  ASSERT_EQ(mprotect(memory_->data(), kLength, PROT_READ), 0);
  region_ = near_->register_memory(*memory_, 0);
  connect();
  EXPECT_EQ(post(request(1, 0, kLength)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->first_difference(0, kLength, 2, 0), std::nullopt);
}

TEST_P(RegionOfReadOnlyMemory, IsReadByAPeer) {
  remote_ = far_->register_read_only_memory(kLength, 1);
  connect();
  Request read = request(1, 0, kLength);
  read.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(post(read), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(first_difference(memory_->bytes(), 1), std::nullopt);
}

}  // namespace
}  // namespace verbatim::conformance
