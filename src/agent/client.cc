#include "agent/client.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/launcher.h"
#include "agent/process.h"
#include "base/log.h"
#include "base/undo.h"

namespace verbatim {

using namespace agent;

namespace {

constexpr uint64_t kWakeTag = 0;
constexpr uint64_t kSocketTag = 1;

std::string sentence_for(int error, const std::string& agent_path) {
  switch (error) {
    case EPERM:
      return "who listens at the agent's address is not this user's agent in this user and PID namespace, or has "
             "capabilities that this process lacks";
    case EACCES:
      return "the agent refused this process: its user, namespaces or capabilities are not the agent's";
    case ETIMEDOUT:
      return "the agent does not answer (is it stopped?)";
    case EMFILE:
      return "this process has no file descriptors left for the agent";
    case EPROTO:
    case EPROTONOSUPPORT:
      return "the agent speaks another protocol than this library";
    default:
      return "the agent " + agent_path + " cannot be started: " + ::strerrordesc_np(error);
  }
}

}  // namespace

AgentClient::AgentClient(AgentIdentity identity, std::string agent_path, MemberDescription description)
    : identity_(std::move(identity)),
      agent_path_(std::move(agent_path)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      description_(std::move(description)) {
  assert(description_.slots.size() <= kMaxSlotsPerProcess);
  attached_ = poll_.valid() && wake_.valid() && poll_.add(wake_.get(), EPOLLIN, kWakeTag).ok();
}

Status AgentClient::start() {
  const std::lock_guard lock(mutex_);
  assert(!description_.slots.empty());
  started_ = true;
  return connect();
}

Status AgentClient::introduce(Slot slot) {
  const std::lock_guard lock(mutex_);
  const auto& own = description_.slots;
  if (std::find(own.begin(), own.end(), slot) != own.end() || is_known(slot)) return Status::success();
  if (const Status room = set_aside(); !room.ok()) return room;
  wishes_.insert(slot);
  if (socket_.valid()) {
    if (!unanswered_.insert(slot).second) return Status::success();
    // Asking once more says what could not be said.
    Undo unsaid([&] { unanswered_.erase(slot); });
    request(Introduce{slot.value});
    unsaid.keep();
  } else if (started_) {
    connect_or_report();  // repeats every wish
  }
  return Status::success();
}

Status AgentClient::introduce_everyone() {
  const std::lock_guard lock(mutex_);
  if (const Status room = set_aside(); !room.ok()) return room;
  const bool is_new = !std::exchange(wishes_everyone_, true);
  if (socket_.valid()) {
    if (!is_new) return Status::success();
    Undo unsaid([&] { wishes_everyone_ = false; });
    request(IntroduceEveryone{});
    unsaid.keep();
  } else if (started_) {
    connect_or_report();  // repeats every wish
  }
  return Status::success();
}

void AgentClient::add_slot(Slot slot) {
  const std::lock_guard lock(mutex_);
  assert(description_.slots.size() < kMaxSlotsPerProcess);
  description_.slots.push_back(slot);
  if (socket_.valid()) request(AddSlot{slot.value});
}

void AgentClient::receive(AgentEvents& events) {
  const std::lock_guard receiving(receiving_);
  while (std::optional<Event> event = next_event()) deliver(std::move(*event), events);
}

bool AgentClient::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

Status AgentClient::connect() {
  if (socket_.valid()) return Status::success();
  refused_ = true;  // until the attempt has succeeded
  if (!attached_) return {EMFILE};
  if (const Status room = set_aside(); !room.ok()) return room;
  Result<FileDescriptor> socket = reach_agent();
  if (!socket.ok()) return socket.status();
  const Status added = poll_.add(socket.value().get(), EPOLLIN, kSocketTag);
  if (!added.ok()) return added;

  outgoing_.clear();
  unanswered_ = wishes_;
  for (const auto& [incarnation, peer] : peers_) {
    outgoing_.push(encode(ToAgent(KnownPeer{incarnation.value, peer.start_time, peer.pid})));
  }
  for (Slot slot : wishes_) outgoing_.push(encode(ToAgent(Introduce{slot.value})));
  if (wishes_everyone_) outgoing_.push(encode(ToAgent(IntroduceEveryone{})));
  socket_ = socket.take();
  refused_ = false;
  flush();
  return Status::success();
}

// An agent that is killed between its WELCOME and our HELLO costs one attempt.
Result<FileDescriptor> AgentClient::reach_agent() const {
  constexpr int kAttempts = 5;
  Status greeted{EPIPE};
  for (int attempt = 0; attempt < kAttempts && (greeted.error == EPIPE || greeted.error == ECONNRESET); ++attempt) {
    Result<FileDescriptor> socket = connect_or_start(identity_, agent_path_);
    if (!socket.ok()) return socket;
    greeted = greet(socket.value().get());
    if (greeted.ok()) return socket;
  }
  return greeted;
}

Status AgentClient::greet(int socket) const {
  const Result<ProcessFacts> facts = read_own_facts();
  if (!facts.ok()) return facts.status();
  Hello hello{.incarnation = description_.incarnation.value,
              .start_time = facts.value().start_time,
              .segment_size = description_.segment_size,
              .slots = SlotList::of(description_.slots)};
  const std::string name = read_own_name();
  std::copy_n(name.begin(), std::min(name.size(), hello.comm.size()), hello.comm.begin());
  const std::array<int, 2> descriptors{description_.segment_fd, description_.doorbell_fd};
  return send_packet(socket, encode(ToAgent(hello)), descriptors);
}

void AgentClient::connect_or_report() {
  const Status connected = connect();
  if (!connected.ok()) report(sentence_for(connected.error, agent_path_));
}

void AgentClient::disconnect() {
  socket_.reset();
  outgoing_.clear();  // all of it is said again at the next agent
}

// To the agent, who hangs up is dead, and our peers will not wait for us any more: so they must be dead for us too.
void AgentClient::hang_up(int error) {
  disconnect();
  for (const auto& [incarnation, peer] : peers_) ready_.push_back(DeadEvent{incarnation});
  peers_.clear();
  report(sentence_for(error, agent_path_));
}

void AgentClient::report(std::string why) {
  refused_ = true;
  ready_.push_back(RefusedEvent{std::move(why)});
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

std::optional<AgentClient::Event> AgentClient::next_event() {
  const std::lock_guard lock(mutex_);
  fill_ready();
  if (ready_.empty()) return {};
  Event event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

Status AgentClient::set_aside() {
  while (set_aside_.size() < kMaxDescriptors) {
    FileDescriptor one(::fcntl(wake_.get(), F_DUPFD_CLOEXEC, 0));
    if (!one.valid()) return {errno};
    set_aside_.push_back(std::move(one));
  }
  return Status::success();
}

Result<Packet> AgentClient::next_packet() {
  // Mostly there is none, and then nothing is given up.
  char byte;
  if (::recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) return Status{EAGAIN};
  set_aside_.clear();
  Result<Packet> packet = receive_packet(socket_.get());
  [[maybe_unused]] const Status for_the_next = set_aside();
  return packet;
}

// Reads until there is something to deliver, or nothing left to read.
void AgentClient::fill_ready() {
  uint64_t count;
  [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &count, sizeof count);
  if (socket_.valid()) flush();
  while (ready_.empty() && socket_.valid()) {
    Result<Packet> packet = next_packet();
    if (packet.error() == EAGAIN) return;
    if (packet.ok()) {
      handle(packet.take());
    } else if (packet.error() == EMFILE || packet.error() == EPROTO) {
      hang_up(packet.error());  // a lost introduction would let a peer use our memory unknown to us
    } else {
      log(LogLevel::info, "the agent is gone, going to the next one");
      disconnect();
      connect_or_report();
    }
  }
}

void AgentClient::handle(Packet packet) {
  const Result<ToMember> message = decode_to_member(packet.frame.view(), packet.descriptors.size());
  if (!message.ok() || std::holds_alternative<Welcome>(message.value())) {
    hang_up(EPROTO);
  } else if (const Peer* peer = std::get_if<Peer>(&message.value())) {
    on_message(*peer, packet.descriptors);
  } else if (const PeerSlot* peer_slot = std::get_if<PeerSlot>(&message.value())) {
    on_message(*peer_slot);
  } else if (const Dead* dead = std::get_if<Dead>(&message.value())) {
    on_message(*dead);
  } else if (const Unowned* unowned = std::get_if<Unowned>(&message.value())) {
    on_message(*unowned);
  } else if (std::holds_alternative<Everyone>(message.value())) {
    ready_.push_back(EveryoneEvent{});
  } else {
    on_message(std::get<Refused>(message.value()));
  }
}

// A new agent may introduce whom we know: only what is new is an event.
void AgentClient::on_message(const Peer& message, std::vector<FileDescriptor>& descriptors) {
  const Incarnation incarnation{message.incarnation};
  const std::vector<Slot> slots = message.slots.list();
  const std::vector<Slot> usable = message.knows_us ? slots : std::vector<Slot>{};
  const auto [entry, is_new] = peers_.try_emplace(incarnation);
  KnownProcess& peer = entry->second;
  if (!is_new) {
    for (Slot slot : usable) learn_slot(incarnation, peer, slot);
    return;
  }
  peer = {static_cast<pid_t>(message.pid), message.start_time, {usable.begin(), usable.end()}};
  for (Slot slot : usable) fulfil(slot);
  ready_.push_back(PeerProcess{incarnation, peer.pid, slots, message.knows_us != 0, std::move(descriptors[0]),
                               static_cast<size_t>(message.segment_size), std::move(descriptors[1])});
}

void AgentClient::on_message(const PeerSlot& message) {
  const Incarnation incarnation{message.incarnation};
  const auto found = peers_.find(incarnation);
  if (found != peers_.end()) learn_slot(incarnation, found->second, {static_cast<uint16_t>(message.slot)});
}

void AgentClient::on_message(const Dead& message) {
  const Incarnation incarnation{message.incarnation};
  if (peers_.erase(incarnation)) ready_.push_back(DeadEvent{incarnation});
}

void AgentClient::on_message(const Unowned& message) {
  const Slot slot{static_cast<uint16_t>(message.slot)};
  if (unanswered_.erase(slot)) ready_.push_back(UnownedEvent{slot});
}

void AgentClient::on_message(const Refused& message) {
  disconnect();
  report("the agent refused this process: " + std::string(describe(Refusal{message.reason})));
}

void AgentClient::fulfil(Slot wish) {
  wishes_.erase(wish);
  unanswered_.erase(wish);
}

void AgentClient::learn_slot(Incarnation incarnation, KnownProcess& peer, Slot slot) {
  fulfil(slot);
  if (peer.slots.insert(slot).second) ready_.push_back(SlotEvent{incarnation, slot});
}

void AgentClient::request(const ToAgent& message) {
  outgoing_.push(encode(message));
  flush();
}

// An agent that is gone is noticed when reading.
void AgentClient::flush() {
  const bool was_waiting = !outgoing_.empty();
  [[maybe_unused]] const Status sent = outgoing_.flush(socket_.get());
  if (!was_waiting) return;
  const uint32_t events = outgoing_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  [[maybe_unused]] const Status changed = poll_.modify(socket_.get(), events, kSocketTag);
}

bool AgentClient::is_known(Slot slot) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& entry) { return entry.second.slots.contains(slot); });
}

void AgentClient::deliver(Event event, AgentEvents& events) {
  if (PeerProcess* peer = std::get_if<PeerProcess>(&event)) {
    events.on_peer(std::move(*peer));
  } else if (const SlotEvent* slot = std::get_if<SlotEvent>(&event)) {
    events.on_peer_slot(slot->peer, slot->slot);
  } else if (const DeadEvent* dead = std::get_if<DeadEvent>(&event)) {
    events.on_peer_dead(dead->peer);
  } else if (const UnownedEvent* unowned = std::get_if<UnownedEvent>(&event)) {
    events.on_unowned(unowned->slot);
  } else if (std::holds_alternative<EveryoneEvent>(event)) {
    events.on_everyone();
  } else {
    events.on_refused(std::get<RefusedEvent>(event).why);
  }
}

}  // namespace verbatim
