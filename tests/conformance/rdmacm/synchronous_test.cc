// The synchronous calls between two programs: rdma_create_ep(3), rdma_get_request(3), an identifier without a channel
// whose calls return when what they began is over, and the calls of rdma_verbs.h.
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>

#include "conformance/rdmacm/support/endpoint.h"
#include "conformance/rdmacm/support/event_channel.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

using local::TestChild;

constexpr uint16_t kPort = 7174;
constexpr const char* kHost = "127.0.0.1";
const SocketAddress kAddress = SocketAddress::parse(kHost, kPort);

EndpointHandle next_request(rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(error_of(rdma_get_request(listener, &id)), 0);
  return EndpointHandle(id);
}

// Memory for messages, filled with a pattern.
struct Buffer {
  explicit Buffer(rdma_cm_id* id, uint8_t first = 0) : region(rdma_reg_msgs(id, bytes.data(), bytes.size())) {
    EXPECT_TRUE(region) << strerror(errno);
    std::iota(bytes.begin(), bytes.end(), first);
  }
  std::array<uint8_t, 4096> bytes;
  const MrHandle region;
};

void expect_success(int count, const ibv_wc& completion) {
  ASSERT_EQ(count, 1) << strerror(errno);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
}
void expect_received(rdma_cm_id* id, const Buffer& into, uint8_t first) {
  ibv_wc completion{};
  expect_success(rdma_get_recv_comp(id, &completion), completion);
  EXPECT_EQ(completion.wr_id, reinterpret_cast<uint64_t>(&into));
  EXPECT_EQ(completion.byte_len, into.bytes.size());
  EXPECT_EQ(into.bytes[0], first);
  EXPECT_EQ(into.bytes[4095], static_cast<uint8_t>(first + 4095));
}
void post_receive(rdma_cm_id* id, Buffer& buffer) {
  ASSERT_EQ(rdma_post_recv(id, &buffer, buffer.bytes.data(), buffer.bytes.size(), buffer.region.get()), 0);
}
void send(rdma_cm_id* id, Buffer& buffer) {
  ASSERT_EQ(
      rdma_post_send(id, &buffer, buffer.bytes.data(), buffer.bytes.size(), buffer.region.get(), IBV_SEND_SIGNALED), 0);
  ibv_wc completion{};
  expect_success(rdma_get_send_comp(id, &completion), completion);
  EXPECT_EQ(completion.wr_id, reinterpret_cast<uint64_t>(&buffer));
}

// A server in a child: when told to, it listens, says so, takes a request and goes on with `serve(talk, id)`.
template <class Serve>
auto server(Serve serve) {
  return [serve](TestChild::Talk& talk) {
    talk.hear();
    const EndpointHandle listener = listening_endpoint(kHost, kPort);
    talk.say(1);
    const EndpointHandle id = next_request(listener.get());
    serve(talk, id.get());
    return testing::Test::HasFailure();
  };
}
void start(TestChild& child) {
  child.say(0);
  ASSERT_EQ(child.hear(), 1u);
}

TEST(SynchronousCalls, ConnectTalkAndPart) {
  TestChild child(server([](TestChild::Talk&, rdma_cm_id* id) {
    Buffer in(id), out(id, 2);
    post_receive(id, in);
    ASSERT_EQ(error_of(rdma_accept(id, nullptr)), 0);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    expect_received(id, in, 1);
    send(id, out);
    EXPECT_EQ(error_of(rdma_disconnect(id)), 0);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
  }));
  start(child);
  const EndpointHandle id = active_endpoint(kHost, kPort);
  ASSERT_NE(id->qp, nullptr);
  Buffer in(id.get()), out(id.get(), 1);
  post_receive(id.get(), in);
  ASSERT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(id->qp->state, IBV_QPS_RTS);
  send(id.get(), out);
  expect_received(id.get(), in, 2);
  EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(child.join(), 0);
}

