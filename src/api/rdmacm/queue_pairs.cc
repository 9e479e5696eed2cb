#include "api/rdmacm/queue_pairs.h"

#include <algorithm>

#include "api/rdmacm/connection_manager.h"
#include "api/rdmacm/convert_connection.h"

namespace verbatim::api {
namespace {

constexpr uint8_t kPort = 1;
// IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT, which the header does not have yet.
constexpr unsigned kFlushRights = 1u << 8 | 1u << 9;

// Verbs that return an errno, or NULL and errno.
Status failed() { return {errno != 0 ? errno : EIO}; }

ibv_cq* create_cq(IdObject& id, uint32_t size, ibv_comp_channel*& channel) {
  channel = ibv_create_comp_channel(id.base.verbs);
  if (!channel) return nullptr;
  ibv_cq* const cq = ibv_create_cq(id.base.verbs, static_cast<int>(std::max<uint32_t>(size, 1)), &id.base, channel, 0);
  if (cq) return cq;
  const int error = errno;
  ibv_destroy_comp_channel(std::exchange(channel, nullptr));
  errno = error;
  return nullptr;
}

void destroy_cq(ibv_cq*& cq, ibv_comp_channel*& channel) {
  if (cq) ibv_destroy_cq(std::exchange(cq, nullptr));
  if (channel) ibv_destroy_comp_channel(std::exchange(channel, nullptr));
}

// Those that the library has made; the program reads them in the identifier.
void destroy_cqs(rdma_cm_id& id) {
  destroy_cq(id.send_cq, id.send_cq_channel);
  destroy_cq(id.recv_cq, id.recv_cq_channel);
}

Status choose_domain(IdObject& id, ibv_qp_init_attr_ex& attributes) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  if (attributes.qp_type == IBV_QPT_XRC_RECV) {
    if (attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) return Status::success();
    const Result<ibv_xrcd*> domain = manager.value()->default_xrc_domain();
    if (!domain.ok()) return domain.status();
    attributes.xrcd = domain.value();
    attributes.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    return Status::success();
  }
  if (!(attributes.comp_mask & IBV_QP_INIT_ATTR_PD) || !attributes.pd) attributes.pd = id.base.pd;
  attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
  return {attributes.pd && attributes.pd->context == id.base.verbs ? 0 : EINVAL};
}

Status choose_cqs(IdObject& id, ibv_qp_init_attr_ex& attributes) {
  const bool sends = attributes.qp_type != IBV_QPT_XRC_RECV;
  const bool receives = sends && attributes.qp_type != IBV_QPT_XRC_SEND;
  rdma_cm_id& base = id.base;
  if (receives && !attributes.recv_cq) {
    if (!base.recv_cq) base.recv_cq = create_cq(id, attributes.cap.max_recv_wr, base.recv_cq_channel);
    if (!base.recv_cq) return failed();
    attributes.recv_cq = base.recv_cq;
  }
  if (sends && !attributes.send_cq) {
    if (!base.send_cq) base.send_cq = create_cq(id, attributes.cap.max_send_wr, base.send_cq_channel);
    if (!base.send_cq) return failed();
    attributes.send_cq = base.send_cq;
  }
  return Status::success();
}

Status modify(ibv_qp* qp, Transition transition) {
  return {ibv_modify_qp(qp, &transition.attributes, transition.mask)};
}

// A queue pair that has no peer of its own can send at once; one that will have is ready to be given receives.
Status make_ready(const IdObject& id, ibv_qp* qp) {
  const Result<Transition> init = transition_to(IBV_QPS_INIT, id);
  if (!init.ok()) return init.status();
  if (const Status ready = modify(qp, init.value()); !ready.ok() || !id.is_for_datagrams()) return ready;
  if (const Status ready = modify(qp, {{.qp_state = IBV_QPS_RTR}, IBV_QP_STATE}); !ready.ok()) return ready;
  return modify(qp, {{.qp_state = IBV_QPS_RTS, .sq_psn = 0}, IBV_QP_STATE | IBV_QP_SQ_PSN});
}

Transition to_init(const IdObject& id) {
  Transition to{{.pkey_index = 0, .port_num = kPort}, IBV_QP_PKEY_INDEX | IBV_QP_PORT};
  if (id.is_for_datagrams()) {
    to.attributes.qkey = cm::kUdpQKey;
    to.mask |= IBV_QP_QKEY;
    return to;
  }
  to.mask |= IBV_QP_ACCESS_FLAGS;
  if (!id.view.qp) return to;
  to.attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.view.qp->max_dest_rd_atomic > 0)
    to.attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | kFlushRights;
  return to;
}

