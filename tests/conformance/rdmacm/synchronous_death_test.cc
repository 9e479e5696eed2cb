// The other program of a synchronous endpoint parts or dies, at whatever step: the call that waits returns, within its
// time. For such an identifier the queue pair goes to ERR then, which is Verbatim's own (verbatim_cm(7)): nobody else
// could read the event.
#include <rdma/rdma_verbs.h>

#include <array>
#include <csignal>
#include <thread>

#include "conformance/rdmacm/support/endpoint.h"
#include "conformance/rdmacm/support/event_channel.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

using local::TestChild;

constexpr uint16_t kPort = 7174;
constexpr const char* kHost = "127.0.0.1";

EndpointHandle next_request(rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(error_of(rdma_get_request(listener, &id)), 0);
  return EndpointHandle(id);
}

enum class Parting { disconnect, destroy, exit, kill };
std::string parting_name(const testing::TestParamInfo<Parting>& info) {
  constexpr const char* kNames[] = {"Disconnect", "Destroy", "Exit", "Kill"};
  return kNames[static_cast<int>(info.param)];
}
void part(Parting how, EndpointHandle id) {
  switch (how) {
    case Parting::disconnect:
      EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
      return;
    case Parting::destroy:
      id.reset();
      return;
    case Parting::exit:
      _exit(testing::Test::HasFailure());
    case Parting::kill:
      kill(getpid(), SIGKILL);
  }
}
void expect_ended(TestChild& child, Parting how) { EXPECT_EQ(child.join(), how == Parting::kill ? -SIGKILL : 0); }

struct Memory64 {
  explicit Memory64(rdma_cm_id* id) : region(rdma_reg_msgs(id, bytes.data(), bytes.size())) {}
  std::array<char, 64> bytes{};
  const MrHandle region;
};
int post_receive(rdma_cm_id* id, Memory64& memory) {
  return rdma_post_recv(id, nullptr, memory.bytes.data(), memory.bytes.size(), memory.region.get());
}
int post_send(rdma_cm_id* id, Memory64& memory) {
  return rdma_post_send(id, nullptr, memory.bytes.data(), memory.bytes.size(), memory.region.get(), IBV_SEND_SIGNALED);
}
void expect_failure(int count, const ibv_wc& completion) {
  ASSERT_EQ(count, 1) << strerror(errno);
  EXPECT_NE(completion.status, IBV_WC_SUCCESS);
}

// ---- connected ----

class PartedFrom : public testing::TestWithParam<Parting> {
 protected:
  // The peer is the client: it parts when it is told to, or, having been told so before, as soon as it is connected.
  PartedFrom()
      : client_([how = GetParam()](TestChild::Talk& talk) {
          talk.hear();
          EndpointHandle id = active_endpoint(kHost, kPort);
          EXPECT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
          talk.hear();
          part(how, std::move(id));
          return static_cast<int>(testing::Test::HasFailure());
        }),
        listener_(listening_endpoint(kHost, kPort)) {
    client_.say(0);
    id_ = next_request(listener_.get());
    memory_.emplace(id_.get());
  }
  void accept() { ASSERT_EQ(error_of(rdma_accept(id_.get(), nullptr)), 0); }
  void tell_client_to_part() { client_.say(0); }
  void TearDown() override {
    memory_.reset();
    id_.reset();  // what the peer's rdma_disconnect() waits for, if nothing else has answered it
    expect_ended(client_, GetParam());
  }

  TestChild client_;
  EndpointHandle listener_, id_;
  std::optional<Memory64> memory_;
};
INSTANTIATE_TEST_SUITE_P(By, PartedFrom,
                         testing::Values(Parting::disconnect, Parting::destroy, Parting::exit, Parting::kill),
                         parting_name);

TEST_P(PartedFrom, AReceiveThatIsWaitedForFails) {
  ASSERT_EQ(post_receive(id_.get(), *memory_), 0);
  accept();
  tell_client_to_part();
  ibv_wc completion{};
  expect_failure(rdma_get_recv_comp(id_.get(), &completion), completion);
}

TEST_P(PartedFrom, ASendThatNobodyTakesFails) {
  accept();
  // The client has posted no receive, and is waited for without end (rnr_retry_count 7).
  ASSERT_EQ(post_send(id_.get(), *memory_), 0);
  tell_client_to_part();
  ibv_wc completion{};
  expect_failure(rdma_get_send_comp(id_.get(), &completion), completion);
}

