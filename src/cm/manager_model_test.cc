// Random programs on two hosts, with a network between them that loses, delays, reorders and doubles messages, in
// virtual time. Whatever they do, each identifier sees a sequence of events that the table below allows, nobody waits
// for ever, and in the end nothing is left.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "support/two_hosts.h"

namespace verbatim::cm {
namespace {

// --- what is legal --------------------------------------------------------------------------------------------------

// Where an identifier is, by the events that its program has taken.
enum class Phase {
  fresh,
  resolved,
  routed,
  answered,   // connect_response
  requested,  // it is a request
  established,
  over,    // rejected or unreachable; of datagrams: known where to
  ended,   // disconnected
  exited,  // from timewait
  listening,
  illegal,
};

// Commands that have succeeded.
struct Done {
  int resolutions = 0;
  int routes = 0;
  bool connected = false;
  bool accepted = false;
  bool rejected = false;
  bool listening = false;
};

struct Transition {
  Phase from;
  EventType event;
  Phase to;
  bool (*is_due)(const Done&);
};

constexpr auto kResolving = [](const Done& done) { return done.resolutions > 0; };
constexpr auto kRouting = [](const Done& done) { return done.routes > 0; };
constexpr auto kConnected = [](const Done& done) { return done.connected; };
constexpr auto kAccepted = [](const Done& done) { return done.accepted; };
constexpr auto kListening = [](const Done& done) { return done.listening; };
constexpr auto kAlways = [](const Done&) { return true; };

constexpr Transition kConnections[] = {
    {Phase::fresh, EventType::addr_resolved, Phase::resolved, kResolving},
    {Phase::fresh, EventType::addr_error, Phase::fresh, kResolving},
    {Phase::resolved, EventType::route_resolved, Phase::routed, kRouting},
    {Phase::routed, EventType::connect_response, Phase::answered, kConnected},
    {Phase::routed, EventType::rejected, Phase::over, kConnected},
    {Phase::routed, EventType::unreachable, Phase::over, kConnected},
    {Phase::answered, EventType::rejected, Phase::over, kAlways},
    {Phase::answered, EventType::disconnected, Phase::ended, kAlways},
    {Phase::requested, EventType::established, Phase::established, kAccepted},
    {Phase::requested, EventType::rejected, Phase::over, kAccepted},
    {Phase::requested, EventType::unreachable, Phase::over, kAccepted},
    {Phase::requested, EventType::disconnected, Phase::ended, kAccepted},
    {Phase::established, EventType::rejected, Phase::over, kAlways},
    {Phase::established, EventType::disconnected, Phase::ended, kAlways},
    {Phase::ended, EventType::timewait_exit, Phase::exited, kAlways},
    {Phase::fresh, EventType::connect_request, Phase::listening, kListening},
    {Phase::listening, EventType::connect_request, Phase::listening, kListening},
};

constexpr Transition kDatagrams[] = {
    {Phase::fresh, EventType::addr_resolved, Phase::resolved, kResolving},
    {Phase::fresh, EventType::addr_error, Phase::fresh, kResolving},
    {Phase::resolved, EventType::route_resolved, Phase::routed, kRouting},
    {Phase::routed, EventType::established, Phase::over, kConnected},
    {Phase::routed, EventType::unreachable, Phase::over, kConnected},
    {Phase::fresh, EventType::connect_request, Phase::listening, kListening},
    {Phase::listening, EventType::connect_request, Phase::listening, kListening},
};

// --- the world ------------------------------------------------------------------------------------------------------

struct Known {
  size_t program = 0;
  IdHandle id;
  bool is_datagram = false;
  Phase phase = Phase::fresh;
  Done done;
  Names events;

