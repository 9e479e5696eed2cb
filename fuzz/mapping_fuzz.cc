// A line of /proc/PID/maps: whoever names a file decides on most of it.
#include <cstdlib>

#include "local/maps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto mapping = verbatim::local::parse_mapping(line);
  if (mapping && !line.ends_with(mapping->path)) abort();
  return 0;
}