TEST_P(PartedFrom, WhatIsPostedAfterwardsFails) {
  accept();
  tell_client_to_part();
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  while (query(id_->qp).qp_state != IBV_QPS_ERR && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(query(id_->qp).qp_state, IBV_QPS_ERR);
  ibv_wc completion{};
  ASSERT_EQ(post_receive(id_.get(), *memory_), 0);
  expect_failure(rdma_get_recv_comp(id_.get(), &completion), completion);
  ASSERT_EQ(post_send(id_.get(), *memory_), 0);
  expect_failure(rdma_get_send_comp(id_.get(), &completion), completion);
}

TEST_P(PartedFrom, ItsOwnPartingReturns) {
  accept();
  tell_client_to_part();
  const int error = error_of(rdma_disconnect(id_.get()));
  EXPECT_EQ(error, 0);
  EXPECT_EQ(id_->event->event, RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(PartedFrom, TheNextClientIsServed) {
  accept();
  tell_client_to_part();
  ASSERT_EQ(post_receive(id_.get(), *memory_), 0);
  ibv_wc completion{};
  expect_failure(rdma_get_recv_comp(id_.get(), &completion), completion);
  std::thread next([] {
    const EndpointHandle id = active_endpoint(kHost, kPort);
    EXPECT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
    Memory64 memory(id.get());
    EXPECT_EQ(post_send(id.get(), memory), 0);
    ibv_wc completion{};
    EXPECT_EQ(rdma_get_send_comp(id.get(), &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    rdma_disconnect(id.get());
  });
  const EndpointHandle other = next_request(listener_.get());
  Memory64 memory(other.get());
  ASSERT_EQ(post_receive(other.get(), memory), 0);
  ASSERT_EQ(error_of(rdma_accept(other.get(), nullptr)), 0);
  EXPECT_EQ(rdma_get_recv_comp(other.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  rdma_disconnect(other.get());
  next.join();
}

// On a channel it is as rdma_cm(7) says, once the program has moved the identifier there.
TEST_P(PartedFrom, OnAChannelTheEventComesAndTheQueuePairIsTheProgramsAffair) {
  const EventChannel channel;
  accept();
  ASSERT_EQ(error_of(rdma_migrate_id(id_.get(), channel.get())), 0);
  ASSERT_EQ(post_receive(id_.get(), *memory_), 0);
  tell_client_to_part();
  EXPECT_EQ(channel.take_name(), "DISCONNECTED");
  EXPECT_EQ(query(id_->qp).qp_state, IBV_QPS_RTS);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(id_->recv_cq, 1, &completion), 0);
  memory_.reset();
  id_.reset();  // before its channel
}

// ---- the server dies while the client connects, or talks ----

enum class ServerStep { listens, has_request, connected };

class DeathOfSynchronousServer : public testing::TestWithParam<Parting> {
 protected:
  static int serve(TestChild::Talk& talk, ServerStep last, Parting how) {
    talk.hear();
    EndpointHandle listener = listening_endpoint(kHost, kPort), id;
    talk.say(1);
    if (last >= ServerStep::has_request) id = next_request(listener.get());
    if (last >= ServerStep::connected) {
      EXPECT_EQ(error_of(rdma_accept(id.get(), nullptr)), 0);
    }
    talk.hear();
    part(how, id ? std::move(id) : std::move(listener));
    return testing::Test::HasFailure();
  }
};
INSTANTIATE_TEST_SUITE_P(By, DeathOfSynchronousServer, testing::Values(Parting::destroy, Parting::exit, Parting::kill),
                         parting_name);

TEST_P(DeathOfSynchronousServer, EndsTheClientsConnect) {
  for (const ServerStep last : {ServerStep::listens, ServerStep::has_request}) {
    TestChild child([last, how = GetParam()](TestChild::Talk& talk) { return serve(talk, last, how); });
    child.say(0);
    ASSERT_EQ(child.hear(), 1u);
    // In a process of its own: this one must have nothing of the library when it forks the next child.
    TestChild client([](TestChild::Talk& talk) {
      talk.hear();
      const EndpointHandle id = active_endpoint(kHost, kPort);
      talk.say(2);
      EXPECT_EQ(error_of(rdma_connect(id.get(), nullptr)), ECONNREFUSED);
      return testing::Test::HasFailure();
    });
    client.say(0);
    ASSERT_EQ(client.hear(), 2u);
    child.say(0);
    EXPECT_EQ(client.join(), 0);
    expect_ended(child, GetParam());
  }
}

TEST_P(DeathOfSynchronousServer, EndsTheClientsWait) {
  TestChild child([how = GetParam()](TestChild::Talk& talk) { return serve(talk, ServerStep::connected, how); });
  child.say(0);
  ASSERT_EQ(child.hear(), 1u);
  const EndpointHandle id = active_endpoint(kHost, kPort);
  Memory64 memory(id.get());
  ASSERT_EQ(post_receive(id.get(), memory), 0);
  ASSERT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
  child.say(0);
  ibv_wc completion{};
  expect_failure(rdma_get_recv_comp(id.get(), &completion), completion);
  expect_ended(child, GetParam());
}

// ---- the client dies while the server accepts ----

class DeathOfSynchronousClient : public testing::TestWithParam<Parting> {};
INSTANTIATE_TEST_SUITE_P(By, DeathOfSynchronousClient, testing::Values(Parting::exit, Parting::kill), parting_name);

TEST_P(DeathOfSynchronousClient, EndsTheServersAccept) {
  TestChild client([how = GetParam()](TestChild::Talk& talk) {
    talk.hear();
    // On a channel, so that it does not wait for the answer.
    const EventChannel channel;
    const CmIdHandle id = resolved(channel, SocketAddress::parse(kHost, kPort));
    rdma_conn_param parameters = parameters_of_foreign_queue_pair();
    EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
    talk.hear();
    part(how, nullptr);
    return 1;
  });
  const EndpointHandle listener = listening_endpoint(kHost, kPort);
  client.say(0);
  const EndpointHandle id = next_request(listener.get());
  client.say(0);
  const int error = error_of(rdma_accept(id.get(), nullptr));
  EXPECT_TRUE(error == ECONNREFUSED || error == EINVAL) << error;
  EXPECT_EQ(query(id->qp).qp_state, IBV_QPS_ERR);
  expect_ended(client, GetParam());
}

}  // namespace
}  // namespace verbatim::conformance