Result<Transition> to_rtr(const IdObject& id, const cm::QpAttributes& qp) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  const std::optional<uint8_t> gid_index = manager.value()->gid_index(qp.path.source);
  if (!gid_index) return Status{EADDRNOTAVAIL};
  Transition to{{.path_mtu = static_cast<ibv_mtu>(qp.path.mtu),
                 .rq_psn = qp.receive_psn.value,
                 .dest_qp_num = qp.remote_qpn.value,
                 .ah_attr = address_of(qp.path)},
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN};
  to.attributes.ah_attr.grh.sgid_index = *gid_index;
  if (id.base.qp_type == IBV_QPT_RC || id.base.qp_type == IBV_QPT_XRC_RECV) {
    to.attributes.max_dest_rd_atomic = qp.max_dest_rd_atomic;
    to.attributes.min_rnr_timer = 0;
    to.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return to;
}

Transition to_rts(const IdObject& id, const cm::QpAttributes& qp) {
  Transition to{{.sq_psn = qp.send_psn.value}, IBV_QP_SQ_PSN};
  if (id.base.qp_type == IBV_QPT_RC || id.base.qp_type == IBV_QPT_XRC_SEND) {
    to.attributes.retry_cnt = qp.retry_count;
    to.attributes.rnr_retry = qp.rnr_retry;
    to.attributes.max_rd_atomic = qp.max_rd_atomic;
    to.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  if (id.base.qp_type != IBV_QPT_UC) {
    to.attributes.timeout = qp.timeout;
    to.mask |= IBV_QP_TIMEOUT;
  }
  return to;
}

}  // namespace

// A connection that was not asked for yet has nothing to say but what INIT needs, whichever state is asked for; one
// that was not answered yet cannot say more.
Result<Transition> transition_to(ibv_qp_state state, const IdObject& id) {
  const std::optional<cm::QpAttributes>& qp = id.view.qp;
  Result<Transition> to = Status{EINVAL};
  if (qp && !id.view.knows_peer && state != IBV_QPS_INIT) return to;
  if (id.is_for_datagrams() || !qp || state == IBV_QPS_INIT)
    to = to_init(id);
  else if (state == IBV_QPS_RTR)
    to = to_rtr(id, *qp);
  else if (state == IBV_QPS_RTS)
    to = to_rts(id, *qp);
  if (!to.ok()) return to;
  to.value().attributes.qp_state = state;
  to.value().mask |= IBV_QP_STATE;
  return to;
}

Status create_queue_pair(IdObject& id, ibv_qp_init_attr_ex& attributes) {
  if (id.base.qp || !id.base.verbs) return {EINVAL};
  if (const Status chosen = choose_domain(id, attributes); !chosen.ok()) return chosen;
  if (id.base.srq && !attributes.srq) attributes.srq = id.base.srq;
  Status made = choose_cqs(id, attributes);
  ibv_qp* const qp = made.ok() ? ibv_create_qp_ex(id.base.verbs, &attributes) : nullptr;
  if (made.ok()) made = qp ? make_ready(id, qp) : failed();
  if (!made.ok()) {
    if (qp) ibv_destroy_qp(qp);
    if (!id.base.srq) destroy_cqs(id.base);
    return made;
  }
  if (qp->pd) id.base.pd = qp->pd;  // a receiver of XRC has none
  id.base.qp = qp;
  return made;
}

