// Protection domains: ibv_alloc_pd(3).
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

ibv_pd* alloc_pd(ibv_context* context) {
  ContextObject& owner = object_of(context);
  Result<std::unique_ptr<model::ProtectionDomain>> domain = model::ProtectionDomain::create(owner.device);
  if (!domain.ok()) return fail(domain.error());
  auto object = std::make_unique<PdObject>();
  object->impl = domain.take();
  object->base = {.context = context, .handle = object->impl->id().value};
  return &owner.pds.add(std::move(object))->base;
}

}  // namespace

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) { return or_no_memory<alloc_pd>(context); }

int ibv_dealloc_pd(ibv_pd* pd) {
  PdObject& object = object_of(pd);
  if (object.impl->in_use()) return EBUSY;
  if (object.impl->is_parent_domain())
    free_parent_domain(object);
  else
    object_of(pd->context).pds.take(&object);
  return 0;
}

}  // extern "C"
