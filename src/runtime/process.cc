#include "runtime/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "agent/installed_agent.h"
#include "base/log.h"
#include "base/no_cancellation.h"
#include "base/no_memory.h"
#include "base/random.h"
#include "host/host_interfaces.h"
#include "local/process_memory.h"
#include "obs/log_file.h"
#include "runtime/configuration.h"
#include "runtime/device_identity.h"

namespace verbatim::runtime {
namespace {

std::mutex instance_mutex;
// Owned for ever: programs use our objects until their last instruction.
Process* instance = nullptr;

model::InterfaceRole role_of(host::InterfaceKind kind) {
  switch (kind) {
    case host::InterfaceKind::loopback:
      return model::InterfaceRole::loopback;
    case host::InterfaceKind::tunnel:
    case host::InterfaceKind::bridge:
      return model::InterfaceRole::virtual_link;
    case host::InterfaceKind::ordinary:
      break;
  }
  return model::InterfaceRole::ordinary;
}

class HostAddresses final : public model::AddressSource {
 public:
  // Where the kernel does not say (a program may be out of descriptors), what it said last: no address has gone.
  std::vector<model::GidInterface> interfaces() override {
    Result<std::vector<host::HostInterface>> found = host::host_interfaces();
    if (!found.ok()) {
      log(LogLevel::warn, "the kernel does not list this host's addresses: {}", strerror(found.error()));
      return last_;
    }
    last_.clear();
    for (const host::HostInterface& interface : found.value())
      last_.push_back({interface.ifindex, interface.mtu, interface.speed_mbps, role_of(interface.kind),
                       interface.has_default_route, interface.addresses});
    return last_;
  }

