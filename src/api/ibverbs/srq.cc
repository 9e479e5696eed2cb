// Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_modify_srq(3), ibv_query_srq(3),
// ibv_get_srq_num(3), ibv_post_srq_recv(3), ibv_destroy_srq(3).
#include "api/ibverbs/convert_work.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

// EINVAL for members that are missing, EOPNOTSUPP for those and for types that the device does not have.
int check(const ibv_srq_init_attr_ex& init, ibv_srq_type type) {
  const auto has = [&](uint32_t members) { return (init.comp_mask & members) == members; };
  constexpr uint32_t kKnown =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (type == IBV_SRQT_TM || (init.comp_mask & ~kKnown)) return EOPNOTSUPP;
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return EINVAL;
  if (!has(IBV_SRQ_INIT_ATTR_PD) || !init.pd) return EINVAL;
  if (type == IBV_SRQT_XRC && (!has(IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ) || !init.xrcd || !init.cq))
    return EINVAL;
  if (type == IBV_SRQT_XRC && init.xrcd->context != init.pd->context) return EINVAL;
  return 0;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init) {
  ContextObject& owner = object_of(context);
  const ibv_srq_type type = init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? init->srq_type : IBV_SRQT_BASIC;
  if (const int error = check(*init, type)) return fail(error);
  const bool xrc = type == IBV_SRQT_XRC;
  auto object = std::make_unique<SrqObject>();
  Result<std::unique_ptr<model::SharedReceiveQueue>> created =
      model::SharedReceiveQueue::create(owner.device, owner.events,
                                        {.pd = *object_of(init->pd).impl,
                                         .max_wr = init->attr.max_wr,
                                         .max_sge = init->attr.max_sge,
                                         .limit = 0,  // "irrelevant for ibv_create_srq": armed by ibv_modify_srq
                                         .cq = xrc ? object_of(init->cq).impl.get() : nullptr,
                                         .xrc_domain = xrc ? object_of(init->xrcd).impl.get() : nullptr,
                                         .handle = &object->base});
  if (!created.ok()) return fail(created.error());
  object->impl = created.take();
  if (xrc) object->domain = DomainUse(object_of(init->xrcd));
  init->attr.max_wr = object->impl->max_wr();
  init->attr.max_sge = object->impl->max_sge();
  object->base = {.context = context,
                  .srq_context = init->srq_context,
                  .pd = init->pd,
                  .handle = object->impl->number(),
                  .mutex = PTHREAD_MUTEX_INITIALIZER,
                  .cond = PTHREAD_COND_INITIALIZER};
  return &owner.srqs.add(std::move(object))->base;
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  *number = object_of(srq).impl->number();
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  model::SharedReceiveQueue& impl = *object_of(srq).impl;
  for (; wr; wr = wr->next) {
    const Status status = wr->num_sge < 0 ? Status{EINVAL} : impl.post(from_c(*wr));
    if (!status.ok()) {
      *bad_wr = wr;
      return status.error;
    }
  }
  return 0;
}

}  // namespace

void verbatim::api::fill_shared_receive_queue_slots(verbs_context& context) {
  context.create_srq_ex = or_no_memory<create_srq_ex>;
  context.get_srq_num = get_srq_num;
  context.context.ops.post_srq_recv = post_srq_recv;
}

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  ibv_srq_init_attr_ex extended{
      .srq_context = init->srq_context, .attr = init->attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};
  ibv_srq* const srq = or_no_memory<create_srq_ex>(pd->context, &extended);
  if (srq) init->attr = extended.attr;
  return srq;
}

// The device cannot resize (IBV_DEVICE_SRQ_RESIZE), so that IBV_SRQ_MAX_WR is EINVAL.
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (mask & ~IBV_SRQ_LIMIT) return EINVAL;
  return mask & IBV_SRQ_LIMIT ? object_of(srq).impl->set_limit(attr->srq_limit).error : 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  const model::SharedReceiveQueue& impl = *object_of(srq).impl;
  *attr = {.max_wr = impl.max_wr(), .max_sge = impl.max_sge(), .srq_limit = impl.limit()};
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  SrqObject& object = object_of(srq);
  if (object.impl->in_use()) return EBUSY;
  object_of(srq->context).srqs.take(&object);
  return 0;
}

}  // extern "C"
