// A completion channel (ibv_create_comp_channel(3)): where the completion queues attached to it announce, one event for
// each arming, that a completion was added. It outlives them.
#pragma once

#include "model/event_queue.h"

namespace verbatim::model {

struct CompletionEvent {
  // The queue's C handle (ibv_cq*).
  void* element = nullptr;
  EventAcknowledgement* account = nullptr;
};

using CompletionChannel = EventQueue<CompletionEvent>;

}  // namespace verbatim::model
