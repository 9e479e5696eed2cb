// The other program ends, by exit or by kill -9, in each state of a connection: who is left hears it at once, idle or
// not, and the port is free again.
#include <rdma/rdma_verbs.h>

#include <csignal>

#include "conformance/rdmacm/support/event_channel.h"
#include "conformance/rdmacm/support/identifier.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

using local::TestChild;

constexpr uint16_t kPort = 7174;
const SocketAddress kAddress = SocketAddress::parse("127.0.0.1", kPort);

CmIdHandle listening(const EventChannel& channel) {
  CmIdHandle id = create_id(channel.get());
  EXPECT_EQ(bind_to(id.get(), kAddress), 0);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
  return id;
}
CmIdHandle requested(const EventChannel& channel) {
  const std::optional<CmEvent> request = channel.take();
  EXPECT_EQ(name(request), "CONNECT_REQUEST");
  return CmIdHandle(request ? request->id : nullptr);
}
void accept(rdma_cm_id* id) {
  create_queue_pair(id);
  rdma_conn_param parameters = plain_parameters();
  EXPECT_EQ(error_of(rdma_accept(id, &parameters)), 0);
}
// Asks, and has no answer yet.
CmIdHandle asking(const EventChannel& channel) {
  CmIdHandle id = resolved(channel, kAddress);
  create_queue_pair(id.get());
  rdma_conn_param parameters = plain_parameters();
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
  return id;
}

// The steps of a server and of a client; a peer ends after one of them.
enum class ServerStep { listens, has_taken, accepted, established };
enum class ClientStep { asked, established };

// Waits for the word, goes so far, says so, and lives on until it is told to exit or is killed.
int serve(TestChild::Talk& talk, ServerStep last) {
  talk.hear();
  const EventChannel channel;
  const CmIdHandle listener = listening(channel);
  talk.say(1);
  CmIdHandle id;
  if (last >= ServerStep::has_taken) id = requested(channel);
  if (last >= ServerStep::accepted) accept(id.get());
  if (last >= ServerStep::established) {
    EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  }
  talk.say(2);
  talk.hear();
  _exit(testing::Test::HasFailure());  // with everything open
}
int ask(TestChild::Talk& talk, ClientStep last) {
  talk.hear();
  const EventChannel channel;
  const CmIdHandle id = asking(channel);
  if (last >= ClientStep::established) {
    EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  }
  talk.say(2);
  talk.hear();
  _exit(testing::Test::HasFailure());
}

// How it ends.
enum class End { exit, kill };
void end(TestChild& child, End how) {
  if (how == End::exit) {
    child.say(0);
    EXPECT_EQ(child.join(), 0);
  } else {
    kill(child.pid(), SIGKILL);
    EXPECT_EQ(child.join(), -SIGKILL);
  }
}
std::string end_name(const testing::TestParamInfo<End>& info) { return info.param == End::exit ? "Exit" : "Kill"; }

// The child is forked before this process has anything of the library's.
class DeathOfServer : public testing::TestWithParam<End> {
 protected:
  void expect(ServerStep last, const std::vector<std::string>& client_hears) {
    TestChild server([last](TestChild::Talk& talk) { return serve(talk, last); });
    server.say(0);
    ASSERT_EQ(server.hear(), 1u);
    const EventChannel channel;
    CmIdHandle id = asking(channel);
    // But for the last, which is of the death. To take an answer is what completes a connection.
    for (size_t i = 0; i + 1 < client_hears.size(); ++i) ASSERT_EQ(channel.take_name(), client_hears[i]);
    ASSERT_EQ(server.hear(), 2u);
    end(server, GetParam());
    EXPECT_EQ(channel.take_name(), client_hears.back());
    id.reset();
    // Its port is free at once, and nothing is stale.
    const EventChannel next_channel;
    const CmIdHandle next = listening(next_channel);
    const CmIdHandle again = asking(channel);
    const CmIdHandle passive = requested(next_channel);
    accept(passive.get());
    EXPECT_EQ(channel.take_name(), "ESTABLISHED");
    EXPECT_EQ(next_channel.take_name(), "ESTABLISHED");
  }
};
INSTANTIATE_TEST_SUITE_P(By, DeathOfServer, testing::Values(End::exit, End::kill), end_name);

TEST_P(DeathOfServer, WithTheRequestUntakenIsARejection) { expect(ServerStep::listens, {"REJECTED 28"}); }
TEST_P(DeathOfServer, WithTheRequestTakenIsARejection) { expect(ServerStep::has_taken, {"REJECTED 28"}); }
TEST_P(DeathOfServer, WhileConnectedIsADisconnection) {
  expect(ServerStep::established, {"ESTABLISHED", "DISCONNECTED"});
}

class DeathOfClient : public testing::TestWithParam<End> {
 protected:
  // To accept a dead client. This process may hear of the death before the agent does: then the offer is rejected.
  static void expect_in_vain(const EventChannel& channel, rdma_cm_id* id) {
    rdma_conn_param parameters = parameters_of_foreign_queue_pair();
    const int error = error_of(rdma_accept(id, &parameters));
    if (error == 0) {
      EXPECT_EQ(channel.take_name(), "REJECTED 28");
    } else {
      EXPECT_EQ(error, EINVAL);
    }
  }
  // Connects another client, in this process, to the listener that has seen the first one die.
  static void expect_service(const EventChannel& channel) {
    const EventChannel client_channel;
    const CmIdHandle active = asking(client_channel);
    const CmIdHandle passive = requested(channel);
    accept(passive.get());
    EXPECT_EQ(client_channel.take_name(), "ESTABLISHED");
    EXPECT_EQ(channel.take_name(), "ESTABLISHED");
    expect_message(active.get(), passive.get(), "served");
  }
};
INSTANTIATE_TEST_SUITE_P(By, DeathOfClient, testing::Values(End::exit, End::kill), end_name);

