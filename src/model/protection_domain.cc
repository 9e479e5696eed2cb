#include "model/protection_domain.h"

#include <cerrno>

#include "model/device.h"

namespace verbatim::model {

Result<std::unique_ptr<ProtectionDomain>> ProtectionDomain::create(Device& device) {
  if (!device.pds.take(device.attributes().max_pd)) return Status{ENOMEM};
  return std::unique_ptr<ProtectionDomain>(new ProtectionDomain(device, device.next_pd_id(), nullptr));
}

std::unique_ptr<ProtectionDomain> ProtectionDomain::over(ProtectionDomain& real) {
  real.add_user();
  return std::unique_ptr<ProtectionDomain>(new ProtectionDomain(real.device_, real.id_, &real));
}

ProtectionDomain::~ProtectionDomain() {
  if (real_)
    real_->remove_user();
  else
    device_.pds.give_back();
}

}  // namespace verbatim::model
