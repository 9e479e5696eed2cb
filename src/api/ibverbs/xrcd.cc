// XRC domains: ibv_open_xrcd(3), ibv_close_xrcd(3). They do not reach beyond their process.
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"
#include "runtime/process.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* init) {
  constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (init->comp_mask & ~kNeeded) return fail(EOPNOTSUPP);
  if (init->comp_mask != kNeeded) return fail(EINVAL);
  const Result<runtime::Process*> process = runtime::Process::get();
  if (!process.ok()) return fail(process.error());
  ContextObject& owner = object_of(context);
  Result<std::shared_ptr<model::XrcDomain>> domain = process.value()->xrc_domains().open(init->fd, init->oflags);
  if (!domain.ok()) return fail(domain.error());
  auto object = std::make_unique<XrcdObject>();
  object->base.context = context;
  object->impl = domain.take();
  return &owner.xrcds.add(std::move(object))->base;
}

int close_xrcd(ibv_xrcd* xrcd) {
  XrcdObject& object = object_of(xrcd);
  if (object.users.load(std::memory_order_acquire) != 0) return EBUSY;  // pairs with ~DomainUse
  object_of(xrcd->context).xrcds.take(&object);
  return 0;
}

}  // namespace

void verbatim::api::fill_xrc_domain_slots(verbs_context& context) {
  context.open_xrcd = or_no_memory<open_xrcd>;
  context.close_xrcd = close_xrcd;
}
