// What the environment asks for: the VERBATIM_* variables of verbatim(7). Reading prints nothing; what cannot be
// understood keeps its default and becomes a complaint for the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"

namespace verbatim::runtime {

struct Configuration {
  LogLevel log_level = LogLevel::off;      // VERBATIM_LOG=LEVEL[:FILE]
  std::string log_file;                    // a pattern as obs/log_file.h takes it; empty: stderr
  std::optional<uint32_t> vendor_id;       // VERBATIM_VENDOR_ID, 24 bits
  std::optional<uint32_t> vendor_part_id;  // VERBATIM_VENDOR_PART_ID

  // A sentence for each variable that was not understood, in the order of the environment.
  std::vector<std::string> complaints;
};

// environment: NULL-terminated "NAME=value" strings, as environ(7). Variables that do not begin with VERBATIM_ are not
// looked at.
Configuration read_configuration(const char* const* environment);

// The configuration of this process, read at the first call and never again. A program that runs with more rights than
// its user (AT_SECURE, see ld.so(8)) gets the defaults: its user must not choose what it writes. Any thread.
const Configuration& configuration();

}  // namespace verbatim::runtime
