// Many connections one after the other from one client's address: each is made, moves a message and ends, none is
// stale, and nothing is left. VERBATIM_TEST_ALL=1: 100,000.
#include <dirent.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <fstream>

#include "conformance/rdmacm/support/two_ends.h"
#include "conformance/support/agent.h"
#include "conformance/support/pair.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

size_t descriptors(pid_t process) {
  size_t count = 0;
  DIR* const folder = opendir(("/proc/" + std::to_string(process) + "/fd").c_str());
  if (!folder) return 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

// In KiB, what is in memory.
size_t memory_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (size_t size = 0; word == "VmRSS:" && status >> size) return size;
  return 0;
}

int connections() {
#if defined(VERBATIM_ADDRESS_SANITIZER) || defined(VERBATIM_THREAD_SANITIZER)
  return 100;
#else
  return test_everything() ? 100'000 : 1000;
#endif
}

class Repetition : public TwoEnds {
 protected:
  // `region`: of `text`, for both ends, which share a domain.
  void connect_once(std::array<char, 16>& text, const ibv_mr* region) {
    active_ = create_id(client_.get());
    ASSERT_NO_FATAL_FAILURE(resolve(active_.get(), address_));
    create_queue_pair(active_.get());
    ASSERT_NO_FATAL_FAILURE(ask(plain_parameters()));
    create_queue_pair(passive_.get());
    ASSERT_EQ(rdma_post_recv(passive_.get(), nullptr, text.data(), 8, const_cast<ibv_mr*>(region)), 0);
    ASSERT_EQ(accept(plain_parameters()), 0);
    ASSERT_EQ(client_.take_name(), "ESTABLISHED");
    ASSERT_EQ(server_.take_name(), "ESTABLISHED");
    ASSERT_EQ(
        rdma_post_send(active_.get(), nullptr, text.data() + 8, 8, const_cast<ibv_mr*>(region), IBV_SEND_SIGNALED), 0);
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_send_comp(active_.get(), &completion), 1);
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_EQ(rdma_get_recv_comp(passive_.get(), &completion), 1);
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_EQ(error_of(rdma_disconnect(active_.get())), 0);
    ASSERT_EQ(server_.take_name(), "DISCONNECTED");
    ASSERT_EQ(error_of(rdma_disconnect(passive_.get())), 0);
    ASSERT_EQ(client_.take_name(), "DISCONNECTED");
    active_.reset();
    passive_.reset();
  }
};

TEST_F(Repetition, LeavesNothingAndIsNeverStale) {
  listen();
  const ibv_pd* const domain = listener_->pd;
  std::array<char, 16> text{};
  const MrHandle region(ibv_reg_mr(const_cast<ibv_pd*>(domain), text.data(), text.size(), IBV_ACCESS_LOCAL_WRITE));
  ASSERT_TRUE(region);
  const int count = connections(), warm = std::min(count / 4, 5000);
  for (int i = 0; i < warm; ++i) ASSERT_NO_FATAL_FAILURE(connect_once(text, region.get())) << i;
  ASSERT_EQ(agents().size(), 1u);
  const pid_t agent = agents()[0];
  const size_t own_descriptors = descriptors(getpid()), agents_descriptors = descriptors(agent);
  const size_t own_memory = memory_of(getpid()), agents_memory = memory_of(agent);
  for (int i = warm; i < count; ++i) ASSERT_NO_FATAL_FAILURE(connect_once(text, region.get())) << i;
  EXPECT_EQ(descriptors(getpid()), own_descriptors);
  EXPECT_EQ(descriptors(agent), agents_descriptors);
  // Allocators keep some; the agent also remembers each connection for its time in TIMEWAIT, 2 s.
  constexpr size_t kSlack = 8 << 10;
  EXPECT_LT(memory_of(getpid()), own_memory + kSlack);
  EXPECT_LT(memory_of(agent), agents_memory + kSlack);
}

TEST_F(Repetition, WithIdentifiersThatAreKeptUntilTheEndToo) {
  listen();
  constexpr int kMany = 200;
  const size_t before = descriptors(getpid());
  std::vector<CmIdHandle> ends;
  for (int i = 0; i < kMany; ++i) {
    active_ = resolved();
    ASSERT_NO_FATAL_FAILURE(connect_without_queue_pairs()) << i;
    ends.push_back(std::move(active_));
    ends.push_back(std::move(passive_));
  }
  EXPECT_LE(descriptors(getpid()), before + 2) << "a connection has no descriptor";
  ends.clear();
  while (client_.take({})) continue;
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
