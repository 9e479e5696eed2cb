// What `verbatim doctor` makes of findings that this machine may not have.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "installation.h"
#include "limits.h"
#include "local/segment_layout.h"
#include "memory_cgroup.h"
#include "place.h"
#include "reach.h"
#include "services.h"
#include "settings.h"
#include "trial.h"

namespace verbatim::tool {
namespace {

using testing::HasSubstr;

// Two files, one fact.
static_assert(kTableBytes >= sizeof(local::Segment) && kTableBytes < sizeof(local::Segment) * 5 / 4);

Check find(const std::vector<Check>& checks, const std::string& name) {
  for (const Check& check : checks)
    if (check.name == name) return check;
  ADD_FAILURE() << "no check " << name;
  return {};
}

Mark mark_of(const std::vector<Check>& checks, const std::string& name) { return find(checks, name).mark; }

using Names = std::vector<std::string>;

TEST(DoctorLine, SaysMarkNameFindingAndConsequence) {
  EXPECT_EQ(line({Mark::ok, "seals", "they work", "Good."}), "ok       seals: they work. Good.");
  EXPECT_EQ(line({Mark::missing, "seals", "none", "Bad."}), "missing  seals: none. Bad.");
}

TEST(DoctorLine, NamesWhatIsMissingOnce) {
  EXPECT_EQ(missing_names({{Mark::missing, "b"}, {Mark::ok, "c"}, {Mark::missing, "a"}, {Mark::missing, "b"}}),
            (Names{"b", "a"}));
}

TEST(DoctorReach, WithoutRulesEverythingIsReached) { EXPECT_EQ(missing_names(judge(Reach{})), Names{}); }

TEST(DoctorReach, AtomicOperationsOnMemoryThatIsNotMappedWaitForItsOwner) {
  EXPECT_THAT(find(judge(Reach{}), "peer memory").consequence, HasSubstr("atomic operations"));
}

TEST(DoctorReach, InPtraceScopeOnePeersAreAllowed) {
  const Check check = find(judge(Reach{.ptrace_scope = 1}), "ptrace scope");
  EXPECT_EQ(check.mark, Mark::ok);
  EXPECT_THAT(check.consequence, HasSubstr("PR_SET_PTRACER"));
}

TEST(DoctorReach, PtraceScopeTwoNeedsTheCapability) {
  const Check without = find(judge(Reach{.ptrace_scope = 2}), "ptrace scope");
  EXPECT_EQ(without.mark, Mark::slower);
  EXPECT_THAT(without.consequence, HasSubstr("MAP_SHARED"));
  EXPECT_EQ(mark_of(judge(Reach{.ptrace_scope = 2, .may_ptrace = true}), "ptrace scope"), Mark::note);
}

TEST(DoctorReach, PtraceScopeThreeHasNoExceptions) {
  EXPECT_EQ(mark_of(judge(Reach{.ptrace_scope = 3, .may_ptrace = true}), "ptrace scope"), Mark::slower);
}

TEST(DoctorReach, SaysWhyMemoryIsNotReached) {
  const auto why = [](const Reach& reach) {
    const Check check = find(judge(reach), "peer memory");
    EXPECT_EQ(check.mark, Mark::slower);
    return check.consequence;
  };
  EXPECT_THAT(why({.ptrace_scope = 2, .copy_error = EPERM}), HasSubstr("ptrace scope"));
  EXPECT_THAT(why({.seccomp_filter = true, .copy_error = EPERM}), HasSubstr("seccomp filter"));
  EXPECT_THAT(why({.copy_error = ENOSYS}), HasSubstr("does not have"));
  EXPECT_THAT(why({.copy_error = EPERM}), HasSubstr("security module"));
  EXPECT_THAT(why({.copy_error = EMFILE}), HasSubstr("descriptors"));
}

TEST(DoctorReach, AFilterThatKillsIsNoWay) {
  EXPECT_EQ(mark_of(judge(Reach{.seccomp_filter = true, .copy_error = kKilled}), "peer memory"), Mark::missing);
}

TEST(DoctorReach, FilesThatCannotBeMappedAreSlower) {
  EXPECT_EQ(mark_of(judge(Reach{.map_error = EACCES}), "shared files"), Mark::slower);
  EXPECT_EQ(mark_of(judge(Reach{.copy_error = EPERM, .map_error = EACCES}), "shared files"), Mark::slower);
  EXPECT_EQ(mark_of(judge(Reach{.copy_error = EPERM}), "shared files"), Mark::ok);
}

TEST(DoctorServices, EachIsNeeded) {
  const std::pair<int Services::*, const char*> rows[] = {
      {&Services::memfd_error, "shared tables"},
      {&Services::seal_error, "seals"},
      {&Services::eventfd_error, "doorbells"},
      {&Services::pidfd_error, "deaths"},
      {&Services::abstract_socket_error, "abstract sockets"},
      {&Services::descriptor_passing_error, "descriptor passing"},
  };
  EXPECT_EQ(missing_names(judge(Services{})), Names{});
  for (const auto& [error, name] : rows) {
    Services services;
    services.*error = ENOSYS;
    EXPECT_EQ(missing_names(judge(services)), Names{name});
  }
}

TEST(DoctorServices, WithoutRobustFutexesDeathsAreKnownLater) {
  EXPECT_EQ(mark_of(judge(Services{}), "robust futexes"), Mark::ok);
  EXPECT_EQ(mark_of(judge(Services{.robust_futex_error = ENOSYS}), "robust futexes"), Mark::note);
}

TEST(DoctorServices, WithoutMembarrierTransfersAreSlower) {
  EXPECT_EQ(mark_of(judge(Services{}), "membarrier"), Mark::ok);
  EXPECT_EQ(mark_of(judge(Services{.membarrier_error = EPERM}), "membarrier"), Mark::slower);
  EXPECT_EQ(mark_of(judge(Services{}), "restartable sequences"), Mark::ok);
  EXPECT_EQ(mark_of(judge(Services{.restartable_sequence_error = ENOSYS}), "restartable sequences"), Mark::note);
}

TEST(DoctorPlace, WhoIsNotOneUserMeetsNobody) {
  Place place{.network_namespace = 1, .user_namespace = 2, .pid_namespace = 3};
  EXPECT_EQ(missing_names(judge(place)), Names{});
  EXPECT_THAT(find(judge(place), "user").consequence, HasSubstr("same capabilities"));
  place.saved_user = 1;
  EXPECT_EQ(missing_names(judge(place)), Names{"user"});
}

TEST(DoctorPlace, NamesTheNamespaces) {
  const Place place{.network_namespace = 11, .user_namespace = 22, .pid_namespace = 33};
  EXPECT_EQ(find(judge(place), "namespaces").finding, "network 11, user 22, PID 33");
  EXPECT_EQ(missing_names(judge(Place{})), Names{"namespaces"});
}

TEST(DoctorPlace, NewUserNamespacesDoNotMatter) {
  const Place place{.network_namespace = 1, .user_namespace = 2, .pid_namespace = 3, .new_user_namespace_error = EPERM};
  EXPECT_EQ(mark_of(judge(place), "user namespaces"), Mark::ok);
}

TEST(DoctorLimits, UnlimitedIsEnough) { EXPECT_EQ(missing_names(judge(Limits{})), Names{}); }

TEST(DoctorLimits, AProcessNeedsDescriptorsForItselfAndAPeer) {
  const auto mark = [](uint64_t soft, uint64_t hard) {
    return mark_of(judge(Limits{.descriptors = soft, .descriptors_hard = hard}), "descriptors");
  };
  EXPECT_EQ(mark(16, 1024), Mark::missing);
  EXPECT_EQ(mark(17, 1024), Mark::note);
  EXPECT_EQ(mark(1024, 1024), Mark::ok);
  // The agent has no room for many.
  EXPECT_EQ(mark(100, 100), Mark::note);
}

TEST(DoctorLimits, LockedMemoryDoesNotMatter) {
  EXPECT_EQ(mark_of(judge(Limits{.locked_memory = 0}), "locked memory"), Mark::ok);
}

TEST(DoctorLimits, TheTablesOfAProcessAndOfAPeerAreMapped) {
  const auto mark = [](uint64_t tables) {
    return mark_of(judge(Limits{.address_space = tables * kTableBytes}), "address space");
  };
  EXPECT_EQ(mark(1), Mark::missing);
  EXPECT_EQ(mark(2), Mark::note);
  EXPECT_EQ(mark(1000), Mark::ok);
  EXPECT_EQ(mark_of(judge(Limits{.file_size = kTableBytes - 1}), "file size"), Mark::missing);
  EXPECT_EQ(mark_of(judge(Limits{.file_size = kTableBytes}), "file size"), Mark::ok);
}

TEST(DoctorLimits, LittleMemoryIsWorthANote) {
  const auto mark = [](uint64_t used) {
    return mark_of(judge(Limits{.memory = MemoryBudget{1 << 30, used}}), "memory");
  };
  EXPECT_EQ(mark(1 << 29), Mark::ok);
  EXPECT_EQ(mark((1 << 30) - 1), Mark::note);
  EXPECT_EQ(mark(1u << 31), Mark::note);  // the limit was lowered since
}

TEST(DoctorLimits, OneProcessorIsSlower) {
  EXPECT_EQ(mark_of(judge(Limits{.processors = 1}), "processors"), Mark::slower);
  EXPECT_EQ(mark_of(judge(Limits{.processors = 2}), "processors"), Mark::ok);
}

TEST(DoctorInstallation, LibraryAndAgentAreNeeded) {
  EXPECT_EQ(missing_names(judge(Installation{})), Names{});
  EXPECT_EQ(missing_names(judge(Installation{.library_complaint = "too short"})), Names{"library"});
  EXPECT_EQ(missing_names(judge(Installation{.agent_error = EACCES})), Names{"agent"});
}

TEST(DoctorInstallation, AnotherLibraryInThePathComesAfterOursAndAPreloadedOneBefore) {
  const Check in_path = find(judge(Installation{.other_folders = {"/a", "/b"}}), "other libraries");
  EXPECT_EQ(in_path.mark, Mark::note);
  EXPECT_THAT(in_path.finding, HasSubstr("/a, /b"));
  EXPECT_EQ(mark_of(judge(Installation{.preloaded = {"/x/libibverbs.so.1"}}), "other libraries"), Mark::missing);
}

TEST(DoctorInstallation, ARealDeviceIsNamedAndNotUsed) {
  const Check check = find(judge(Installation{.rdma_devices = {"mlx5_0", "rxe0"}}), "RDMA devices");
  EXPECT_EQ(check.mark, Mark::ok);
  EXPECT_THAT(check.finding, HasSubstr("mlx5_0, rxe0"));
  EXPECT_THAT(check.consequence, HasSubstr("does not use"));
}

TEST(DoctorSettings, ThoseThatAreIgnoredAreNoted) {
  const char* environment[] = {"VERBATIM_LOGG=warn", "VERBATIM_VENDOR_ID=x", "VERBATIM_LOG=info", "HOME=/", nullptr};
  const std::vector<Check> checks = judge_settings(environment);
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_EQ(checks[0].mark, Mark::note);
  EXPECT_THAT(checks[0].finding, HasSubstr("VERBATIM_LOGG"));
  EXPECT_THAT(checks[1].finding, HasSubstr("VERBATIM_VENDOR_ID"));
  EXPECT_EQ(checks[2].mark, Mark::ok);
  EXPECT_EQ(checks[2].finding, "VERBATIM_LOG=info");
}

TEST(DoctorSettings, NoneIsNeeded) {
  const char* environment[] = {"HOME=/", nullptr};
  const std::vector<Check> checks = judge_settings(environment);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].mark, Mark::ok);
}

