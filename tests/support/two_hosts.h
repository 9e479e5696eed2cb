// Two hosts with a connection manager each, and a network between them that delivers at once. For tests.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "cm/manager.h"

namespace verbatim::cm {

inline Address address(Family family, const std::string& text, uint16_t port) {
  Address result{.family = family, .port = port};
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), result.ip.bytes.data()), 1) << text;
  return result;
}
inline Address ipv4(const std::string& text, uint16_t port = 0) {
  return address(Family::ipv4, "::ffff:" + text, port);
}
inline Address ipv6(const std::string& text, uint16_t port = 0, uint32_t scope_id = 0) {
  Address result = address(Family::ipv6, text, port);
  result.scope_id = scope_id;
  return result;
}

// "REJECTED 28"; a status of 0 is left out.
inline std::string name(const Event& event) {
  static constexpr std::array kNames{"ADDR_RESOLVED",   "ADDR_ERROR",       "ROUTE_RESOLVED", "ROUTE_ERROR",
                                     "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",  "UNREACHABLE",
                                     "REJECTED",        "ESTABLISHED",      "DISCONNECTED",   "DEVICE_REMOVAL",
                                     "MULTICAST_JOIN",  "MULTICAST_ERROR",  "ADDR_CHANGE",    "TIMEWAIT_EXIT"};
  const std::string text = kNames.at(static_cast<size_t>(event.type));
  return event.status == 0 ? text : text + " " + std::to_string(event.status);
}

inline PrivateData bytes(size_t count, uint8_t value = 0x5a) { return PrivateData(std::vector<uint8_t>(count, value)); }

using Names = std::vector<std::string>;

// A program: an owner with one channel, at one of the hosts.
struct Program {
  Manager* manager;
  Owner owner;
  Channel channel;
};

