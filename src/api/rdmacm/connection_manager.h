// What the calls of rdma_cma.h share: the one device of this process, opened once, and the way to the agent, whose
// connection manager does the work. One for each process; a forked child gets one of its own.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <mutex>
#include <utility>

#include "agent/cm_client.h"
#include "api/rdmacm/objects.h"
#include "api/rdmacm/peer_watch.h"
#include "base/copy_mark.h"
#include "base/result.h"

namespace verbatim::api {

// The identifiers of this process by their names in the agent, since events come with these.
class Identifiers {
 public:
  void add(IdObject& id);
  void remove(const IdObject& id);
  // Of which one more event is shown, so that it stays until that is acknowledged. Null: there is none of that name.
  IdObject* show_event_of(const CmChannel& channel, cm::IdHandle handle);

 private:
  // Each agent counts from 1.
  using Name = std::pair<const void*, cm::IdHandle>;

  std::mutex mutex_;  // guards what follows
  std::map<Name, IdObject*> ids_;
};

class ConnectionManager {
 public:
  // Opens the device at the first call. ENODEV: there is none. Never destroyed. Any thread.
  static Result<ConnectionManager*> get();

  ibv_context* context() const { return context_; }
  ibv_pd* default_domain() const { return default_domain_; }
  // Made when it is first asked for.
  Result<ibv_xrcd*> default_xrc_domain();
  uint8_t most_responder_resources() const { return most_responder_resources_; }
  uint8_t most_initiator_depth() const { return most_initiator_depth_; }
  // Nullopt: no address of the device.
  std::optional<uint8_t> gid_index(const Gid& gid) const;

  Result<std::unique_ptr<EventChannelObject>> open_channel();
  Identifiers& ids() { return ids_; }
  PeerWatch& peer_watch() { return peer_watch_; }

 private:
  ConnectionManager(ibv_context* context, ibv_pd* default_domain, const ibv_device_attr& attributes,
                    AgentIdentity identity);
  static Result<ConnectionManager*> create();

  const CopyMark mark_;
  ibv_context* const context_;
  ibv_pd* const default_domain_;
  const uint8_t most_responder_resources_;
  const uint8_t most_initiator_depth_;
  CmClient client_;
  std::mutex xrc_mutex_;  // guards what follows
  ibv_xrcd* default_xrc_domain_ = nullptr;
  Identifiers ids_;
  PeerWatch peer_watch_;
};

}  // namespace verbatim::api
