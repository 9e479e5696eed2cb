// Events on their way from the agent to the program: each does to its identifier what rdma_cm(7) says, and may become
// another one by that.
#pragma once

#include "api/rdmacm/objects.h"
#include "base/result.h"

namespace verbatim::api {

// The next event of a channel, which the program will acknowledge. Waits, and may be cancelled, as
// CmChannel::take_event() says.
Result<EventObject*> next_event(EventChannelObject& channel);

// rdma_ack_cm_event(3).
void acknowledge(EventObject& event);

// Of a synchronous identifier: acknowledges the event that its last call ended with.
void acknowledge_last(IdObject& id);

// The end of a call that began something: a synchronous identifier waits for the event that says what came of it, which
// then is base.event. Fails with what the event says has failed: ECONNREFUSED for a rejection.
Status complete(IdObject& id);

}  // namespace verbatim::api