  Phase after(EventType event) const {
    const std::span<const Transition> table =
        is_datagram ? std::span<const Transition>(kDatagrams) : std::span<const Transition>(kConnections);
    const auto found = std::ranges::find_if(table, [&](const Transition& transition) {
      return transition.from == phase && transition.event == event && transition.is_due(done);
    });
    return found == table.end() ? Phase::illegal : found->to;
  }
  int count(const std::string& event) const {
    return static_cast<int>(
        std::ranges::count_if(events, [&](const std::string& name) { return name.starts_with(event); }));
  }
};

struct Chaos {
  uint32_t lost = 0, doubled = 0, delayed = 0;  // of a hundred
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        seed_(seed),
        hosts_{Manager({.ca_guid = 1, .seed = seed}), Manager({.ca_guid = 2, .seed = seed + 1})} {
    for (size_t host = 0; host < 2; ++host) hosts_[host].set_addresses({{address_of(host).ip, 2, 3, 2}});
    chaos_ = {.lost = below(4) * 10, .doubled = below(3) * 10, .delayed = below(2) * 50};
    for (int i = 0; i < 4; ++i) start_program();
  }

  void run() {
    for (int step = 0; step < 400; ++step) act();
    quieten();
    if (testing::Test::HasFailure()) return;
    expect_nobody_waits();
    end_connections();
    end_everything();
  }

  const std::string& trace() const { return trace_; }

 private:
  struct Running {
    size_t host;
    Owner owner;
    std::array<Channel, 2> channels;
  };
  struct InFlight {
    size_t host;
    OutgoingMad mad;
  };

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  bool chance(uint32_t percent) { return below(100) < percent; }
  static Address address_of(size_t host) { return ipv4(host == 0 ? "192.0.2.1" : "192.0.2.2"); }
  Manager& manager(const Known& known) { return hosts_[programs_[known.program].host]; }
  Owner owner(const Known& known) const { return programs_[known.program].owner; }
  void note(const std::string& what) { trace_ += what + "\n"; }
  void fail(const std::string& what) { ADD_FAILURE() << "seed " << seed_ << ": " << what; }

  void start_program() {
    ++last_program_;
    programs_.push_back(program(last_program_ % 2));
  }

  Running program(size_t host) const {
    return {host, {last_program_}, {Channel{2 * last_program_}, Channel{2 * last_program_ + 1}}};
  }

  // --- what happens ---
  void act() {
    const uint32_t what = below(100);
    if (what < 45) {
      pass_time();
    } else if (what < 60) {
      take_some_event();
    } else if (what < 70 || ids_.empty()) {
      create();
    } else if (what < 99) {
      command(ids_[below(static_cast<uint32_t>(ids_.size()))]);
    } else {
      kill(below(static_cast<uint32_t>(programs_.size())));
    }
    collect();
  }

  void create() {
    const size_t program = below(static_cast<uint32_t>(programs_.size()));
    const bool is_datagram = chance(20);
    const Running& running = programs_[program];
    const IdHandle id{++last_handle_};
    const Status created = hosts_[running.host].create(running.owner, id, running.channels[0],
                                                       is_datagram ? PortSpace::udp : PortSpace::tcp,
                                                       is_datagram ? QpType::ud : QpType::rc, 0);
    EXPECT_TRUE(created.ok());
    ids_.push_back({.program = program, .id = id, .is_datagram = is_datagram});
    // Some listen from the start, so that there is somebody.
    if (chance(40)) listen(ids_.back());
  }

  void listen(Known& known) {
    const Address source = chance(50) ? Address::wildcard(Family::ipv4) : address_of(programs_[known.program].host);
    const uint32_t backlog = 1 + below(3);
    static_cast<void>(manager(known).bind(owner(known), known.id, source.with_port(some_port()), false));
    if (manager(known).listen(now_, owner(known), known.id, static_cast<int>(backlog)).ok())
      known.done.listening = true;
  }
  uint16_t some_port() { return static_cast<uint16_t>(7000 + below(2)); }

  enum class Act { resolve, route, connect, accept, establish, reject, disconnect, notify, listen, migrate, destroy };

