#include "conformance/support/side.h"

#include <fcntl.h>
#include <poll.h>

#include <thread>

namespace verbatim::conformance {
namespace {

ibv_context* open_first_device() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  EXPECT_GT(count, 0) << "no device";
  ibv_context* const context = count > 0 ? ibv_open_device(devices[0]) : nullptr;
  EXPECT_NE(context, nullptr) << strerror(errno);
  if (devices) ibv_free_device_list(devices);
  return context;
}

}  // namespace

void ReleaseInline::operator()(ibv_mw* window) const { EXPECT_EQ(ibv_dealloc_mw(window), 0); }
void ReleaseInline::operator()(ibv_xrcd* domain) const { EXPECT_EQ(ibv_close_xrcd(domain), 0); }

Side::Side()
    : context_(open_first_device()),
      pd_(ibv_alloc_pd(context())),
      other_pd_(ibv_alloc_pd(context())),
      cq_(ibv_create_cq(context(), 4096, nullptr, nullptr, 0)) {
  EXPECT_TRUE(pd_ && other_pd_ && cq_) << strerror(errno);
}

ibv_gid Side::gid() const {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context(), kPort, 0, &gid), 0);
  return gid;
}

MrHandle Side::register_memory(const Memory& memory, unsigned access, ibv_pd* pd) const {
  MrHandle mr(ibv_reg_mr(pd ? pd : pd_.get(), memory.data(), memory.size(), static_cast<int>(access)));
  EXPECT_TRUE(mr) << strerror(errno);
  return mr;
}

QpHandle Side::create_queue_pair(ibv_qp_cap capabilities, bool signal_all, ibv_qp_type type, ibv_srq* shared) const {
  ibv_qp_init_attr init{.send_cq = cq(), .recv_cq = cq(), .srq = shared, .cap = capabilities, .qp_type = type};
  init.sq_sig_all = signal_all;
  QpHandle qp(ibv_create_qp(pd(), &init));
  EXPECT_TRUE(qp) << strerror(errno);
  return qp;
}

SrqHandle Side::create_shared_queue(ibv_xrcd* domain) const {
  const ibv_srq_attr sizes{.max_wr = kOrdinaryCapabilities.max_recv_wr, .max_sge = kOrdinaryCapabilities.max_recv_sge};
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = sizes};
  ibv_srq_init_attr_ex extended{
      .attr = sizes,
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
      .srq_type = IBV_SRQT_XRC,
      .pd = pd(),
      .xrcd = domain,
      .cq = cq()};
  SrqHandle srq(domain ? ibv_create_srq_ex(context(), &extended) : ibv_create_srq(pd(), &init));
  EXPECT_TRUE(srq) << strerror(errno);
  return srq;
}

XrcDomainHandle Side::open_xrc_domain() const {
  ibv_xrcd_init_attr init{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  XrcDomainHandle domain(ibv_open_xrcd(context(), &init));
  EXPECT_TRUE(domain) << strerror(errno);
  return domain;
}

QpHandle Side::create_xrc_receiver(ibv_xrcd* domain) const {
  ibv_qp_init_attr_ex init{.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
  init.xrcd = domain;
  QpHandle qp(ibv_create_qp_ex(context(), &init));
  EXPECT_TRUE(qp) << strerror(errno);
  return qp;
}

AhHandle Side::create_address_handle(const ibv_gid& destination) const {
  ibv_ah_attr address{.grh = {.dgid = destination, .hop_limit = 64}, .is_global = 1, .port_num = kPort};
  AhHandle handle(ibv_create_ah(pd(), &address));
  EXPECT_TRUE(handle) << strerror(errno);
  return handle;
}

std::optional<ibv_wc> Side::poll(std::chrono::nanoseconds patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    ibv_wc completion{};
    const int count = ibv_poll_cq(cq(), 1, &completion);
    EXPECT_GE(count, 0);
    if (count == 1) return completion;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::yield();
  }
}

std::optional<ibv_async_event> Side::next_event(std::chrono::milliseconds patience) const {
  pollfd readable{.fd = context()->async_fd, .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context(), &event), 0);
  return event;
}

std::optional<ibv_async_event> Side::take_event(std::chrono::milliseconds patience) const {
  std::optional<ibv_async_event> event = next_event(patience);
  if (event) ibv_ack_async_event(&*event);
  return event;
}

int init_mask(ibv_qp_type type) {
  return type == IBV_QPT_UD ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : kInitMask;
}

int rtr_mask(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return IBV_QP_STATE;
  const bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
  return answers ? kRtrMask : kRtrMask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int rts_mask(ibv_qp_type type) {
  if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) return kRtsMask;
  return IBV_QP_STATE | IBV_QP_SQ_PSN | (type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0);
}

ibv_qp_attr init_attributes(const Wiring& wiring) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = wiring.access;
  attributes.qkey = wiring.qkey;
  return attributes;
}

ibv_qp_attr rtr_attributes(const Wiring& wiring, const Address& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = wiring.psn;
  attributes.max_dest_rd_atomic = wiring.max_dest_rd_atomic;
  attributes.min_rnr_timer = wiring.min_rnr_timer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = peer.gid;
  attributes.ah_attr.grh.hop_limit = 64;
  attributes.ah_attr.port_num = kPort;
  return attributes;
}

ibv_qp_attr rts_attributes(const Wiring& wiring) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = wiring.timeout;
  attributes.retry_cnt = wiring.retry_cnt;
  attributes.rnr_retry = wiring.rnr_retry;
  attributes.sq_psn = wiring.psn;
  attributes.max_rd_atomic = wiring.max_rd_atomic;
  return attributes;
}

int to_init(ibv_qp* qp, const Wiring& wiring) {
  ibv_qp_attr attributes = init_attributes(wiring);
  return ibv_modify_qp(qp, &attributes, init_mask(qp->qp_type));
}

int to_rtr(ibv_qp* qp, const Address& peer, const Wiring& wiring) {
  ibv_qp_attr attributes = rtr_attributes(wiring, peer);
  return ibv_modify_qp(qp, &attributes, rtr_mask(qp->qp_type));
}

int to_rts(ibv_qp* qp, const Wiring& wiring) {
  ibv_qp_attr attributes = rts_attributes(wiring);
  return ibv_modify_qp(qp, &attributes, rts_mask(qp->qp_type));
}

int connect(ibv_qp* qp, const Address& peer, const Wiring& wiring) {
  if (const int error = to_init(qp, wiring)) return error;
  if (const int error = to_rtr(qp, peer, wiring)) return error;
  return to_rts(qp, wiring);
}

int to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}

ibv_qp_attr query(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
  return attributes;
}

ibv_qp_state state_of(ibv_qp* qp) { return query(qp).qp_state; }

ibv_qp_cap capabilities_of(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_CAP, &init), 0);
  return init.cap;
}

}  // namespace verbatim::conformance