Status create_queue_pair(IdObject& id, ibv_pd* domain, ibv_qp_init_attr& attributes) {
  ibv_qp_init_attr_ex extended{.qp_context = attributes.qp_context,
                               .send_cq = attributes.send_cq,
                               .recv_cq = attributes.recv_cq,
                               .srq = attributes.srq,
                               .cap = attributes.cap,
                               .qp_type = attributes.qp_type,
                               .sq_sig_all = attributes.sq_sig_all};
  if (domain) {
    extended.pd = domain;
    extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  }
  const Status created = create_queue_pair(id, extended);
  // The program is told what it was given.
  attributes.send_cq = extended.send_cq;
  attributes.recv_cq = extended.recv_cq;
  attributes.srq = extended.srq;
  attributes.cap = extended.cap;
  return created;
}

void destroy_queue_pair(IdObject& id) {
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (manager.ok()) manager.value()->peer_watch().remove(id);
  {
    const std::lock_guard lock(id.mutex);
    for (MembershipObject& membership : id.memberships) detach(membership);
  }
  if (id.base.qp) ibv_destroy_qp(std::exchange(id.base.qp, nullptr));
  if (!id.base.srq) return destroy_cqs(id.base);
  destroy_cq(id.base.send_cq, id.base.send_cq_channel);
}

Status create_shared_receive_queue(IdObject& id, ibv_srq_init_attr_ex& attributes) {
  if (id.base.srq || !id.base.verbs || !(attributes.comp_mask & IBV_SRQ_INIT_ATTR_TYPE)) return {EINVAL};
  const Result<ConnectionManager*> manager = ConnectionManager::get();
  if (!manager.ok()) return manager.status();
  if (!(attributes.comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attributes.pd) attributes.pd = id.base.pd;
  attributes.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  if (!attributes.pd || attributes.pd->context != id.base.verbs) return {EINVAL};
  const bool is_xrc = attributes.srq_type == IBV_SRQT_XRC;
  if (is_xrc && (!(attributes.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attributes.xrcd)) {
    const Result<ibv_xrcd*> domain = manager.value()->default_xrc_domain();
    if (!domain.ok()) return domain.status();
    attributes.xrcd = domain.value();
    attributes.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
  }
  if (is_xrc && (!(attributes.comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attributes.cq)) {
    if (!id.base.recv_cq) id.base.recv_cq = create_cq(id, attributes.attr.max_wr, id.base.recv_cq_channel);
    if (!id.base.recv_cq) return failed();
    attributes.cq = id.base.recv_cq;
    attributes.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
  }
  ibv_srq* const srq = ibv_create_srq_ex(id.base.verbs, &attributes);
  if (!srq) {
    const Status why = failed();
    if (!id.base.qp) destroy_cqs(id.base);
    return why;
  }
  id.base.pd = srq->pd;
  id.base.srq = srq;
  return Status::success();
}

void destroy_shared_receive_queue(IdObject& id) {
  if (id.base.srq) ibv_destroy_srq(std::exchange(id.base.srq, nullptr));
  if (!id.base.qp) destroy_cqs(id.base);
}

Status connect_queue_pair(IdObject& id, std::optional<Depths> own) {
  if (!id.view.qp) return {EINVAL};
  if (own) {
    id.view.qp->max_dest_rd_atomic = own->responder_resources;
    id.view.qp->max_rd_atomic = own->initiator_depth;
  }
  // INIT once more: what the peer may do is known only now.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    const Result<Transition> to = transition_to(state, id);
    if (!to.ok()) return to.status();
    if (const Status led = modify(id.base.qp, to.value()); !led.ok()) return led;
  }
  return Status::success();
}

void fail_queue_pair(const IdObject& id) {
  if (!id.base.qp || id.is_for_datagrams()) return;
  // From RESET there is nothing to fail.
  [[maybe_unused]] const Status led = modify(id.base.qp, {{.qp_state = IBV_QPS_ERR}, IBV_QP_STATE});
}

Status attach(const IdObject& id, MembershipObject& membership, const Gid& group) {
  if (!id.base.qp || !membership.receives) return Status::success();
  std::ranges::copy(group.bytes, membership.gid.raw);
  const Status attached{ibv_attach_mcast(id.base.qp, &membership.gid, 0)};
  if (attached.ok()) membership.attached = id.base.qp;
  return attached;
}

void detach(MembershipObject& membership) {
  if (membership.attached) ibv_detach_mcast(std::exchange(membership.attached, nullptr), &membership.gid, 0);
}

}  // namespace verbatim::api
