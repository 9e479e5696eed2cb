// What the device calls itself: the attributes of model/device_attributes.h, with what the host and the environment
// decide filled in.
#pragma once

#include "model/device_attributes.h"
#include "runtime/configuration.h"

namespace verbatim::runtime {

// One node GUID for each network namespace of a host, the same in all its processes.
model::DeviceAttributes device_attributes(const Configuration& configuration);

}  // namespace verbatim::runtime
