// Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3) and their companions.
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  Result<EventCounter> counter = EventCounter::create();
  if (!counter.ok()) return fail(counter.error());
  std::unique_ptr<ChannelObject> object(new ChannelObject{.impl = model::CompletionChannel(counter.take())});
  object->base = {.context = context, .fd = object->impl.fd(), .refcnt = 0};
  return &object_of(context).channels.add(std::move(object))->base;
}

}  // namespace

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) { return or_no_memory<create_comp_channel>(context); }

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  {
    const HeldMutex held(channel->context->mutex);
    if (channel->refcnt != 0) return EBUSY;
  }
  object_of(channel->context).channels.take(&object_of(channel));
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  for (;;) {
    // The program's descriptor, with the flags it has set on it. Threads are cancelled here.
    if (const Status status = EventCounter::take(channel->fd); !status.ok()) {
      errno = status.error;
      return -1;
    }
    const Result<model::CompletionEvent> next = object_of(channel).impl.next();
    // Gone with its CQ since the descriptor counted it.
    if (!next.ok()) continue;
    *cq = static_cast<ibv_cq*>(next.value().element);
    *cq_context = (*cq)->cq_context;
    return 0;
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned nevents) {
  CqObject& object = object_of(cq);
  model::CompletionChannel* const channel = cq->channel ? &object_of(cq->channel).impl : nullptr;
  {
    const HeldMutex held(cq->mutex);
    cq->comp_events_completed += nevents;
  }
  // Last: who waits for it in ibv_destroy_cq frees the CQ.
  if (channel) channel->acknowledge(&object.impl->completion_acknowledgement(), nevents);
}

}  // extern "C"
