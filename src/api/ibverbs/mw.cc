// Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3). Inline functions of verbs.h call these through the context's slots.
#include "api/ibverbs/convert_work.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

static_assert(static_cast<int>(model::WindowType::one) == IBV_MW_TYPE_1);
static_assert(static_cast<int>(model::WindowType::two) == IBV_MW_TYPE_2);

namespace {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return fail(EINVAL);
  ContextObject& context = object_of(pd->context);
  Result<std::unique_ptr<model::MemoryWindow>> window =
      model::MemoryWindow::allocate(context.device, *object_of(pd).impl, static_cast<model::WindowType>(type));
  if (!window.ok()) return fail(window.error());
  auto object = std::make_unique<MwObject>();
  object->impl = window.take();
  const uint32_t key = object->impl->key().value;
  object->base = {.context = pd->context, .pd = pd, .rkey = key, .handle = key, .type = type};
  return &context.mws.add(std::move(object))->base;
}

int dealloc_mw(ibv_mw* mw) {
  object_of(mw->context).mws.take(&object_of(mw));
  return 0;
}

// Posts the request that binds a type 1 window, under the next key. What is wrong with the region is found when the
// request is executed.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  const ibv_mw_bind_info& info = bind->bind_info;
  if (mw->type != IBV_MW_TYPE_1) return EINVAL;
  if (!info.mr && (info.addr || info.length)) return EINVAL;
  if (mw->pd != qp->pd || (info.mr && info.mr->pd != mw->pd)) return EPERM;
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  SendWork work{.work_id = bind->wr_id,
                .opcode = SendOpcode::bind_window,
                .signaled = (bind->send_flags & IBV_SEND_SIGNALED) != 0,
                .fence = (bind->send_flags & IBV_SEND_FENCE) != 0};
  work.operands = from_c(*mw, key, info);
  model::QueuePair::Posting posting(*object_of(qp).impl);
  if (const Status status = posting.send(work); !status.ok()) return status.error;
  mw->rkey = key;
  return 0;
}

}  // namespace

void verbatim::api::fill_window_slots(ibv_context_ops& ops) {
  ops.alloc_mw = or_no_memory<alloc_mw>;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
}