TEST_P(DeathOfClient, BeforeItIsAcceptedMakesThatImpossible) {
  TestChild client([](TestChild::Talk& talk) { return ask(talk, ClientStep::asked); });
  const EventChannel channel;
  const CmIdHandle listener = listening(channel);
  client.say(0);
  ASSERT_EQ(client.hear(), 2u);
  CmIdHandle passive = requested(channel);
  end(client, GetParam());
  expect_in_vain(channel, passive.get());
  passive.reset();
  expect_service(channel);
}

TEST_P(DeathOfClient, BeforeTheRequestIsTakenLeavesARequestThatCannotBeAccepted) {
  TestChild client([](TestChild::Talk& talk) { return ask(talk, ClientStep::asked); });
  const EventChannel channel;
  const CmIdHandle listener = listening(channel);
  client.say(0);
  ASSERT_EQ(client.hear(), 2u);
  end(client, GetParam());
  const CmIdHandle passive = requested(channel);
  expect_in_vain(channel, passive.get());
  expect_service(channel);
}

TEST_P(DeathOfClient, WhileConnectedIsADisconnectionAndTheQueuePairIsTheProgramsAffair) {
  TestChild client([](TestChild::Talk& talk) { return ask(talk, ClientStep::established); });
  const EventChannel channel;
  const CmIdHandle listener = listening(channel);
  client.say(0);
  CmIdHandle passive = requested(channel);
  accept(passive.get());
  EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  ASSERT_EQ(client.hear(), 2u);
  end(client, GetParam());
  const std::optional<CmEvent> disconnected = channel.take();
  EXPECT_EQ(name(disconnected), "DISCONNECTED");
  EXPECT_EQ(disconnected->id, passive.get());
  EXPECT_EQ(query(passive->qp).qp_state, IBV_QPS_RTS);
  EXPECT_EQ(error_of(rdma_disconnect(passive.get())), 0);
  EXPECT_EQ(channel.take_name({}), "nothing");
  passive.reset();
  expect_service(channel);
}

// A client that sends as fast as it can.
int send_for_ever(TestChild::Talk& talk) {
  talk.hear();
  const EventChannel channel;
  const CmIdHandle id = asking(channel);
  EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  static char buffer[4096];
  const MrHandle region(rdma_reg_msgs(id.get(), buffer, sizeof buffer));
  ibv_wc completion{};
  do {
    rdma_post_send(id.get(), nullptr, buffer, sizeof buffer, region.get(), IBV_SEND_SIGNALED);
  } while (rdma_get_send_comp(id.get(), &completion) == 1 && completion.status == IBV_WC_SUCCESS);
  return 1;
}

TEST(DeathAmidTransfers, IsADisconnection) {
  TestChild client(send_for_ever);
  const EventChannel channel;
  const CmIdHandle listener = listening(channel);
  client.say(0);
  const CmIdHandle passive = requested(channel);
  create_queue_pair(passive.get());
  static char buffer[4096];
  const MrHandle region(rdma_reg_msgs(passive.get(), buffer, sizeof buffer));
  const auto post = [&] { return rdma_post_recv(passive.get(), nullptr, buffer, sizeof buffer, region.get()); };
  for (int i = 0; i < 8; ++i) ASSERT_EQ(post(), 0);
  rdma_conn_param parameters = plain_parameters();
  ASSERT_EQ(error_of(rdma_accept(passive.get(), &parameters)), 0);
  EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  ibv_wc completion{};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(rdma_get_recv_comp(passive.get(), &completion), 1);
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_EQ(post(), 0);
  }
  end(client, End::kill);
  EXPECT_EQ(channel.take_name(), "DISCONNECTED");
}

// A server with many clients that die and come again at once from the same address.
TEST(DeathAfterDeath, IsNeverStaleAndHarmsNobodyElse) {
  constexpr int kTimes = 20;
  std::vector<std::unique_ptr<TestChild>> clients;
  for (int i = 0; i < kTimes; ++i)
    clients.push_back(
        std::make_unique<TestChild>([](TestChild::Talk& talk) { return ask(talk, ClientStep::established); }));
  const EventChannel channel, third_channel;
  const CmIdHandle listener = listening(channel);
  const CmIdHandle third = asking(third_channel), third_peer = requested(channel);
  accept(third_peer.get());
  EXPECT_EQ(third_channel.take_name(), "ESTABLISHED");
  EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  std::vector<CmIdHandle> kept;
  for (const auto& client : clients) {
    client->say(0);
    CmIdHandle passive = requested(channel);
    ASSERT_TRUE(passive);
    accept(passive.get());
    ASSERT_EQ(channel.take_name(), "ESTABLISHED");
    ASSERT_EQ(client->hear(), 2u);
    end(*client, End::kill);
    const std::optional<CmEvent> disconnected = channel.take();
    ASSERT_EQ(name(disconnected), "DISCONNECTED");
    EXPECT_EQ(disconnected->id, passive.get());
    // The server lets go of every other one only.
    if (kept.size() < kTimes / 2) kept.push_back(std::move(passive));
  }
  expect_message(third.get(), third_peer.get(), "not disturbed");
  expect_message(third_peer.get(), third.get(), "nor the other way");
  EXPECT_EQ(third_channel.take_name({}), "nothing");
}

}  // namespace
}  // namespace verbatim::conformance
