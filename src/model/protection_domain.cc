#include "model/protection_domain.h"

#include <cerrno>

#include "base/undo.h"
#include "model/device.h"

namespace verbatim::model {

Result<std::unique_ptr<ProtectionDomain>> ProtectionDomain::create(Device& device) {
  if (!device.pds.take(device.attributes().max_pd)) return Status{ENOMEM};
  Undo taken([&] { device.pds.give_back(); });
  std::unique_ptr<ProtectionDomain> domain(new ProtectionDomain(device, device.next_pd_id(), nullptr));
  taken.keep();
  return domain;
}

std::unique_ptr<ProtectionDomain> ProtectionDomain::over(ProtectionDomain& real) {
  std::unique_ptr<ProtectionDomain> domain(new ProtectionDomain(real.device_, real.id_, &real));
  real.add_user();
  return domain;
}

ProtectionDomain::~ProtectionDomain() {
  if (real_)
    real_->remove_user();
  else
    device_.pds.give_back();
}

}  // namespace verbatim::model
