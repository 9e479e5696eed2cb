// Socket addresses between programs and the connection manager. Pure.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "cm/address.h"

namespace verbatim::api {

// Null is no address. Nullopt: of a family that is neither IPv4 nor IPv6.
std::optional<cm::Address> from_c(const sockaddr* address);

// Of no address: zeros.
sockaddr_storage to_c(const cm::Address& address);

// Of what to_c() fills; 0 of no address.
socklen_t length_of(cm::Family family);

}  // namespace verbatim::api
