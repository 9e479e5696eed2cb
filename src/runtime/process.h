// The composition root: one for each process, built when the first program call needs it, never destroyed. Holds what
// the device's objects share and connects the layers with each other.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "agent/client.h"
#include "agent/slot_claim.h"
#include "base/copy_mark.h"
#include "engine/engine.h"
#include "engine/steady_clock.h"
#include "host/address_watch.h"
#include "local/adapter.h"
#include "local/peer_table.h"
#include "model/device.h"
#include "runtime/xrc_domains.h"

namespace verbatim::runtime {

class Process final : public local::PeerTable::Introducer, private AgentEvents {
 public:
  // This process's; a forked child gets one of its own. Fails with the errno of what could not be made; a later call
  // tries again. Any thread.
  static Result<Process*> get();

  model::Device& device() { return *device_; }
  XrcDomains& xrc_domains() { return xrc_domains_; }
  // The thread that hears of the host's addresses and of peers; nothing to do when it runs. Fails as Engine::start().
  Status start_engine();

 private:
  static Result<std::unique_ptr<Process>> create();
  static void forget_copied_instance();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  // Between the two nobody is in the middle of what abandon() takes down, nor the engine of anything.
  void pause();
  void resume();
  Process(AgentIdentity identity);
  void abandon();

  Result<Slot> claim_slot();
  // Tells the client of those claimed since it was last told. With slots_mutex_ held.
  void describe_slots();
  Status claim_first_slot();
  // Becomes known to the agent, once.
  Status join();

  void refresh() override;
  Status introduce(Slot slot) override;
  Status introduce_everyone() override;
  Status appear() override { return join(); }

  void on_peer(PeerProcess peer) override;
  void on_peer_slot(Incarnation incarnation, Slot slot) override;
  void on_peer_dead(Incarnation incarnation) override;
  void on_unowned(Slot slot) override;
  void on_everyone() override;
  void on_refused(std::string_view why) override;

  void on_addresses();
  // On the engine's thread: news of peers. Whoever hears of them first only rings, since he may hold any lock.
  void on_doorbell();

  const CopyMark mark_;
  const AgentIdentity identity_;
  const engine::SteadyClock clock_;
  engine::Engine engine_;
  std::unique_ptr<model::AddressSource> addresses_;
  std::optional<host::AddressWatch> address_watch_;

  std::mutex slots_mutex_;  // guards what follows
  std::mt19937_64 random_;
  std::vector<SlotClaim> claims_;
  size_t described_claims_ = 0;  // how many of them the client knows

  std::unique_ptr<local::Adapter> adapter_;
  std::unique_ptr<local::PeerTable> peers_;
  std::unique_ptr<model::Device> device_;
  XrcDomains xrc_domains_{identity_};

  std::mutex departed_mutex_;  // guards what follows
  std::vector<Incarnation> departed_;

  std::mutex join_mutex_;  // guards the making of the client
  std::unique_ptr<AgentClient> client_;
  std::atomic<AgentClient*> joined_{nullptr};
};

}  // namespace verbatim::runtime