// The server is asleep in a read of its pipe while its memory is written and read.
TEST(SynchronousCalls, WriteAndReadAPeersMemory) {
  TestChild child(server([](TestChild::Talk& talk, rdma_cm_id* id) {
    std::array<uint8_t, 4096> writable{}, readable{};
    std::iota(readable.begin(), readable.end(), uint8_t{7});
    const MrHandle written(rdma_reg_write(id, writable.data(), writable.size()));
    const MrHandle read(rdma_reg_read(id, readable.data(), readable.size()));
    ASSERT_TRUE(written && read);
    ASSERT_EQ(error_of(rdma_accept(id, nullptr)), 0);
    for (const ibv_mr* region : {written.get(), read.get()}) {
      talk.say(reinterpret_cast<uint64_t>(region->addr));
      talk.say(region->rkey);
    }
    talk.hear();
    EXPECT_EQ(writable[0], 1);
    EXPECT_EQ(writable[4095], static_cast<uint8_t>(1 + 4095));
    EXPECT_EQ(writable[1001], static_cast<uint8_t>(7 + 101)) << "by the vectored one";
    EXPECT_EQ(writable[1002], static_cast<uint8_t>(7 + 200));
    EXPECT_EQ(error_of(rdma_disconnect(id)), 0);
  }));
  start(child);
  const EndpointHandle id = active_endpoint(kHost, kPort);
  Buffer buffer(id.get(), 1);
  ASSERT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
  const uint64_t writable = child.hear();
  const auto writable_key = static_cast<uint32_t>(child.hear());
  const uint64_t readable = child.hear();
  const auto readable_key = static_cast<uint32_t>(child.hear());
  ibv_wc completion{};
  ASSERT_EQ(rdma_post_write(id.get(), &buffer, buffer.bytes.data(), buffer.bytes.size(), buffer.region.get(),
                            IBV_SEND_SIGNALED, writable, writable_key),
            0);
  expect_success(rdma_get_send_comp(id.get(), &completion), completion);
  EXPECT_EQ(completion.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(completion.wr_id, reinterpret_cast<uint64_t>(&buffer));
  ASSERT_EQ(rdma_post_read(id.get(), nullptr, buffer.bytes.data(), buffer.bytes.size(), buffer.region.get(),
                           IBV_SEND_SIGNALED, readable, readable_key),
            0);
  expect_success(rdma_get_send_comp(id.get(), &completion), completion);
  EXPECT_EQ(completion.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(buffer.bytes[0], 7);
  EXPECT_EQ(buffer.bytes[4095], static_cast<uint8_t>(7 + 4095));
  // Of two pieces each: they begin with what has just been read.
  ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(&buffer.bytes[100]), 2, buffer.region->lkey},
                       {reinterpret_cast<uint64_t>(&buffer.bytes[200]), 6, buffer.region->lkey}};
  ASSERT_EQ(rdma_post_writev(id.get(), nullptr, pieces, 2, IBV_SEND_SIGNALED, writable + 1000, writable_key), 0);
  expect_success(rdma_get_send_comp(id.get(), &completion), completion);
  ASSERT_EQ(rdma_post_readv(id.get(), nullptr, pieces, 2, IBV_SEND_SIGNALED, readable, readable_key), 0);
  expect_success(rdma_get_send_comp(id.get(), &completion), completion);
  EXPECT_EQ(buffer.bytes[100], 7);
  EXPECT_EQ(buffer.bytes[200], 9);
  child.say(0);
  EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
  EXPECT_EQ(child.join(), 0);
}

TEST(SynchronousCalls, GatherAndScatter) {
  TestChild child(server([](TestChild::Talk& talk, rdma_cm_id* id) {
    Buffer in(id);
    ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(&in.bytes[1000]), 1, in.region->lkey},
                         {reinterpret_cast<uint64_t>(&in.bytes[2000]), 7, in.region->lkey}};
    ASSERT_EQ(rdma_post_recvv(id, &in, pieces, 2), 0);
    ASSERT_EQ(error_of(rdma_accept(id, nullptr)), 0);
    ibv_wc completion{};
    expect_success(rdma_get_recv_comp(id, &completion), completion);
    EXPECT_EQ(completion.byte_len, 8u);
    EXPECT_EQ(in.bytes[1000], 10);
    EXPECT_EQ(in.bytes[2000], 11);
    EXPECT_EQ(in.bytes[2001], 30);
    talk.hear();
    EXPECT_EQ(error_of(rdma_disconnect(id)), 0);
  }));
  start(child);
  const EndpointHandle id = active_endpoint(kHost, kPort);
  Buffer out(id.get());
  ASSERT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
  ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(&out.bytes[10]), 2, out.region->lkey},
                       {reinterpret_cast<uint64_t>(&out.bytes[30]), 6, out.region->lkey}};
  ASSERT_EQ(rdma_post_sendv(id.get(), &out, pieces, 2, IBV_SEND_SIGNALED), 0);
  ibv_wc completion{};
  expect_success(rdma_get_send_comp(id.get(), &completion), completion);
  child.say(0);
  EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
  EXPECT_EQ(child.join(), 0);
}

