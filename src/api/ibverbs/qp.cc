// Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3).
#include "api/ibverbs/convert_queue_pair.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"
#include "api/ibverbs/qp_ex.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

// EINVAL for what no device could make, EOPNOTSUPP for a type that this one does not have.
int check_type(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return 0;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_DRIVER:
      return EOPNOTSUPP;
  }
  return EINVAL;
}

// EOPNOTSUPP for members of ibv_qp_init_attr_ex that mean features which the device does not have.
int check_extensions(const ibv_qp_init_attr_ex& init) {
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (init.comp_mask & ~kKnown) return EOPNOTSUPP;
  if ((init.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && init.create_flags != 0) return EOPNOTSUPP;
  if (init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
    return check_builders(static_cast<QueuePairType>(init.qp_type), init.send_ops_flags).error;
  return 0;
}

// Of an object that may be left out.
template <class Object>
auto implementation(Object* object) {
  return object ? object_of(object).impl.get() : nullptr;
}

// What the C object says of a queue pair, but for the objects it uses.
void describe(QpObject& object, ibv_context* context, void* qp_context) {
  ibv_qp& base = object.base();
  base.context = context;
  base.qp_context = qp_context;
  base.handle = base.qp_num = object.impl->qpn().value;
  base.state = static_cast<ibv_qp_state>(object.impl->state());
  base.qp_type = static_cast<ibv_qp_type>(object.impl->type());
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  ContextObject& owner = object_of(context);
  if (const int error = check_type(init->qp_type)) return fail(error);
  if (const int error = check_extensions(*init)) return fail(error);
  const bool receives_only = init->qp_type == IBV_QPT_XRC_RECV;
  ibv_pd* const pd = init->comp_mask & IBV_QP_INIT_ATTR_PD ? init->pd : nullptr;
  ibv_xrcd* const xrcd = receives_only && (init->comp_mask & IBV_QP_INIT_ATTR_XRCD) ? init->xrcd : nullptr;
  if (xrcd && xrcd->context != context) return fail(EINVAL);
  auto object = std::make_unique<QpObject>();
  ibv_qp& base = object->base();
  const auto type = static_cast<QueuePairType>(init->qp_type);
  Result<std::unique_ptr<model::QueuePair>> created =
      model::QueuePair::create(owner.device, owner.events,
                               {.type = type,
                                .pd = implementation(pd),
                                .send_cq = implementation(init->send_cq),
                                .receive_cq = implementation(init->recv_cq),
                                .shared_receives = implementation(init->srq),
                                .xrc_domain = implementation(xrcd),
                                .capabilities = from_c(init->cap),
                                .signal_all = init->sq_sig_all != 0,
                                .handle = &base});
  if (!created.ok()) return fail(created.error());
  object->impl = created.take();
  if (xrcd) object->domain = DomainUse(object_of(xrcd));
  if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) install_builders(*object, type, init->send_ops_flags);
  init->cap = to_c(object->impl->capabilities());
  describe(*object, context, init->qp_context);
  base.pd = pd;
  base.send_cq = init->send_cq;
  base.recv_cq = init->recv_cq;
  base.srq = init->srq;
  return &owner.qps.add(std::move(object))->base();
}

// Once more an XRC receiver of this process. Its events go to who has created it.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if (attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) return fail(EOPNOTSUPP);
  if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV || !attr->xrcd ||
      attr->xrcd->context != context)
    return fail(EINVAL);
  ContextObject& owner = object_of(context);
  XrcdObject& domain = object_of(attr->xrcd);
  auto object = std::make_unique<QpObject>();
  object->opened = true;
  object->impl = owner.device.share({attr->qp_num});
  if (!object->impl || object->impl->xrc_domain() != domain.impl.get()) return fail(EINVAL);
  object->domain = DomainUse(domain);
  describe(*object, context, attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : nullptr);
  return &owner.qps.add(std::move(object))->base();
}

int modify(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (const Status status = object_of(qp).impl->modify(from_c(*attr), static_cast<uint32_t>(mask)); !status.ok())
    return status.error;
  if (mask & IBV_QP_STATE) qp->state = attr->qp_state;
  return 0;
}

}  // namespace

void verbatim::api::fill_queue_pair_slots(verbs_context& context) {
  context.create_qp_ex = or_no_memory<create_qp_ex>;
  context.open_qp = or_no_memory<open_qp>;
}

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  ibv_qp_init_attr_ex extended{.qp_context = init->qp_context,
                               .send_cq = init->send_cq,
                               .recv_cq = init->recv_cq,
                               .srq = init->srq,
                               .cap = init->cap,
                               .qp_type = init->qp_type,
                               .sq_sig_all = init->sq_sig_all,
                               .comp_mask = IBV_QP_INIT_ATTR_PD,
                               .pd = pd};
  ibv_qp* const qp = or_no_memory<create_qp_ex>(pd->context, &extended);
  if (qp) init->cap = extended.cap;
  return qp;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) { return or_no_memory<modify>(qp, attr, attr_mask); }

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, [[maybe_unused]] int attr_mask, ibv_qp_init_attr* init) {
  model::QueuePair& impl = *object_of(qp).impl;
  *attr = to_c(impl.query(), impl.capabilities());
  *init = {.qp_context = qp->qp_context,
           .send_cq = qp->send_cq,
           .recv_cq = qp->recv_cq,
           .srq = qp->srq,
           .cap = to_c(impl.capabilities()),
           .qp_type = qp->qp_type,
           .sq_sig_all = impl.signal_all()};
  qp->state = attr->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  if (object_of(qp->context).device.adapter().is_attached({qp->qp_num})) return EBUSY;
  object_of(qp->context).qps.take(&object_of(qp));
  return 0;
}

}  // extern "C"