  // What a program in its right mind would do next.
  Act sensible(const Known& known) {
    switch (known.phase) {
      case Phase::fresh:
        return Act::resolve;
      case Phase::resolved:
        return Act::route;
      case Phase::routed:
        return Act::connect;
      case Phase::answered:
        return chance(70) ? Act::establish : Act::disconnect;
      case Phase::requested:
        return Act::accept;
      case Phase::established:
      case Phase::ended:
        return Act::disconnect;
      default:
        return Act::destroy;
    }
  }

  // Any command at any time: what is refused changes nothing.
  void command(Known& known) {
    Manager& manager = this->manager(known);
    const Owner owner = this->owner(known);
    const IdHandle id = known.id;
    if (known.phase == Phase::listening && chance(95)) return;
    const Act act = chance(80) ? sensible(known) : static_cast<Act>(below(static_cast<uint32_t>(Act::destroy) + 1));
    switch (act) {
      case Act::resolve: {
        const Address destination = chance(90) ? address_of(below(2)) : ipv4("198.51.100.1");
        const Resolve resolve{{}, destination.with_port(some_port()), Duration::milliseconds(1000), false};
        known.done.resolutions += manager.resolve_address(now_, owner, id, resolve).ok();
        break;
      }
      case Act::route:
        known.done.routes += manager.resolve_route(owner, id).ok();
        break;
      case Act::connect:
        known.done.connected |= manager.connect(now_, owner, id, offer()).ok();
        break;
      case Act::accept:
        known.done.accepted |= manager.accept(now_, owner, id, offer()).ok();
        break;
      case Act::establish:
        static_cast<void>(manager.establish(now_, owner, id));
        break;
      case Act::reject:
        known.done.rejected |= manager.reject(now_, owner, id, wire::RejectReason::consumer_reject, {}).ok();
        break;
      case Act::disconnect:
        static_cast<void>(manager.disconnect(now_, owner, id));
        break;
      case Act::notify:
        static_cast<void>(manager.notify_established(now_, owner, id));
        break;
      case Act::listen:
        listen(known);
        break;
      case Act::migrate:
        static_cast<void>(manager.migrate(owner, id, programs_[known.program].channels[below(2)]));
        break;
      case Act::destroy:
        forget(programs_[known.program].host, id);
        EXPECT_TRUE(manager.destroy(now_, owner, id).ok());
    }
  }
  // Each with a queue pair of its own; now and then with that of a connection before.
  Offer offer() { return {.parameters = {.qpn = Qpn{chance(98) ? ++last_qpn_ : last_qpn_}}}; }
  void forget(size_t host, IdHandle id) {
    std::erase_if(ids_, [&](const Known& known) { return known.id == id && programs_[known.program].host == host; });
  }

  void kill(size_t program) {
    const Running dead = programs_[program];
    note("death");
    hosts_[dead.host].on_owner_death(now_, dead.owner);
    std::erase_if(ids_, [&](const Known& known) { return known.program == program; });
    for (Channel channel : dead.channels) EXPECT_FALSE(hosts_[dead.host].has_event(channel));
    ++last_program_;
    programs_[program] = this->program(dead.host);
  }

  // --- events ---
  bool take_some_event() {
    const size_t first = below(static_cast<uint32_t>(programs_.size()));
    for (size_t i = 0; i < programs_.size(); ++i)
      if (take_event((first + i) % programs_.size())) return true;
    return false;
  }

