// Completion queues as objects: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_resize_cq(3), ibv_modify_cq(3).
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

constexpr uint64_t kTimestamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
// No VLAN tags, no flows, no tag matching.
constexpr uint64_t kReadable = IBV_WC_STANDARD_FLAGS | kTimestamps;
constexpr uint32_t kKnownAttributes = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

uint32_t flags_of(const ibv_cq_init_attr_ex& init) {
  return init.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? init.flags : 0;
}

PdObject* domain_of(const ibv_cq_init_attr_ex& init) {
  return init.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? &object_of(init.parent_domain) : nullptr;
}

// EOPNOTSUPP: what this device does not have. EINVAL: what no device could make; EBADF: the kernel does not find the
// channel's descriptor among those of another context.
int check(const ibv_context* context, const ibv_cq_init_attr_ex& init) {
  if ((init.wc_flags & ~kReadable) || (init.comp_mask & ~kKnownAttributes) || (flags_of(init) & ~kKnownFlags))
    return EOPNOTSUPP;
  if ((init.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !init.parent_domain) return EINVAL;
  if (init.cqe > INT_MAX || init.comp_vector >= static_cast<uint32_t>(context->num_comp_vectors)) return EINVAL;
  if (init.channel && init.channel->context != context) return EBADF;
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
  if (const int error = check(context, *init)) return fail(error);
  ContextObject& owner = object_of(context);
  auto object = std::make_unique<CqObject>();
  Result<std::unique_ptr<model::CompletionQueue>> queue =
      model::CompletionQueue::create(owner.device, owner.events, &object->base, static_cast<int>(init->cqe),
                                     {.channel = init->channel ? &object_of(init->channel).impl : nullptr,
                                      .ignore_overrun = (flags_of(*init) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0,
                                      .timestamps = (init->wc_flags & kTimestamps) != 0});
  if (!queue.ok()) return fail(queue.error());
  object->impl = queue.take();
  object->domain = domain_of(*init);
  ibv_cq_ex& base = object->base;
  base.context = context;
  base.channel = init->channel;
  base.cq_context = init->cq_context;
  base.cqe = object->impl->entries();
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  fill_polling_functions(base, (flags_of(*init) & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0);
  CqObject* const added = owner.cqs.add(std::move(object));
  if (added->domain) added->domain->impl->add_user();
  if (init->channel) {
    const HeldMutex held(context->mutex);
    ++init->channel->refcnt;
  }
  return &added->base;
}

int resize(ibv_cq* cq, int entries) {
  model::CompletionQueue& impl = *object_of(cq).impl;
  if (const Status status = impl.resize(entries); !status.ok()) return status.error;
  cq->cqe = impl.entries();
  return 0;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (attr->attr_mask >= IBV_CQ_ATTR_RESERVED) return EINVAL;
  if (attr->attr_mask & IBV_CQ_ATTR_MODERATE)
    object_of(cq).impl->moderate({attr->moderate.cq_count, Duration::microseconds(attr->moderate.cq_period)});
  return 0;
}

}  // namespace

void verbatim::api::fill_completion_queue_slots(verbs_context& context) {
  context.create_cq_ex = or_no_memory<create_cq_ex>;
  context.modify_cq = modify_cq;
}

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  if (cqe < 0 || comp_vector < 0) return fail(EINVAL);
  ibv_cq_init_attr_ex init{.cqe = static_cast<uint32_t>(cqe),
                           .cq_context = cq_context,
                           .channel = channel,
                           .comp_vector = static_cast<uint32_t>(comp_vector)};
  ibv_cq_ex* const cq = or_no_memory<create_cq_ex>(context, &init);
  return cq ? ibv_cq_ex_to_cq(cq) : nullptr;
}

int ibv_resize_cq(ibv_cq* cq, int cqe) { return or_no_memory<resize>(cq, cqe); }

int ibv_destroy_cq(ibv_cq* cq) {
  CqObject& object = object_of(cq);
  if (object.impl->in_use()) return EBUSY;
  ibv_context* const context = cq->context;
  ibv_comp_channel* const channel = cq->channel;
  PdObject* const domain = object.domain;
  object_of(context).cqs.take(&object);
  if (domain) domain->impl->remove_user();
  if (channel) {
    const HeldMutex held(context->mutex);
    --channel->refcnt;
  }
  return 0;
}

}  // extern "C"
