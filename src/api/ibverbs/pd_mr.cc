// Protection domains and memory regions: ibv_alloc_pd(3), ibv_reg_mr(3).
#include "api/ibverbs/objects.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace verbatim;
using namespace verbatim::api;

namespace {

ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  PdObject& domain = object_of(pd);
  ContextObject& context = object_of(pd->context);
  auto object = std::make_unique<MrObject>();
  Result<std::unique_ptr<model::MemoryRegion>> region =
      model::MemoryRegion::register_memory(context.device, *domain.impl,
                                           {.address = reinterpret_cast<uint64_t>(address),
                                            .length = length,
                                            .iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
                                            .access = access});
  if (!region.ok()) return fail(region.error());
  object->impl = region.take();
  const uint32_t key = object->impl->key().value;
  object->base = {
      .context = pd->context, .pd = pd, .addr = address, .length = length, .handle = key, .lkey = key, .rkey = key};
  return &context.mrs.add(std::move(object))->base;
}

}  // namespace

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ContextObject& owner = object_of(context);
  Result<std::unique_ptr<model::ProtectionDomain>> domain = model::ProtectionDomain::create(owner.device);
  if (!domain.ok()) return fail(domain.error());
  auto object = std::make_unique<PdObject>();
  object->impl = domain.take();
  object->base = {.context = context, .handle = object->impl->id().value};
  return &owner.pds.add(std::move(object))->base;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  PdObject& object = object_of(pd);
  if (object.impl->in_use()) return EBUSY;
  object_of(pd->context).pds.take(&object);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
  object_of(mr->context).mrs.take(&object_of(mr));
  return 0;
}

}  // extern "C"
