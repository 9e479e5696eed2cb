#include "base/reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace verbatim {
namespace {

// vendor_err is part of the interface: a number once given out means the same for ever.
struct Given {
  uint32_t number;
  std::string_view name;
};
constexpr Given kGiven[] = {
    {0, "none"},
    {0x101, "local-key-unknown"},
    {0x102, "local-key-other-pd"},
    {0x103, "local-range"},
    {0x104, "local-no-write-access"},
    {0x105, "local-memory-gone"},
    {0x201, "message-too-long"},
    {0x202, "no-read-depth"},
    {0x203, "atomic-length"},
    {0x204, "operation-not-for-type"},
    {0x205, "datagram-too-long"},
    {0x206, "datagram-other-pd"},
    {0x301, "remote-key-unknown"},
    {0x302, "remote-key-other-pd"},
    {0x303, "remote-range"},
    {0x304, "remote-no-access"},
    {0x305, "remote-memory-gone"},
    {0x306, "remote-operation-off"},
    {0x307, "remote-no-read-depth"},
    {0x308, "remote-key-other-qp"},
    {0x309, "remote-unaligned-atomic"},
    {0x30a, "remote-receive-too-short"},
    {0x30b, "remote-receive-bad"},
    {0x30c, "remote-no-receive"},
    {0x30d, "remote-no-shared-queue"},
    {0x401, "peer-dead"},
    {0x402, "peer-not-ready"},
    {0x403, "peer-unknown"},
    {0x404, "peer-names-another"},
    {0x406, "bad-response"},
    {0x501, "flushed"},
    {0x502, "refused-by-peer"},
    {0x503, "completion-queue-full"},
    {0x504, "receive-too-short"},
    {0x601, "no-global-route"},
    {0x602, "not-this-host"},
    {0x603, "no-agent"},
    {0x701, "window-unknown"},
    {0x702, "window-bound"},
    {0x703, "window-region"},
    {0x704, "window-rights"},
    {0x705, "window-range"},
    {0x706, "not-invalidatable"},
    {0x801, "dropped-no-receive"},
    {0x802, "dropped-qkey"},
    {0x803, "dropped-no-peer"},
    {0x804, "dropped-too-long"},
    {0x901, "mad-length"},
    {0x902, "mad-not-cm"},
    {0x903, "mad-attribute"},
    {0x904, "mad-field"},
    {0x905, "rdma-ip-cm-header"},
    {0x906, "cm-unknown"},
    {0x907, "cm-state"},
    {0x908, "cm-duplicate"},
    {0x909, "cm-address"},
    {0x90a, "cm-backlog"},
    {0x90b, "cm-no-listener"},
    {0x90c, "cm-stale"},
};

TEST(Reason, NumbersKeepTheirNames) {
  for (const Given& given : kGiven) {
    const ReasonText& row = describe(Reason{given.number});
    EXPECT_EQ(static_cast<uint32_t>(row.reason), given.number);
    EXPECT_EQ(row.name, given.name);
  }
}

TEST(Reason, NamesAndMeaningsAreDistinctAndSaySomething) {
  std::set<std::string_view> names, meanings;
  for (const Given& given : kGiven) {
    const ReasonText& row = describe(Reason{given.number});
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(meanings.insert(row.meaning).second) << row.meaning;
    EXPECT_FALSE(row.meaning.empty());
  }
}

TEST(Reason, AnUnknownNumberIsNone) { EXPECT_EQ(describe(Reason{0xdead}).reason, Reason::none); }

TEST(Reason, EveryNumberThatHasARowIsAmongThoseHeldHere) {
  std::set<uint32_t> given;
  for (const Given& row : kGiven) given.insert(row.number);
  for (uint32_t number = 1; number < 0x1000; ++number)
    EXPECT_EQ(describe(Reason{number}).reason != Reason::none, given.contains(number)) << number;
}

}  // namespace
}  // namespace verbatim