  bool take_event(size_t program) {
    const Running& running = programs_[program];
    Manager& host = hosts_[running.host];
    const Channel channel = running.channels[host.has_event(running.channels[0]) ? 0 : 1];
    std::optional<Event> event = host.take_event(channel);
    if (!event) return false;
    // Now and then it does not arrive at once.
    if (chance(5)) {
      host.put_back(running.owner, channel, {&*event, 1});
      event = host.take_event(channel);
    }
    note(fmt::format("{} {} {}", running.owner.value, event->id.value, name(*event)));
    const bool is_request = event->type == EventType::connect_request;
    Known* const known = find(running.host, is_request ? event->listener : event->id);
    if (!known) {
      fail("an event of an identifier that is gone: " + name(*event));
      return true;
    }
    const Phase next = known->after(event->type);
    known->events.push_back(name(*event));
    if (next == Phase::illegal)
      fail(fmt::format("{} in phase {}, after {}", name(*event), static_cast<int>(known->phase),
                       fmt::join(known->events, ", ")));
    known->phase = next;
    if (!is_request) return true;
    EXPECT_TRUE(host.take_request(running.owner, event->id).ok());
    ids_.push_back(
        {.program = known->program, .id = event->id, .is_datagram = known->is_datagram, .phase = Phase::requested});
    return true;
  }

  Known* find(size_t host, IdHandle id) {
    const auto found = std::ranges::find_if(
        ids_, [&](const Known& known) { return known.id == id && programs_[known.program].host == host; });
    return found == ids_.end() ? nullptr : &*found;
  }

