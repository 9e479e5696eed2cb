#include "runtime/device_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace verbatim::runtime {
namespace {

// Names this start of this machine. machine-id(5) is second choice: containers that share a network namespace have
// their own.
std::string host_identity() {
  for (const char* path : {"/proc/sys/kernel/random/boot_id", "/etc/machine-id"}) {
    std::string line;
    if (std::ifstream file(path); std::getline(file, line) && !line.empty()) return line;
  }
  return {};
}

std::string network_namespace() {
  struct stat status;
  if (stat("/proc/self/ns/net", &status) != 0) return {};
  return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

}  // namespace

model::DeviceAttributes device_attributes(const Configuration& configuration) {
  model::DeviceAttributes attributes;
  attributes.node_guid = model::guid_from(host_identity() + " " + network_namespace());
  attributes.sys_image_guid = attributes.node_guid;
  if (configuration.vendor_id) attributes.vendor_id = *configuration.vendor_id;
  if (configuration.vendor_part_id) attributes.vendor_part_id = *configuration.vendor_part_id;
  attributes.num_comp_vectors = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  return attributes;
}

}  // namespace verbatim::runtime
