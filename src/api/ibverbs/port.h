// The slot of verbs_context that answers for the port.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace verbatim::api {

// ibv_query_port(3) as the macro of that name reaches it: writes `port_attr_len` bytes, which is what the caller's
// header has. 0 or an errno.
int query_port(ibv_context* context, uint8_t port_num, ibv_port_attr* port_attr, size_t port_attr_len);

}  // namespace verbatim::api
