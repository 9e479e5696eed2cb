// What two ends of a connection tell each other, between the structs of rdma_cma.h and the values of cm/. Pure.
#pragma once

#include <rdma/rdma_cma.h>

#include "cm/event.h"
#include "cm/manager.h"

namespace verbatim::api {

// What rdma_connect(3) and rdma_accept(3) are given; null: nothing but defaults. A length of no private data is none.
cm::Offer from_c(const rdma_conn_param* parameters);

// The private data is borrowed from `data`; a length of 0 has none.
rdma_conn_param to_c(const cm::ConnectParameters& parameters, const cm::PrivateData& data);

// As to_c() of a connection. Without the index of the source's GID, which only the device knows.
rdma_ud_param to_c(const cm::DatagramTarget& target, const cm::PrivateData& data);

// Without the index of the source's GID too.
ibv_ah_attr address_of(const cm::Path& path);

}  // namespace verbatim::api
