// Programs that rdma_cm keeps apart: those of another network namespace.
#include <sched.h>
#include <unistd.h>

#include <cstdlib>

#include "conformance/rdmacm/support/event_channel.h"
#include "conformance/rdmacm/support/identifier.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

using local::TestChild;

const SocketAddress kAddress = SocketAddress::parse("127.0.0.1", 7174);

bool enter_network_namespace() {
  return (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
         std::system("ip link set lo up") == 0;
}

// Listens after `become`, and returns whether anybody came.
int listen_as(TestChild::Talk& talk, bool (*become)()) {
  talk.hear();
  if (!become()) {
    talk.say(0);
    return 0;
  }
  const EventChannel channel;
  const CmIdHandle id = create_id(channel.get());
  EXPECT_EQ(bind_to(id.get(), kAddress), 0);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
  talk.say(1);
  talk.hear();
  EXPECT_EQ(channel.take_name({}), "nothing");
  return testing::Test::HasFailure();
}

std::string connect_as_oneself() {
  const EventChannel channel;
  const CmIdHandle id = resolved(channel, kAddress);
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
  return channel.take_name();
}

TEST(Foreigner, OfAnotherNetworkIsNotThereAtAll) {
  TestChild child([](TestChild::Talk& talk) { return listen_as(talk, enter_network_namespace); });
  child.say(0);
  if (child.hear() == 0) GTEST_SKIP() << "a network namespace cannot be set up here";
  EXPECT_EQ(connect_as_oneself(), "REJECTED 8");
  child.say(0);
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace verbatim::conformance
