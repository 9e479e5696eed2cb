#include "api/rdmacm/identifiers.h"

#include <endian.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "api/rdmacm/connection_manager.h"
#include "api/rdmacm/convert_address.h"
#include "api/rdmacm/events.h"

namespace verbatim::api {
namespace {

constexpr uint8_t kPort = 1;

std::optional<cm::PortSpace> from_c(rdma_port_space space) {
  switch (space) {
    case RDMA_PS_IPOIB:
      return cm::PortSpace::ipoib;
    case RDMA_PS_TCP:
      return cm::PortSpace::tcp;
    case RDMA_PS_UDP:
      return cm::PortSpace::udp;
    case RDMA_PS_IB:
      return cm::PortSpace::ib;
  }
  return std::nullopt;
}

std::optional<cm::QpType> from_c(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return cm::QpType::rc;
    case IBV_QPT_UC:
      return cm::QpType::uc;
    case IBV_QPT_UD:
      return cm::QpType::ud;
    case IBV_QPT_XRC_SEND:
      return cm::QpType::xrc_send;
    case IBV_QPT_XRC_RECV:
      return cm::QpType::xrc_receive;
    default:
      return std::nullopt;
  }
}

ibv_qp_type usual_type(rdma_port_space space) {
  return space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

// As Linux' rdma_cm says it of a RoCE path.
ibv_sa_path_rec path_record(const cm::Path& path) {
  constexpr uint8_t kExactly = 2;  // of the selectors, IBTA 15.2.5.16
  ibv_sa_path_rec record{};
  std::ranges::copy(path.destination.bytes, record.dgid.raw);
  std::ranges::copy(path.source.bytes, record.sgid.raw);
  record.flow_label = htobe32(path.flow_label);
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.reversible = 1;
  record.numb_path = 1;
  record.pkey = htobe16(path.partition_key);
  record.sl = path.service_level;
  record.mtu_selector = record.rate_selector = record.packet_life_time_selector = kExactly;
  record.mtu = path.mtu;
  record.rate = path.rate;
  record.packet_life_time = path.packet_lifetime;
  return record;
}

// Binding ports below 1024 takes what it takes with sockets.
bool is_privileged() { return geteuid() == 0; }

}  // namespace

std::unique_ptr<IdObject> make_id(rdma_event_channel* channel, void* context, rdma_port_space space,
                                  ibv_qp_type qp_type) {
  auto id = std::make_unique<IdObject>();
  id->base.channel = channel;
  id->base.context = context;
  id->base.ps = space;
  id->base.qp_type = qp_type;
  return id;
}

Result<IdObject*> create_id(rdma_event_channel* channel, void* context, rdma_port_space space,
                            std::optional<ibv_qp_type> wanted_type) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  const ibv_qp_type type = wanted_type.value_or(usual_type(space));
  const std::optional<cm::PortSpace> cm_space = from_c(space);
  const std::optional<cm::QpType> cm_type = from_c(type);
  if (!cm_space || !cm_type) return Status{EINVAL};
  std::unique_ptr<EventChannelObject> own;
  if (!channel) {
    Result<std::unique_ptr<EventChannelObject>> opened = manager.value()->open_channel();
    if (!opened.ok()) return opened.status();
    own = opened.take();
    channel = &own->base;
  }
  std::unique_ptr<IdObject> id = make_id(channel, context, space, type);
  id->own_channel = std::move(own);
  const Result<cm::IdHandle> created = id->channel().create(*cm_space, *cm_type);
  if (!created.ok()) return created.status();
  id->handle = created.value();
  manager.value()->ids().add(*id);
  return id.release();
}

