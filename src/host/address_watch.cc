#include "host/address_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

namespace verbatim::host {

Result<AddressWatch> AddressWatch::open() {
  FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!socket.valid()) return Status{errno};
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) return Status{errno};
  return AddressWatch(std::move(socket));
}

// ENOBUFS says that messages were lost, which is one more reason to look.
void AddressWatch::drain() const {
  char byte;
  while (::recv(socket_.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == EINTR ||
         errno == ENOBUFS) {
  }
}

}  // namespace verbatim::host
