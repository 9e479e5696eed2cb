#include "model/window_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "model/memory_window.h"
#include "support/shared_memory.h"
#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::Pages;
using testing_support::TestDevice;

constexpr uint32_t kReadWrite = access::kRemoteRead | access::kRemoteWrite;
constexpr uint32_t kBindable = access::kLocalWrite | access::kWindowBind;

struct WindowTableTest : testing::Test {
  TestDevice side{0x10};
  Pages pages{8192, Pages::Kind::private_memory};
  std::unique_ptr<MemoryRegion> region = side.register_memory(pages.data(), 8192, kBindable);
  std::unique_ptr<MemoryWindow> one = MemoryWindow::allocate(side.device, *side.pd, WindowType::one).take();
  std::unique_ptr<MemoryWindow> two = MemoryWindow::allocate(side.device, *side.pd, WindowType::two).take();
  const Qpn qpn = side.process.allocate_qpn();
  const Qpn other_qpn = side.process.allocate_qpn();
  const PdId pd = side.pd->id();
  const PdId other_pd{pd.value + 1};

  // The request that succeeds.
  WindowBind request(MemoryKey window) const {
    return {.window = window,
            .new_key = {(window.value & ~0xffu) | ((window.value + 1) & 0xff)},
            .region = region->key(),
            .address = pages.address() + 100,
            .length = 1000,
            .access = kReadWrite};
  }
  // As requests of a queue pair, which end when nothing can land any more.
  local::Verdict bind(PdId in, const WindowBind& what) {
    local::Revocation revocation;
    const local::Verdict verdict = side.device.windows().bind(in, qpn, what, revocation);
    while (!revocation.is_over()) std::this_thread::yield();
    return verdict;
  }
  local::Verdict bind(const WindowBind& what) { return bind(pd, what); }
  local::Verdict invalidate(PdId in, Qpn by, MemoryKey key) {
    local::Revocation revocation;
    const local::Verdict verdict = side.device.windows().invalidate(in, by, key, revocation);
    while (!revocation.is_over()) std::this_thread::yield();
    return verdict;
  }
  local::Verdict invalidate(MemoryKey key) { return invalidate(pd, qpn, key); }
  local::RegionFields published(MemoryKey key) {
    local::RegionFields fields;
    return side.process.adapter().view().read(key, fields) ? fields : local::RegionFields{};
  }
  void expect_bind_error(const WindowBind& what, Reason reason) {
    const local::RegionFields before = published(what.window);
    const local::Verdict verdict = bind(what);
    EXPECT_EQ(verdict.status, CompletionStatus::window_bind_error);
    EXPECT_EQ(verdict.reason, reason);
    const local::RegionFields after = published(what.window);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
  }
  void expect_not_invalidatable(const local::Verdict& verdict) {
    EXPECT_EQ(verdict.status, CompletionStatus::local_qp_operation_error);
    EXPECT_EQ(verdict.reason, Reason::not_invalidatable);
  }
};

TEST_F(WindowTableTest, AWindowGrantsNothingUntilItIsBound) {
  for (const MemoryWindow* window : {one.get(), two.get()}) {
    const local::RegionFields fields = published(window->key());
    EXPECT_EQ(fields.key, window->key());
    EXPECT_EQ(fields.kind, local::RegionKind::window);
    EXPECT_EQ(fields.access, 0u);
    EXPECT_EQ(fields.length, 0u);
  }
}

TEST_F(WindowTableTest, BindingPublishesThePartOfTheRegionUnderTheNewKeyAlone) {
  for (const MemoryWindow* window : {one.get(), two.get()}) {
    const WindowBind what = request(window->key());
    ASSERT_EQ(bind(what).status, CompletionStatus::success);
    EXPECT_EQ(published(what.window).key.value, 0u) << "the old key names nothing";
    const local::RegionFields fields = published(what.new_key);
    EXPECT_EQ(fields.access, kReadWrite);
    EXPECT_EQ(fields.pd, pd);
    EXPECT_EQ(fields.iova, what.address);
    EXPECT_EQ(fields.address, what.address);
    EXPECT_EQ(fields.length, what.length);
    EXPECT_EQ(fields.queue_pair, window->type() == WindowType::two ? qpn : Qpn{});
  }
}

TEST_F(WindowTableTest, AZeroBasedWindowBeginsAtZero) {
  WindowBind what = request(two->key());
  what.access |= access::kZeroBased;
  ASSERT_EQ(bind(what).status, CompletionStatus::success);
  const local::RegionFields fields = published(what.new_key);
  EXPECT_EQ(fields.iova, 0u);
  EXPECT_EQ(fields.address, what.address);
  EXPECT_EQ(fields.access, kReadWrite);
}

TEST_F(WindowTableTest, AWindowOfAFileNamesItsPartOfTheFile) {
  const Pages file(8192, Pages::Kind::shared_file);
  region = side.register_memory(file.data() + 50, 4096, kBindable);
  WindowBind what = request(two->key());
  what.address = file.address() + 200;
  ASSERT_EQ(bind(what).status, CompletionStatus::success);
  EXPECT_GE(published(what.new_key).backing_fd, 0);
  EXPECT_EQ(published(what.new_key).backing_offset, 200u);
}