class TwoHosts : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 7174;
  static constexpr uint32_t kEth = 2, kLo = 1;

  TwoHosts() {
    one_.set_addresses({{ipv4("192.0.2.1").ip, kEth, 3, 2},
                        {ipv4("192.0.2.11").ip, kEth, 3, 2},
                        {ipv6("fe80::1").ip, kEth, 3, 2},
                        {ipv4("127.0.0.1").ip, kLo, 5, 2},
                        {ipv6("::1").ip, kLo, 5, 2}});
    two_.set_addresses({{ipv4("192.0.2.2").ip, kEth, 3, 2}, {ipv6("fe80::2").ip, kEth, 3, 2}});
  }

  static Configuration configuration(uint64_t number) { return {.ca_guid = 0x1000 + number, .seed = number}; }

  Program program(Manager& manager) {
    ++last_program_;
    return {&manager, {last_program_}, {last_program_ + 1000}};
  }

  // --- what programs do ---
  IdHandle create(const Program& program, PortSpace space = PortSpace::tcp, QpType type = QpType::rc) {
    return create_on(*program.manager, program.owner, program.channel, space, type);
  }
  IdHandle create_on(Manager& manager, Owner owner, Channel channel, PortSpace space = PortSpace::tcp,
                     QpType type = QpType::rc) {
    const IdHandle id{++last_handle_};
    EXPECT_EQ(manager.create(owner, id, channel, space, type, ++last_context_).error, 0);
    return id;
  }
  IdHandle listening(const Program& program, const Address& source, int backlog = 0, PortSpace space = PortSpace::tcp,
                     QpType type = QpType::rc) {
    const IdHandle id = create(program, space, type);
    EXPECT_EQ(program.manager->bind(program.owner, id, source, false).error, 0);
    EXPECT_EQ(program.manager->listen(now_, program.owner, id, backlog).error, 0);
    return id;
  }
  Status resolve(const Program& program, IdHandle id, const Address& destination, const Address& source = {}) {
    const Status status = program.manager->resolve_address(now_, program.owner, id,
                                                           {source, destination, Duration::milliseconds(2000), false});
    settle();
    return status;
  }
  // An identifier that may connect; its events are taken.
  IdHandle resolved(const Program& program, const Address& destination, PortSpace space = PortSpace::tcp,
                    QpType type = QpType::rc) {
    const IdHandle id = create(program, space, type);
    EXPECT_EQ(resolve(program, id, destination).error, 0);
    EXPECT_EQ(program.manager->resolve_route(program.owner, id).error, 0);
    EXPECT_EQ(take(program), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
    return id;
  }
  Status connect(const Program& program, IdHandle id, const Offer& offer = offered(0x111)) {
    const Status status = program.manager->connect(now_, program.owner, id, offer);
    settle();
    return status;
  }
  Status accept(const Program& program, IdHandle id, const Offer& offer = offered(0x222)) {
    const Status status = program.manager->accept(now_, program.owner, id, offer);
    settle();
    return status;
  }
  Status establish(const Program& program, IdHandle id) {
    const Status status = program.manager->establish(now_, program.owner, id);
    settle();
    return status;
  }
  Status reject(const Program& program, IdHandle id, const PrivateData& data = {},
                wire::RejectReason reason = wire::RejectReason::consumer_reject) {
    const Status status = program.manager->reject(now_, program.owner, id, reason, data);
    settle();
    return status;
  }
  Status disconnect(const Program& program, IdHandle id) {
    const Status status = program.manager->disconnect(now_, program.owner, id);
    settle();
    return status;
  }
  void destroy(const Program& program, IdHandle id) {
    EXPECT_EQ(program.manager->destroy(now_, program.owner, id).error, 0);
    settle();
  }
  static Offer offered(uint32_t qpn) {
    return {
        .parameters = {
            .qpn = Qpn{qpn}, .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7}};
  }

  // As programs do, which know of a request when they have its event.
  static std::optional<Event> next(const Program& program) {
    const std::optional<Event> event = program.manager->take_event(program.channel);
    if (event && event->type == EventType::connect_request) {
      EXPECT_EQ(program.manager->take_request(program.owner, event->id).error, 0);
    }
    return event;
  }
  Event take_one(const Program& program) {
    const std::optional<Event> event = next(program);
    EXPECT_TRUE(event.has_value()) << "no event";
    return event.value_or(Event{});
  }
  Names take(const Program& program) {
    Names names;
    while (const auto event = next(program)) names.push_back(name(*event));
    return names;
  }
  IdView view(const Program& program, IdHandle id) { return program.manager->query(program.owner, id).value(); }

  // --- the network ---
  // Delivers everything, and what comes of it, unless it is lost.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Manager* manager : {&one_, &two_}) {
        while (const auto question = manager->poll_question()) manager->on_answer(question->id, route(*question));
        while (const auto mad = manager->poll_mad()) {
          moved = true;
          deliver(*mad);
        }
      }
    }
  }
  void deliver(const OutgoingMad& mad) {
    const auto message = std::get<wire::CmMessage>(wire::parse_cm(mad.bytes));
    sent_.push_back(text(message).substr(0, text(message).find(' ')));
    if (is_lost_ && is_lost_(message)) return;
    Manager* const receiver = host_of(mad.address.remote);
    if (receiver) last_reason_ = receiver->on_mad(now_, {mad.address.remote, mad.address.local}, mad.bytes);
  }
  Manager* host_of(const Gid& gid) {
    if (gid == ipv4("192.0.2.2").ip || gid == ipv6("fe80::2").ip) return &two_;
    for (const char* own : {"::ffff:192.0.2.1", "::ffff:192.0.2.11", "fe80::1", "::ffff:127.0.0.1", "::1"})
      if (gid == ipv6(own).ip) return &one_;
    return nullptr;
  }
  // 192.0.2.3 is there, but takes no message.
  Result<Route> route(const Question& question) const {
    const bool is_from_one = question.destination.ip == ipv4("192.0.2.2").ip ||
                             question.destination.ip == ipv6("fe80::2").ip ||
                             question.destination.ip == ipv4("192.0.2.3").ip;
    const bool is_from_two = question.destination.ip == ipv4("192.0.2.1").ip;
    if (!is_from_one && !is_from_two) return Status{EHOSTUNREACH};
    const bool ipv6_wanted = question.destination.family == Family::ipv6;
    const Address source = is_from_one ? (ipv6_wanted ? ipv6("fe80::1") : ipv4("192.0.2.1")) : ipv4("192.0.2.2");
    return Route{.source = {source.ip, kEth, 3, 2}};
  }

  Instant next_deadline() const { return std::min(one_.next_deadline(), two_.next_deadline()); }
  // To the next deadline of any host. False: there is none.
  bool step_time() {
    if (next_deadline() == kNever) return false;
    now_ = next_deadline();
    one_.on_deadline(now_);
    two_.on_deadline(now_);
    settle();
    return true;
  }
  void let_all_time_pass() {
    while (step_time()) {
    }
  }
  Names sent() { return std::exchange(sent_, {}); }

  Instant now_{1'000'000'000};
  Manager one_{configuration(1)}, two_{configuration(2)};
  std::function<bool(const wire::CmMessage&)> is_lost_;
  Names sent_;
  Reason last_reason_ = Reason::none;
  uint64_t last_program_ = 0;
  uint64_t last_handle_ = 0;
  uint64_t last_context_ = 0;
};

template <class Message>
bool is(const wire::CmMessage& message) {
  return std::holds_alternative<Message>(message.body);
}

}  // namespace verbatim::cm