TEST(SynchronousCalls, ShowARequestUntilItIsAnswered) {
  TestChild child(server([](TestChild::Talk&, rdma_cm_id* id) {
    ASSERT_NE(id->event, nullptr);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(id->event->id, id);
    EXPECT_NE(id->event->listen_id, nullptr);
    EXPECT_NE(id->channel, id->event->listen_id->channel) << "one of its own";
    EXPECT_EQ(id->event->param.conn.private_data_len, 56);
    EXPECT_EQ(memcmp(id->event->param.conn.private_data, "question", 9), 0);
    EXPECT_NE(id->qp, nullptr) << "as the listener was made with attributes";
    EXPECT_EQ(error_of(rdma_reject(id, "answer", 7)), 0);
  }));
  start(child);
  const EndpointHandle id = active_endpoint(kHost, kPort);
  rdma_conn_param parameters = plain_parameters();
  parameters.private_data = "question";
  parameters.private_data_len = 9;
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), ECONNREFUSED);
  ASSERT_NE(id->event, nullptr);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(id->event->status, 28);
  EXPECT_EQ(memcmp(id->event->param.conn.private_data, "answer", 7), 0);
  EXPECT_EQ(child.join(), 0);
}

TEST(SynchronousCalls, ServeManyOneAfterTheOther) {
  constexpr int kMany = 20;
  TestChild child([](TestChild::Talk& talk) {
    talk.hear();
    const EndpointHandle listener = listening_endpoint(kHost, kPort);
    talk.say(1);
    for (int i = 0; i < kMany; ++i) {
      const EndpointHandle id = next_request(listener.get());
      Buffer in(id.get());
      post_receive(id.get(), in);
      EXPECT_EQ(error_of(rdma_accept(id.get(), nullptr)), 0);
      expect_received(id.get(), in, static_cast<uint8_t>(i));
      EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
    }
    return testing::Test::HasFailure();
  });
  start(child);
  for (int i = 0; i < kMany; ++i) {
    const EndpointHandle id = active_endpoint(kHost, kPort);
    Buffer out(id.get(), static_cast<uint8_t>(i));
    ASSERT_EQ(error_of(rdma_connect(id.get(), nullptr)), 0);
    send(id.get(), out);
    EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
  }
  EXPECT_EQ(child.join(), 0);
}

TEST(SynchronousCalls, RegisterMemoryForWhatItIsFor) {
  const CmIdHandle id = create_id(nullptr);
  ASSERT_EQ(bind_to(id.get(), kAddress.with_port(0)), 0);
  std::array<char, 64> bytes{};
  for (ibv_mr* const region :
       {rdma_reg_msgs(id.get(), bytes.data(), bytes.size()), rdma_reg_read(id.get(), bytes.data(), bytes.size()),
        rdma_reg_write(id.get(), bytes.data(), bytes.size())}) {
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->addr, bytes.data());
    EXPECT_EQ(region->pd, id->pd);
    EXPECT_EQ(rdma_dereg_mr(region), 0);
  }
}

// ---- step by step, in one process ----

TEST(SynchronousIdentifier, HasDoneEachStepWhenItsCallReturns) {
  const CmIdHandle id = create_id(nullptr);
  ASSERT_NE(id->channel, nullptr) << "one of its own";
  ASSERT_EQ(resolve_to(id.get(), kAddress), 0);
  ASSERT_NE(id->event, nullptr);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_NE(id->verbs, nullptr);
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), 2000)), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(id->route.num_paths, 1);
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), ECONNREFUSED);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(id->event->status, 8);
}

TEST(SynchronousIdentifier, SaysWhyAStepFailed) {
  const CmIdHandle id = create_id(nullptr);
  EXPECT_EQ(resolve_to(id.get(), SocketAddress::parse(kNobodyIpv4, kPort)), EHOSTUNREACH);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_EQ(resolve_to(id.get(), kAddress), 0) << "it may be tried again";
}

TEST(SynchronousIdentifier, JoinsAGroupWhenItsCallReturns) {
  const CmIdHandle id = create_id(nullptr, RDMA_PS_UDP);
  ASSERT_EQ(bind_to(id.get(), kAddress.with_port(0)), 0);
  const SocketAddress group = SocketAddress::parse("239.1.2.3");
  ASSERT_EQ(error_of(rdma_join_multicast(id.get(), group.get(), nullptr)), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
  // The event is the identifier's until the next call, and is waited for by who leaves: another call first.
  ASSERT_EQ(error_of(rdma_ack_cm_event(id->event)), 0);
  id->event = nullptr;
  EXPECT_EQ(error_of(rdma_leave_multicast(id.get(), group.get())), 0);
}

TEST(SynchronousIdentifier, MovesToAChannelAndBack) {
  const EventChannel channel;
  const CmIdHandle id = create_id(nullptr);
  EXPECT_EQ(error_of(rdma_migrate_id(id.get(), nullptr)), EINVAL) << "it is there already";
  ASSERT_EQ(resolve_to(id.get(), kAddress), 0);
  ASSERT_EQ(error_of(rdma_migrate_id(id.get(), channel.get())), 0);
  EXPECT_EQ(id->channel, channel.get());
  EXPECT_EQ(id->event, nullptr);
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), 2000)), 0);
  EXPECT_EQ(channel.take_name(), "ROUTE_RESOLVED");
  ASSERT_EQ(error_of(rdma_migrate_id(id.get(), nullptr)), 0);
  EXPECT_NE(id->channel, channel.get());
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), ECONNREFUSED);
}