// One row for everything that binding can be refused for.
TEST_F(WindowTableTest, BindingIsRefusedAndChangesNothing) {
  const Pages other(4096, Pages::Kind::private_memory);
  const auto not_bindable = side.register_memory(other.data(), 4096, access::kLocalWrite | access::kRemoteWrite);
  const auto read_only = side.register_memory(other.data(), 4096, access::kWindowBind);
  const auto zero_based =
      MemoryRegion::register_memory(side.device, *side.pd, {other.address(), 4096, 0, kBindable | access::kZeroBased})
          .take();
  const auto null = MemoryRegion::register_null(side.device, *side.pd).take();
  const auto foreign_pd = ProtectionDomain::create(side.device).take();
  const auto foreign =
      MemoryRegion::register_memory(side.device, *foreign_pd, {other.address(), 4096, other.address(), kBindable})
          .take();
  struct Row {
    const char* what;
    std::function<void(WindowBind&)> change;
    Reason reason;
  };
  const auto of_region = [](const MemoryRegion& which, uint64_t address) {
    return [&which, address](WindowBind& bind) {
      bind.region = which.key();
      bind.address = address;
    };
  };
  const Row rows[] = {
      {"not a window", [&](WindowBind& bind) { bind.window = region->key(); }, Reason::window_unknown},
      {"no such region", [](WindowBind& bind) { bind.region.value ^= 1; }, Reason::window_region},
      {"a window of a window", [&](WindowBind& bind) { bind.region = one->key(); }, Reason::window_region},
      {"a null region", of_region(*null, 0), Reason::window_region},
      {"another PD's region", of_region(*foreign, other.address()), Reason::window_region},
      {"a zero-based region", of_region(*zero_based, 0), Reason::window_region},
      {"no IBV_ACCESS_MW_BIND", of_region(*not_bindable, other.address()), Reason::window_rights},
      {"writes without local writes", of_region(*read_only, other.address()), Reason::window_rights},
      {"flushes that the region has not", [](WindowBind& bind) { bind.access |= access::kFlushGlobal; },
       Reason::window_rights},
      {"a right that is none", [](WindowBind& bind) { bind.access |= access::kWindowBind; }, Reason::window_rights},
      {"before", [&](WindowBind& bind) { bind.address = pages.address() - 1; }, Reason::window_range},
      {"after", [](WindowBind& bind) { bind.length = 8192 - 99; }, Reason::window_range},
      {"around", [](WindowBind& bind) { bind.length = UINT64_MAX; }, Reason::window_range},
      {"nothing", [](WindowBind& bind) { bind.length = 0; }, Reason::window_range},
      {"no region", [](WindowBind& bind) { bind.region = {}; }, Reason::window_range},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    WindowBind what = request(two->key());
    row.change(what);
    expect_bind_error(what, row.reason);
  }
  EXPECT_EQ(bind(other_pd, request(two->key())).reason, Reason::window_unknown);
  EXPECT_EQ(bind(request(two->key())).status, CompletionStatus::success) << "none of it did any harm";
}

TEST_F(WindowTableTest, ReadingNeedsNoRightOfTheRegionButToBind) {
  const auto read_only = side.register_memory(pages.data(), 8192, access::kWindowBind);
  WindowBind what = request(two->key());
  what.region = read_only->key();
  what.access = access::kRemoteRead;
  EXPECT_EQ(bind(what).status, CompletionStatus::success);
}

TEST_F(WindowTableTest, Type1IsBoundAgainAtWillAndUnboundByALengthOfZero) {
  const WindowBind first = request(one->key());
  ASSERT_EQ(bind(first).status, CompletionStatus::success);
  const WindowBind second = request(first.new_key);
  ASSERT_EQ(bind(second).status, CompletionStatus::success);
  EXPECT_EQ(published(first.new_key).key.value, 0u);
  WindowBind nothing = request(second.new_key);
  nothing.length = 0;
  ASSERT_EQ(bind(nothing).status, CompletionStatus::success);
  EXPECT_EQ(published(second.new_key).key.value, 0u);
  EXPECT_EQ(published(nothing.new_key).access, 0u);
  EXPECT_TRUE(region->withdraw());
}

TEST_F(WindowTableTest, Type2IsBoundAgainOnlyAfterItWasInvalidated) {
  const WindowBind first = request(two->key());
  ASSERT_EQ(bind(first).status, CompletionStatus::success);
  EXPECT_EQ(bind(request(first.new_key)).reason, Reason::window_bound);
  EXPECT_EQ(published(first.new_key).access, kReadWrite);
  ASSERT_EQ(invalidate(first.new_key).status, CompletionStatus::success);
  EXPECT_EQ(published(first.new_key).access, 0u);
  EXPECT_EQ(bind(request(first.new_key)).status, CompletionStatus::success);
}

