// Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_null_mr(3), ibv_advise_mr(3).
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"
#include "model/memory_advice.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace verbatim;
using namespace verbatim::api;

static_assert(static_cast<int>(model::MemoryAdvice::prefetch) == IBV_ADVISE_MR_ADVICE_PREFETCH);
static_assert(static_cast<int>(model::MemoryAdvice::prefetch_write) == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
static_assert(static_cast<int>(model::MemoryAdvice::prefetch_present) == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);

namespace {

ibv_mr* hand_out(ibv_pd* pd, void* address, size_t length, std::unique_ptr<model::MemoryRegion> region) {
  auto object = std::make_unique<MrObject>();
  object->impl = std::move(region);
  const uint32_t key = object->impl->key().value;
  object->base = {
      .context = pd->context, .pd = pd, .addr = address, .length = length, .handle = key, .lkey = key, .rkey = key};
  return &object_of(pd->context).mrs.add(std::move(object))->base;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  Result<std::unique_ptr<model::MemoryRegion>> region =
      model::MemoryRegion::register_memory(object_of(pd->context).device, *object_of(pd).impl,
                                           {.address = reinterpret_cast<uint64_t>(address),
                                            .length = length,
                                            .iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
                                            .access = access});
  if (!region.ok()) return fail(region.error());
  return hand_out(pd, address, length, region.take());
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  Result<std::unique_ptr<model::MemoryRegion>> region =
      model::MemoryRegion::register_null(object_of(pd->context).device, *object_of(pd).impl);
  if (!region.ok()) return fail(region.error());
  ibv_mr* const mr = hand_out(pd, nullptr, SIZE_MAX, region.take());
  // It is not exposed to peers, and no peer's request can name key 0.
  mr->rkey = 0;
  return mr;
}

// What advice there is, and that waiting is all the flags can ask for: prefetching always has ended on return.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges, uint32_t count) {
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  if (flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) return EINVAL;
  return model::advise(object_of(pd->context).device, *object_of(pd).impl, static_cast<model::MemoryAdvice>(advice),
                       {reinterpret_cast<const Sge*>(sges), count})
      .error;
}

int reregister(MrObject* object, const model::MemoryRegion::Change& change) {
  return object->impl->reregister(change).error;
}

int rereg_error(ibv_rereg_mr_err_code code, int error) {
  errno = error;
  return code;
}

}  // namespace

void verbatim::api::fill_memory_slots(verbs_context& context) {
  context.alloc_null_mr = or_no_memory<alloc_null_mr>;
  context.advise_mr = or_no_memory<advise_mr>;
}

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return or_no_memory<register_memory>(pd, addr, length, reinterpret_cast<uint64_t>(addr),
                                       static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return or_no_memory<register_memory>(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access) {
  return or_no_memory<register_memory>(pd, addr, length, iova, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
  MrObject& object = object_of(mr);
  if (!object.impl->withdraw()) return EBUSY;
  object_of(mr->context).mrs.take(&object);
  return 0;
}

// Whatever the error, the region is what it was.
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  model::MemoryRegion::Change change;
  if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) return rereg_error(IBV_REREG_MR_ERR_INPUT, EINVAL);
  if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
    if (!addr || length == 0) return rereg_error(IBV_REREG_MR_ERR_INPUT, EINVAL);
    change.range = {reinterpret_cast<uint64_t>(addr), length};
  }
  if (flags & IBV_REREG_MR_CHANGE_PD) {
    if (!pd || pd->context != mr->context) return rereg_error(IBV_REREG_MR_ERR_INPUT, EINVAL);
    change.pd = object_of(pd).impl.get();
  }
  if (flags & IBV_REREG_MR_CHANGE_ACCESS)
    change.access = static_cast<unsigned>(access);
  else if (access != 0)
    return rereg_error(IBV_REREG_MR_ERR_INPUT, EINVAL);
  if (flags == 0) return rereg_error(IBV_REREG_MR_ERR_CMD, EINVAL);
  if (const int error = or_no_memory<reregister>(&object_of(mr), change); error != 0)
    return rereg_error(IBV_REREG_MR_ERR_CMD, error);
  if (change.pd) mr->pd = pd;
  if (change.range) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

}  // extern "C"
