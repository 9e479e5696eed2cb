// Completion queues: ibv_create_cq(3). Completion channels are refused: a device without completion events.
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  ContextObject& owner = object_of(context);
  if (channel || comp_vector < 0 || comp_vector >= context->num_comp_vectors) return fail(EINVAL);
  auto object = std::make_unique<CqObject>();
  Result<std::unique_ptr<model::CompletionQueue>> queue =
      model::CompletionQueue::create(owner.device, owner.events, &object->base, cqe);
  if (!queue.ok()) return fail(queue.error());
  object->impl = queue.take();
  ibv_cq& base = *ibv_cq_ex_to_cq(&object->base);
  base.context = context;
  base.cq_context = cq_context;
  base.cqe = object->impl->entries();
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  return ibv_cq_ex_to_cq(&owner.cqs.add(std::move(object))->base);
}

int ibv_destroy_cq(ibv_cq* cq) {
  CqObject& object = object_of(cq);
  if (object.impl->in_use()) return EBUSY;
  object_of(cq->context).cqs.take(&object);
  return 0;
}

}  // extern "C"