TEST(SynchronousIdentifier, OnAChannelHasNoRequestsToGet) {
  const EventChannel channel;
  const CmIdHandle id = create_id(channel.get());
  ASSERT_EQ(bind_to(id.get(), kAddress), 0);
  ASSERT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
  rdma_cm_id* request = nullptr;
  EXPECT_EQ(error_of(rdma_get_request(id.get(), &request)), EINVAL);
}

TEST(SynchronousEndpoint, OfNoHostIsRefusedWithinItsTime) {
  const AddressInformation information(kNobodyIpv4, kPort, 0);
  rdma_cm_id* id = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of(rdma_create_ep(&id, information.get(), nullptr, nullptr)), EHOSTUNREACH);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
}

TEST(SynchronousEndpoint, WithoutAttributesHasNoQueuePair) {
  const AddressInformation information(kHost, kPort, 0);
  rdma_cm_id* raw = nullptr;
  ASSERT_EQ(error_of(rdma_create_ep(&raw, information.get(), nullptr, nullptr)), 0);
  const EndpointHandle id(raw);
  EXPECT_EQ(id->qp, nullptr);
  EXPECT_EQ(id->route.num_paths, 1) << "its route is resolved";
  EXPECT_EQ(peer_address(id.get()), kAddress);
}

TEST(SynchronousEndpoint, ThatCannotHaveItsQueuePairIsNone) {
  const AddressInformation information(kHost, kPort, 0);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  attributes.cap.max_inline_data = 1 << 30;
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(error_of(rdma_create_ep(&id, information.get(), nullptr, &attributes)), EINVAL);
}

TEST(SynchronousEndpoint, UsesTheDomainOfTheProgram) {
  const EventChannel channel;
  const CmIdHandle any = create_id(channel.get());
  ASSERT_EQ(bind_to(any.get(), kAddress.with_port(0)), 0);
  const PdHandle own(ibv_alloc_pd(any->verbs));
  const AddressInformation information(kHost, kPort, 0);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  rdma_cm_id* raw = nullptr;
  ASSERT_EQ(error_of(rdma_create_ep(&raw, information.get(), own.get(), &attributes)), 0);
  const EndpointHandle id(raw);
  EXPECT_EQ(id->pd, own.get());
  EXPECT_EQ(id->qp->pd, own.get());
}

TEST(SynchronousEndpoint, WhosePortIsTakenIsRefused) {
  const EndpointHandle listener = listening_endpoint(kHost, kPort);
  const AddressInformation information(kHost, kPort, RAI_PASSIVE);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(error_of(rdma_create_ep(&id, information.get(), nullptr, nullptr)), EADDRINUSE);
}

TEST(SynchronousEndpoint, OfDatagramsFindsItsService) {
  std::thread serving([] {
    const AddressInformation information(kHost, kPort, RAI_PASSIVE, RDMA_PS_UDP);
    ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_UD);
    rdma_cm_id* raw = nullptr;
    ASSERT_EQ(error_of(rdma_create_ep(&raw, information.get(), nullptr, &attributes)), 0);
    const EndpointHandle listener(raw);
    ASSERT_EQ(error_of(rdma_listen(listener.get(), 0)), 0);
    const EndpointHandle id = next_request(listener.get());
    EXPECT_EQ(id->qp_type, IBV_QPT_UD);
    EXPECT_EQ(error_of(rdma_accept(id.get(), nullptr)), 0);
  });
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  int error = -1;
  // Until it listens.
  while (error != 0 && std::chrono::steady_clock::now() < deadline) {
    const AddressInformation information(kHost, kPort, 0, RDMA_PS_UDP);
    ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_UD);
    rdma_cm_id* raw = nullptr;
    ASSERT_EQ(error_of(rdma_create_ep(&raw, information.get(), nullptr, &attributes)), 0);
    const EndpointHandle id(raw);
    error = error_of(rdma_connect(id.get(), nullptr));
    if (error == 0) {
      EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
      EXPECT_NE(id->event->param.ud.qp_num, 0u);
    }
  }
  EXPECT_EQ(error, 0);
  serving.join();
}

}  // namespace
}  // namespace verbatim::conformance