  // --- the network and time ---
  // From the managers into the network.
  void collect() {
    for (size_t host = 0; host < hosts_.size(); ++host) {
      while (const auto question = hosts_[host].poll_question()) answer(host, *question);
      while (const auto mad = hosts_[host].poll_mad()) dispatch(*mad);
    }
  }
  void answer(size_t host, const Question& question) {
    if (chance(chaos_.lost)) return;
    if (question.destination.ip != address_of(1 - host).ip)
      hosts_[host].on_answer(question.id, Status{EHOSTUNREACH});
    else
      hosts_[host].on_answer(question.id, Route{.source = {address_of(host).ip, 2, 3, 2}});
  }
  void dispatch(const OutgoingMad& mad) {
    const size_t receiver = mad.address.remote == address_of(0).ip ? 0 : 1;
    const uint32_t copies = chance(chaos_.lost) ? 0 : chance(chaos_.doubled) ? 2 : 1;
    for (uint32_t i = 0; i < copies; ++i) {
      // In order, unless it is delayed: by up to ten seconds, longer than a retry or timewait.
      const Duration delay =
          chance(chaos_.delayed) ? Duration::milliseconds(1 + below(10'000)) : Duration::microseconds(10);
      in_flight_.insert({now_ + delay, {receiver, mad}});
    }
  }

  Instant next_moment() const {
    const Instant message = in_flight_.empty() ? kNever : in_flight_.begin()->first;
    return std::min({message, hosts_[0].next_deadline(), hosts_[1].next_deadline()});
  }
  // To the next thing that happens by itself. False: nothing ever will.
  bool pass_time() {
    const Instant next = next_moment();
    if (next == kNever) return false;
    now_ = next;
    if (!in_flight_.empty() && in_flight_.begin()->first <= now_) {
      const InFlight arriving = in_flight_.begin()->second;
      in_flight_.erase(in_flight_.begin());
      const OutgoingMad& mad = arriving.mad;
      note(text(std::get<wire::CmMessage>(wire::parse_cm(mad.bytes))));
      hosts_[arriving.host].on_mad(now_, {mad.address.remote, mad.address.local}, mad.bytes);
    } else {
      for (Manager& host : hosts_) host.on_deadline(now_);
    }
    collect();
    return true;
  }

  // --- the end ---
  // The network becomes perfect, and programs do what is asked of them.
  void quieten() {
    chaos_ = {};
    for (int i = 0; i < 100'000; ++i) {
      if (take_some_event()) continue;
      if (react()) {
        collect();
        continue;
      }
      if (!pass_time()) return;
    }
    fail("it never becomes quiet");
  }
  // Accepts and establishes what waits for it, and answers who has disconnected.
  bool react() {
    bool did_something = false;
    for (Known& known : ids_) {
      if (known.phase == Phase::requested && !reacted_.contains({known.program, known.id})) {
        reacted_.insert({known.program, known.id});
        known.done.accepted |= manager(known).accept(now_, owner(known), known.id, offer()).ok();
        did_something = true;
      }
      if (known.phase == Phase::answered && manager(known).establish(now_, owner(known), known.id).ok())
        did_something = true;
      if (known.phase == Phase::ended && !disconnected_.contains({known.program, known.id})) {
        disconnected_.insert({known.program, known.id});
        EXPECT_TRUE(manager(known).disconnect(now_, owner(known), known.id).ok());
        did_something = true;
      }
    }
    return did_something;
  }

  void expect_nobody_waits() {
    for (const Known& known : ids_) {
      const Done& done = known.done;
      const bool is_request = known.phase == Phase::requested;
      const bool waits = known.count("ADDR_") != done.resolutions || known.count("ROUTE_") != done.routes ||
                         (done.connected && !done.rejected && known.phase == Phase::routed) ||
                         (done.accepted && !done.rejected && !known.is_datagram && is_request);
      if (waits)
        fail(fmt::format("an identifier waits for ever in phase {} after {}", static_cast<int>(known.phase),
                         fmt::join(known.events, ", ")));
    }
    expect_ends_agree();
  }

  // Two ends of one connection know the same of each other.
  void expect_ends_agree() {
    for (const Known& passive : ids_) {
      if (passive.phase != Phase::established) continue;
      const IdView here = manager(passive).query(owner(passive), passive.id).value();
      for (const Known& active : ids_) {
        if (active.phase != Phase::answered) continue;
        const IdView there = manager(active).query(owner(active), active.id).value();
        if (there.source != here.destination || there.destination != here.source) continue;
        if (there.qp->remote_qpn != here.qp->local_qpn) continue;  // of another request by the same
        if (there.qp->local_qpn != here.qp->remote_qpn || there.qp->send_psn != here.qp->receive_psn ||
            there.qp->receive_psn != here.qp->send_psn)
          fail("the two ends do not agree");
        ++pairs_;
      }
    }
  }

  static bool is_connected(const Known& known) {
    return (known.phase == Phase::answered && !known.done.rejected) || known.phase == Phase::established;
  }

  void end_connections() {
    for (Known& known : ids_) {
      if (is_connected(known) && !manager(known).disconnect(now_, owner(known), known.id).ok())
        fail("cannot disconnect");
    }
    collect();
    quieten();
    for (const Known& known : ids_)
      if (is_connected(known) || known.phase == Phase::ended)
        fail(fmt::format("a connection does not end: {}", fmt::join(known.events, ", ")));
  }

  void end_everything() {
    for (size_t program = 0; program < programs_.size(); ++program) kill(program);
    collect();
    quieten();
    for (const Manager& host : hosts_)
      if (host.population() != Manager::Population{}) fail("something is left");
  }

  std::mt19937_64 random_;
  uint64_t seed_;
  Instant now_{1};
  std::array<Manager, 2> hosts_;
  std::vector<Running> programs_;
  std::vector<Known> ids_;
  std::set<std::pair<size_t, IdHandle>> reacted_, disconnected_;
  std::multimap<Instant, InFlight> in_flight_;
  Chaos chaos_;
  std::string trace_;
  uint64_t last_program_ = 0;
  uint64_t last_handle_ = 0;
  uint32_t last_qpn_ = 0;

 public:
  size_t pairs_ = 0;
};

TEST(ManagerModel, ManyRandomProgramsSeeOnlyWhatIsLegal) {
  const uint64_t seeds = getenv("VERBATIM_TEST_ALL") ? 50'000 : 5'000;
  size_t pairs = 0;
  for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    World world(seed);
    world.run();
    pairs += world.pairs_;
    if (HasFailure()) printf("%s", world.trace().c_str());
  }
  EXPECT_GT(pairs, seeds / 4) << "few connections come about: this shows little";
}

TEST(ManagerModel, ASeedGivesTheSameAgain) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World first(seed), second(seed);
    first.run();
    second.run();
    EXPECT_EQ(first.trace(), second.trace()) << seed;
  }
}

}  // namespace
}  // namespace verbatim::cm