 private:
  std::vector<model::GidInterface> last_;
};

void start_log(const Configuration& configuration) {
  if (configuration.log_level == LogLevel::off) return;
  set_log(new LogFile(configuration.log_file), configuration.log_level);
  for (const std::string& complaint : configuration.complaints) log(LogLevel::warn, "{}", complaint);
}

}  // namespace

// A bare clone(2) calls no handler: its child leaves its parent's as it is, half done as it may be.
void Process::forget_copied_instance() {
  if (instance && instance->mark_.is_copy()) instance = nullptr;
}

Result<Process*> Process::get() {
  const NoCancellation guard;
  std::lock_guard lock(instance_mutex);
  forget_copied_instance();
  if (instance) return instance;
  Result<std::unique_ptr<Process>> created = create();
  if (!created.ok()) return created.status();
  static const int fork_handler =
      pthread_atfork(&Process::before_fork, &Process::after_fork_in_parent, &Process::after_fork_in_child);
  if (fork_handler != 0) return Status{fork_handler};
  instance = created.take().release();
  return instance;
}

Result<std::unique_ptr<Process>> Process::create() {
  const Configuration& configuration = runtime::configuration();
  static std::once_flag log_started;
  std::call_once(log_started, start_log, configuration);
  let_allocations_wait();
  Result<AgentIdentity> identity = AgentIdentity::of_this_process();
  if (!identity.ok()) return identity.status();
  std::unique_ptr<Process> process(new Process(identity.take()));
  Result<std::unique_ptr<local::Adapter>> adapter =
      local::Adapter::create([self = process.get()] { return self->claim_slot(); });
  if (!adapter.ok()) return adapter.status();
  process->adapter_ = adapter.take();
  local::Adapter& own = *process->adapter_;
  process->peers_ = std::make_unique<local::PeerTable>(
      std::make_shared<local::Peer>(own.view(), own.incarnation(), own.doorbell_fd()),
      [&own](Slot slot) { return own.owns(slot); }, *process);
  process->device_ = std::make_unique<model::Device>(
      model::Device::Surroundings{own, *process->peers_, process->clock_, process->engine_, *process->addresses_},
      device_attributes(configuration));
  return process;
}

Process::Process(AgentIdentity identity)
    : identity_(std::move(identity)),
      engine_(clock_),
      addresses_(std::make_unique<HostAddresses>()),
      random_(random_u64()) {}

void Process::before_fork() {
  instance_mutex.lock();
  forget_copied_instance();
  if (instance) instance->pause();
}

void Process::after_fork_in_parent() {
  if (instance) instance->resume();
  instance_mutex.unlock();
}

void Process::after_fork_in_child() {
  // The only thread left is this one; what the program's others held is held for ever, so the old instance is left
  // alone but for what would reach out of this process. The child's first call builds a new one.
  if (instance) {
    instance->resume();
    instance->abandon();
  }
  instance = nullptr;
  instance_mutex.unlock();
}

void Process::pause() {
  engine_.pause();
  join_mutex_.lock();
  slots_mutex_.lock();
  if (client_) client_->pause();
  xrc_domains_.pause();
}

void Process::resume() {
  xrc_domains_.resume();
  if (client_) client_->resume();
  slots_mutex_.unlock();
  join_mutex_.unlock();
  engine_.resume();
}

void Process::abandon() {
  joined_.store(nullptr, std::memory_order_relaxed);
  engine_.abandon();
  client_.reset();
  address_watch_.reset();
  claims_.clear();
  device_->lanes().abandon();
  xrc_domains_.abandon();
  peers_->abandon();
  adapter_->abandon();
}

Result<Slot> Process::claim_slot() {
  std::lock_guard lock(slots_mutex_);
  Result<SlotClaim> claim = SlotClaim::claim_random(identity_, random_);
  if (!claim.ok()) return claim.status();
  const Slot slot = claim.value().slot();
  claims_.push_back(claim.take());
  if (AgentClient* client = joined_.load(std::memory_order_relaxed)) client->add_slot(slot);
  return slot;
}

Status Process::start_engine() {
  if (engine_.running()) return Status::success();
  const NoCancellation guard;
  std::lock_guard lock(join_mutex_);
  if (engine_.running()) return Status::success();
  if (!client_) {
    auto client = std::make_unique<AgentClient>(
        identity_, agent::installed_agent_path(),
        MemberDescription{
            adapter_->incarnation(), {}, adapter_->segment_fd(), sizeof(local::Segment), adapter_->doorbell_fd()});
    if (!client->valid()) return {EMFILE};
    client_ = std::move(client);
  }
  std::vector<engine::Engine::Source> sources{{adapter_->doorbell_fd(), [this] { on_doorbell(); }},
                                              {client_->fd(), [this] { client_->receive(*this); }}};
  Result<host::AddressWatch> watch = host::AddressWatch::open();
  // The program can mend it, and try again.
  if (watch.error() == EMFILE || watch.error() == ENFILE) return watch.status();
  if (watch.ok()) {
    address_watch_ = watch.take();
    sources.push_back({address_watch_->fd(), [this] { on_addresses(); }});
    // What changed before the watch began.
    device_->refresh_gids();
  } else {
    log(LogLevel::warn, "changes of this host's addresses will not be noticed: {}", strerror(watch.error()));
  }
  return engine_.start(*device_, std::move(sources), &adapter_->liveness_word(), &adapter_->awake_word());
}

Status Process::join() {
  if (joined_.load(std::memory_order_acquire)) return Status::success();  // pairs with the store below
  // Called with a queue pair's lock, in the middle of its modify.
  const NoCancellation guard;
  // The engine first: peers judge by its liveness word from the moment they know us.
  if (Status status = start_engine(); !status.ok()) return status;
  std::lock_guard lock(join_mutex_);
  if (joined_.load(std::memory_order_relaxed)) return Status::success();
  if (Status status = local::allow_peers(local::ptrace_scope()); !status.ok())
    log(LogLevel::warn, "peers may not reach this process's memory: {}", strerror(status.error));
  if (Status status = claim_first_slot(); !status.ok()) return status;
  {
    std::lock_guard slots_lock(slots_mutex_);
    describe_slots();
  }
  if (Status status = client_->start(); !status.ok()) {
    log(LogLevel::warn, "no agent: {} ({})", strerror(status.error), agent::installed_agent_path());
    return status;
  }
  std::lock_guard slots_lock(slots_mutex_);
  // From here on claim_slot() tells the client itself.
  describe_slots();
  joined_.store(client_.get(), std::memory_order_release);  // pairs with the loads in join() and refresh()
  return Status::success();
}

// A member is known by its slots. A process that only asks for others may have no queue pair yet.
Status Process::claim_first_slot() {
  if (!adapter_->slots().empty()) return Status::success();
  Result<Qpn> first = adapter_->allocate_qpn();
  if (!first.ok()) return first.status();
  adapter_->release_qpn(first.value());
  return Status::success();
}

void Process::describe_slots() {
  for (; described_claims_ < claims_.size(); ++described_claims_) client_->add_slot(claims_[described_claims_].slot());
}

void Process::refresh() {
  const NoCancellation guard;
  if (AgentClient* client = joined_.load(std::memory_order_acquire)) client->receive(*this);  // pairs with join()
}

Status Process::introduce(Slot slot) {
  // A process that talks to itself needs no agent, but somebody who takes its notices and watches its deadlines.
  if (adapter_->owns(slot)) return start_engine();
  if (Status status = join(); !status.ok()) return status;
  const NoCancellation guard;
  return client_->introduce(slot);
}

Status Process::introduce_everyone() {
  if (Status status = join(); !status.ok()) return status;
  const NoCancellation guard;
  return client_->introduce_everyone();
}

void Process::on_peer(PeerProcess peer) {
  Result<local::SegmentView> view = local::SegmentView::map(peer.segment.get(), peer.incarnation);
  if (!view.ok()) {
    log(LogLevel::warn, "process {} shows a segment that is none of ours: {}", peer.pid, strerror(view.error()));
    return;
  }
  log(LogLevel::info, "introduced to process {}", peer.pid);
  peers_->add(std::make_shared<local::Peer>(view.take(), peer.incarnation, peer.pid, std::move(peer.doorbell)),
              peer.slots, peer.knows_us);
  peers_->self()->ring();
}

void Process::on_peer_slot(Incarnation incarnation, Slot slot) {
  peers_->add_slot(incarnation, slot);
  // A notice may have come before the news of who it is from.
  peers_->self()->ring();
}

void Process::on_peer_dead(Incarnation incarnation) {
  const std::shared_ptr<local::Peer> peer = peers_->mark_dead(incarnation);
  if (!peer) return;
  log(LogLevel::info, "process {} has ended", peer->pid());
  {
    std::lock_guard lock(departed_mutex_);
    departed_.push_back(incarnation);
  }
  peers_->self()->ring();
}

void Process::on_unowned(Slot slot) { peers_->nobody_owns(slot); }

void Process::on_everyone() { peers_->everyone_is_known(); }

void Process::on_refused(std::string_view why) {
  log(LogLevel::warn, "the agent refuses this process: {}", why);
  peers_->nobody_answers();
}

void Process::on_addresses() {
  address_watch_->drain();
  device_->refresh_gids();
}

void Process::on_doorbell() {
  uint64_t count;
  [[maybe_unused]] const ssize_t taken = read(adapter_->doorbell_fd(), &count, sizeof count);
  std::vector<Incarnation> departed;
  {
    std::lock_guard lock(departed_mutex_);
    departed.swap(departed_);
  }
  for (const std::shared_ptr<local::Peer>& peer : peers_->known()) device_->take_notices(*peer);
  if (departed.empty()) return;
  // After its last notices were read.
  for (Incarnation incarnation : departed) peers_->remove(incarnation);
  device_->on_peer_dead();
}

}  // namespace verbatim::runtime
