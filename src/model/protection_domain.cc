#include "model/protection_domain.h"

#include <cerrno>

#include "model/device.h"

namespace verbatim::model {

Result<std::unique_ptr<ProtectionDomain>> ProtectionDomain::create(Device& device) {
  if (!device.pds.take(device.attributes().max_pd)) return Status{ENOMEM};
  return std::unique_ptr<ProtectionDomain>(new ProtectionDomain(device, device.next_pd_id()));
}

ProtectionDomain::~ProtectionDomain() { device_.pds.give_back(); }

}  // namespace verbatim::model
