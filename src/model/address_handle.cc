#include "model/address_handle.h"

#include <cerrno>

#include "base/log.h"
#include "base/undo.h"
#include "model/introduction_error.h"

namespace verbatim::model {
namespace {

Status refuse(int error, Reason reason, const AddressVector& address) {
  const ReasonText& text = describe(reason);
  log(LogLevel::warn, "address handle for GID {}: {} [{}]", address.dgid.text(), text.meaning, text.name);
  return {error};
}

}  // namespace

Result<std::unique_ptr<AddressHandle>> AddressHandle::create(Device& device, ProtectionDomain& pd,
                                                             const AddressVector& address) {
  if (address.port != kPort) return Status{EINVAL};
  if (!address.is_global) return refuse(EINVAL, Reason::no_global_route, address);
  const std::optional<GidEntry> own = device.gid_at(address.sgid_index);
  if (!own || own->empty()) return Status{EINVAL};
  // No packet has a header of one family for an address of the other.
  if (own->gid.is_ipv4_mapped() != address.dgid.is_ipv4_mapped()) return Status{EINVAL};
  if (address.dgid.is_multicast()) {
    // Whoever is attached may be any process; the introductions are under way when the first message is posted.
    if (const Status wanted = device.peers().want_everyone(); !wanted.ok())
      return refuse(introduction_error(wanted).error, Reason::no_agent, address);
  } else if (!device.is_local(address.dgid)) {
    return refuse(EHOSTUNREACH, Reason::not_this_host, address);
  }
  if (!device.ahs.take(device.attributes().max_ah)) return Status{ENOMEM};
  Undo taken([&] { device.ahs.give_back(); });
  std::unique_ptr<AddressHandle> handle(new AddressHandle(device, pd,
                                                          {.source = own->gid,
                                                           .destination = address.dgid,
                                                           .flow_label = address.flow_label,
                                                           .traffic_class = address.traffic_class,
                                                           .hop_limit = address.hop_limit,
                                                           .service_level = address.service_level,
                                                           .pd = pd.id()}));
  taken.keep();
  return handle;
}

AddressHandle::AddressHandle(Device& device, ProtectionDomain& pd, const DatagramAddress& address)
    : device_(device), pd_(pd), address_(address) {
  pd_.add_user();
}

AddressHandle::~AddressHandle() {
  pd_.remove_user();
  device_.ahs.give_back();
}

}  // namespace verbatim::model
