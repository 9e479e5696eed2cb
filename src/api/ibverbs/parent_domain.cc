// Thread domains and parent domains: ibv_alloc_td(3), ibv_alloc_parent_domain(3). Both are inline functions of verbs.h,
// reached through slots of verbs_context. The allocators of a parent domain are for the buffers of queues that a device
// reads; ours reads none, so nothing is asked of them.
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

constexpr uint32_t kKnownAttributes = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) return fail(EINVAL);
  auto object = std::make_unique<TdObject>();
  object->base.context = context;
  return &object_of(context).tds.add(std::move(object))->base;
}

int dealloc_td(ibv_td* td) {
  TdObject& object = object_of(td);
  if (object.users.load(std::memory_order_acquire) != 0) return EBUSY;
  object_of(td->context).tds.take(&object);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  if (attr->pd == nullptr || (attr->comp_mask & ~kKnownAttributes) != 0) return fail(EINVAL);
  auto object = std::make_unique<PdObject>();
  object->impl = model::ProtectionDomain::over(*object_of(attr->pd).impl);
  object->base = {.context = context, .handle = attr->pd->handle};
  if (attr->td != nullptr) object->thread_domain = &object_of(attr->td);
  PdObject* const added = object_of(context).parent_domains.add(std::move(object));
  if (added->thread_domain) added->thread_domain->users.fetch_add(1, std::memory_order_relaxed);
  return &added->base;
}

}  // namespace

void verbatim::api::fill_parent_domain_slots(verbs_context& context) {
  context.alloc_td = or_no_memory<alloc_td>;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = or_no_memory<alloc_parent_domain>;
}

void verbatim::api::free_parent_domain(PdObject& object) {
  TdObject* const thread_domain = object.thread_domain;
  object_of(object.base.context).parent_domains.take(&object);
  if (thread_domain != nullptr) thread_domain->users.fetch_sub(1, std::memory_order_release);
}