TEST(DoctorTrial, AnErrorIsHandedBackAndDeathIsOne) {
  EXPECT_EQ(try_in_child([] { return 0; }), 0);
  EXPECT_EQ(try_in_child([] { return EPERM; }), EPERM);
  const auto die = [] {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    return ::kill(::getpid(), SIGSYS);
  };
  EXPECT_EQ(try_in_child(die), kKilled);
  EXPECT_THAT(describe_trial(kKilled), HasSubstr("killed"));
  EXPECT_EQ(describe_trial(EPERM), std::strerror(EPERM));
}

// Control groups as files in a folder of their own.
class DoctorControlGroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "doctor.XXXXXX";
    ASSERT_TRUE(::mkdtemp(name.data()));
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  std::filesystem::path root_;
};

TEST_F(DoctorControlGroup, TheTightestAboveCounts) {
  write("a/memory.max", "1000");
  write("a/memory.current", "900");
  write("a/b/memory.max", "500");
  write("a/b/memory.current", "100");
  write("a/b/c/memory.max", "max");
  write("a/b/c/memory.current", "50");
  const auto budget = memory_budget("0::/a/b/c\n", root_);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->limit, 1000u);
  EXPECT_EQ(budget->free(), 100u);
}

TEST_F(DoctorControlGroup, OfVersionOneIsReadToo) {
  write("memory/x/memory.limit_in_bytes", "4096");
  write("memory/x/memory.usage_in_bytes", "96");
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/memory.usage_in_bytes", "5000");
  const auto budget = memory_budget("5:cpu,cpuacct:/y\n4:memory:/x\n0::/\n", root_);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->free(), 4000u);
}

TEST_F(DoctorControlGroup, WithoutLimitThereIsNoBudget) {
  write("memory.max", "max");
  write("memory.current", "1");
  EXPECT_FALSE(memory_budget("0::/\n", root_));
  EXPECT_FALSE(memory_budget("", root_));
  EXPECT_FALSE(memory_budget("nonsense", root_));
}

}  // namespace
}  // namespace verbatim::tool