Status destroy_id(IdObject& id) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  manager.value()->peer_watch().remove(id);
  const Result<commands::Ended> ended = id.channel().call(
      commands::Destroy{.id = id.handle, .channel = id.channel().handle(), .received = id.acknowledgements.shown()});
  // It may have gone before, with its agent or with the listener of its request: only what is here is left.
  if (!ended.ok() && ended.error() != ENODEV && ended.error() != ENOENT) return ended.status();
  acknowledge_last(id);
  id.acknowledgements.await(ended.ok() ? ended.value().events : 0);
  manager.value()->ids().remove(id);
  delete &id;
  return Status::success();
}

Status migrate_id(IdObject& id, rdma_event_channel* channel) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  if (!channel && id.is_synchronous()) return {EINVAL};
  std::unique_ptr<EventChannelObject> own;
  if (!channel) {
    Result<std::unique_ptr<EventChannelObject>> opened = manager.value()->open_channel();
    if (!opened.ok()) return opened.status();
    own = opened.take();
    channel = &own->base;
  }
  CmChannel& to = *object_of(channel).impl;
  if (to.agent() != id.channel().agent()) return {ENODEV};
  manager.value()->peer_watch().remove(id);
  const Result<commands::Ended> moved = id.channel().call(commands::Migrate{
      .id = id.handle, .channel = id.channel().handle(), .received = id.acknowledgements.shown(), .to = to.handle()});
  if (!moved.ok()) return moved.status();
  if (id.is_synchronous()) acknowledge_last(id);
  id.acknowledgements.await(moved.value().events);
  id.base.channel = channel;
  id.own_channel = std::move(own);
  return Status::success();
}

Status refresh(IdObject& id) {
  const Result<cm::IdView> view = id.channel().call(commands::Query{id.handle});
  if (view.ok()) show(view.value(), id);
  return view.status();
}

void show(const cm::IdView& view, IdObject& id) {
  id.view = view;
  rdma_route& route = id.base.route;
  route.addr.src_storage = to_c(view.source);
  route.addr.dst_storage = to_c(view.destination);
  if (view.has_device) {
    const Result<ConnectionManager*> manager = ConnectionManager::get();
    if (!manager.ok()) return;
    id.base.verbs = manager.value()->context();
    id.base.port_num = kPort;
    if (!id.base.pd) id.base.pd = manager.value()->default_domain();
    std::ranges::copy(view.source.ip.bytes, route.addr.addr.ibaddr.sgid.raw);
    std::ranges::copy(view.destination.ip.bytes, route.addr.addr.ibaddr.dgid.raw);
    route.addr.addr.ibaddr.pkey = htobe16(cm::Path{}.partition_key);
  }
  if (view.path) {
    id.path_record = path_record(*view.path);
    route.path_rec = &id.path_record;
    route.num_paths = 1;
  }
}

Status bind_address(IdObject& id, const sockaddr* source) {
  if (!source) return {EINVAL};
  const std::optional<cm::Address> address = from_c(source);
  if (!address) return {EINVAL};
  const Status bound = run(id, commands::Bind{id.handle, *address, is_privileged()});
  return bound.ok() ? refresh(id) : bound;
}

Status resolve_address(IdObject& id, const sockaddr* source, const sockaddr* destination, int timeout_ms) {
  if (!destination || timeout_ms < 0) return {EINVAL};
  const std::optional<cm::Address> from = from_c(source);
  const std::optional<cm::Address> to = from_c(destination);
  if (!from || !to) return {EINVAL};
  // Before the command: the event, which says it too, may be taken by another thread before the answer is here.
  const sockaddr_storage before = std::exchange(id.base.route.addr.dst_storage, to_c(*to));
  const Status begun = run(id, commands::ResolveAddress{id.handle,
                                                        {.source = *from,
                                                         .destination = *to,
                                                         .timeout = Duration::milliseconds(timeout_ms),
                                                         .privileged = is_privileged()}});
  if (begun.ok()) return complete(id);
  id.base.route.addr.dst_storage = before;
  return begun;
}

Status resolve_route(IdObject& id) {
  const Status begun = run(id, commands::ResolveRoute{id.handle});
  return begun.ok() ? complete(id) : begun;
}

}  // namespace verbatim::api
