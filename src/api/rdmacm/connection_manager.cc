#include "api/rdmacm/connection_manager.h"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "agent/installed_agent.h"
#include "base/no_cancellation.h"

namespace verbatim::api {
namespace {

std::mutex instance_mutex;
ConnectionManager* instance = nullptr;

// rdma_conn_param has eight bits for them, the highest of which number means "as many as the device has".
uint8_t bounded(int most) { return static_cast<uint8_t>(std::min(most, RDMA_MAX_RESP_RES - 1)); }

ibv_context* open_first_device() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (!devices) return nullptr;
  errno = ENODEV;
  ibv_context* const context = devices[0] ? ibv_open_device(devices[0]) : nullptr;
  ibv_free_device_list(devices);
  return context;
}

}  // namespace

void Identifiers::add(IdObject& id) {
  const std::lock_guard lock(mutex_);
  ids_[{id.channel().agent(), id.handle}] = &id;
}

void Identifiers::remove(const IdObject& id) {
  const std::lock_guard lock(mutex_);
  ids_.erase({id.channel().agent(), id.handle});
}

IdObject* Identifiers::show_event_of(const CmChannel& channel, cm::IdHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = ids_.find({channel.agent(), handle});
  if (found == ids_.end()) return nullptr;
  found->second->acknowledgements.show();
  return found->second;
}

ConnectionManager::ConnectionManager(ibv_context* context, ibv_pd* default_domain, const ibv_device_attr& attributes,
                                     AgentIdentity identity)
    : context_(context),
      default_domain_(default_domain),
      most_responder_resources_(bounded(attributes.max_qp_rd_atom)),
      most_initiator_depth_(bounded(attributes.max_qp_init_rd_atom)),
      client_(std::move(identity), agent::installed_agent_path()) {}

Result<ConnectionManager*> ConnectionManager::get() {
  const NoCancellation guard;
  const std::lock_guard lock(instance_mutex);
  // The child of a fork leaves its parent's as it is: objects of the parent may still name it.
  if (instance && instance->mark_.is_copy()) instance = nullptr;
  if (instance) return instance;
  const Result<ConnectionManager*> created = create();
  if (!created.ok()) return created;
  // After the device was opened: who forks then takes our lock before those of the verbs library, as we do here.
  static const int fork_handler =
      pthread_atfork([] { instance_mutex.lock(); }, [] { instance_mutex.unlock(); }, [] { instance_mutex.unlock(); });
  if (fork_handler != 0) return Status{fork_handler};
  instance = created.value();
  return created;
}

Result<ConnectionManager*> ConnectionManager::create() {
  Result<AgentIdentity> identity = AgentIdentity::of_this_process();
  if (!identity.ok()) return identity.status();
  ibv_context* const context = open_first_device();
  if (!context) return Status{errno};
  ibv_device_attr attributes{};
  ibv_pd* const domain = ibv_alloc_pd(context);
  if (domain && ibv_query_device(context, &attributes) == 0)
    return new ConnectionManager(context, domain, attributes, identity.take());
  const int error = errno;
  if (domain) ibv_dealloc_pd(domain);
  ibv_close_device(context);
  return Status{error};
}

std::optional<uint8_t> ConnectionManager::gid_index(const Gid& gid) const {
  ibv_port_attr port{};
  constexpr uint8_t kPort = 1;
  if (ibv_query_port(context_, kPort, &port) != 0) return std::nullopt;
  std::vector<ibv_gid_entry> entries(static_cast<size_t>(port.gid_tbl_len));
  const ssize_t count = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
  const auto end = entries.begin() + std::max<ssize_t>(count, 0);
  const auto found = std::find_if(
      entries.begin(), end, [&](const ibv_gid_entry& entry) { return std::ranges::equal(entry.gid.raw, gid.bytes); });
  if (found == end || found->gid_index > UINT8_MAX) return std::nullopt;
  return static_cast<uint8_t>(found->gid_index);
}

Result<ibv_xrcd*> ConnectionManager::default_xrc_domain() {
  const std::lock_guard lock(xrc_mutex_);
  if (default_xrc_domain_) return default_xrc_domain_;
  ibv_xrcd_init_attr attributes{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  default_xrc_domain_ = ibv_open_xrcd(context_, &attributes);
  if (!default_xrc_domain_) return Status{errno};
  return default_xrc_domain_;
}

Result<std::unique_ptr<EventChannelObject>> ConnectionManager::open_channel() {
  Result<std::unique_ptr<CmChannel>> opened = client_.open_channel();
  if (!opened.ok()) return opened.status();
  auto channel = std::make_unique<EventChannelObject>();
  channel->impl = opened.take();
  channel->base.fd = channel->impl->fd();
  return channel;
}

}  // namespace verbatim::api