TEST_F(WindowTableTest, OnlyAType2WindowsOwnQueuePairInvalidatesItByItsPresentKey) {
  const WindowBind first = request(one->key());
  const WindowBind second = request(two->key());
  ASSERT_EQ(bind(first).status, CompletionStatus::success);
  ASSERT_EQ(bind(second).status, CompletionStatus::success);
  expect_not_invalidatable(invalidate(first.new_key));
  expect_not_invalidatable(invalidate(second.window));
  expect_not_invalidatable(invalidate(region->key()));
  expect_not_invalidatable(invalidate(other_pd, qpn, second.new_key));
  expect_not_invalidatable(invalidate(pd, other_qpn, second.new_key));
  EXPECT_EQ(published(first.new_key).access, kReadWrite);
  EXPECT_EQ(published(second.new_key).access, kReadWrite);
  EXPECT_EQ(invalidate(second.new_key).status, CompletionStatus::success);
  EXPECT_EQ(invalidate(second.new_key).status, CompletionStatus::success) << "it stays invalid";
}

TEST_F(WindowTableTest, ARegionCannotGoNorChangeWhileAWindowIsBoundToIt) {
  const WindowBind first = request(one->key());
  const WindowBind second = request(two->key());
  ASSERT_EQ(bind(first).status, CompletionStatus::success);
  ASSERT_EQ(bind(second).status, CompletionStatus::success);
  EXPECT_FALSE(region->withdraw());
  EXPECT_EQ(region->reregister({.access = 0}).error, EBUSY);
  one.reset();
  EXPECT_FALSE(region->withdraw());
  ASSERT_EQ(invalidate(second.new_key).status, CompletionStatus::success);
  EXPECT_TRUE(region->reregister({.access = kBindable}).ok());
  EXPECT_TRUE(region->withdraw());
}

TEST_F(WindowTableTest, FreeingAWindowUnbindsIt) {
  const WindowBind what = request(two->key());
  ASSERT_EQ(bind(what).status, CompletionStatus::success);
  two.reset();
  EXPECT_EQ(published(what.new_key).key.value, 0u);
  EXPECT_TRUE(region->withdraw());
}

TEST_F(WindowTableTest, AQueuePairsEndUnbindsItsWindows) {
  const WindowBind first = request(one->key());
  const WindowBind second = request(two->key());
  ASSERT_EQ(bind(first).status, CompletionStatus::success);
  ASSERT_EQ(bind(second).status, CompletionStatus::success);
  side.device.windows().forget(other_qpn);
  EXPECT_EQ(published(second.new_key).access, kReadWrite);
  side.device.windows().forget(qpn);
  EXPECT_EQ(published(second.new_key).access, 0u);
  EXPECT_EQ(published(first.new_key).access, kReadWrite) << "type 1 is no queue pair's";
}

TEST_F(WindowTableTest, CountsAsUserOfItsPdAndAgainstTheLimit) {
  TestDevice small(0x20, {.max_mw = 1});
  auto window = MemoryWindow::allocate(small.device, *small.pd, WindowType::two).take();
  EXPECT_TRUE(small.pd->in_use());
  EXPECT_EQ(MemoryWindow::allocate(small.device, *small.pd, WindowType::one).error(), ENOMEM);
  window.reset();
  EXPECT_FALSE(small.pd->in_use());
  EXPECT_TRUE(MemoryWindow::allocate(small.device, *small.pd, WindowType::one).ok());
}

// A peer is in the middle of a slice through the window: whatever takes its right away waits for it.
struct WindowInUse : WindowTableTest {
  TestDevice peer{0x20};
  WindowBind bound;

  void expect_wait(const MemoryWindow& window, const std::function<void()>& take_away) {
    peer.process.allocate_qpn();
    introduce(side.process, peer.process);
    bound = request(window.key());
    ASSERT_EQ(bind(bound).status, CompletionStatus::success);
    const local::SegmentView& view = side.process.adapter().view();
    std::atomic<bool> touching{false}, ended{false};
    std::thread requester([&] {
      const local::TouchRecords::Guard touch(peer.process.adapter().touch_records(), 0,
                                             {qpn, view.entry_index(bound.new_key)}, false);
      touching.store(true);
      while (published(bound.new_key).access != 0) std::this_thread::yield();
      ended.store(true);
    });
    while (!touching.load()) std::this_thread::yield();
    take_away();
    EXPECT_TRUE(ended.load());
    requester.join();
  }
};

TEST_F(WindowInUse, InvalidatingWaits) {
  expect_wait(*two, [&] { EXPECT_EQ(invalidate(bound.new_key).status, CompletionStatus::success); });
}

TEST_F(WindowInUse, BindingAnewWaits) {
  expect_wait(*one, [&] { EXPECT_EQ(bind(request(bound.new_key)).status, CompletionStatus::success); });
}

TEST_F(WindowInUse, FreeingWaits) {
  expect_wait(*two, [&] { two.reset(); });
}

}  // namespace
}  // namespace verbatim::model
