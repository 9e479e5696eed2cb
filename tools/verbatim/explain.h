// `verbatim reason`: what a vendor_err of a failed work completion means.
#pragma once

#include <string>

namespace verbatim::tool {

// Prints number, name and meaning of the reason given by number (decimal, or hexadecimal with 0x) or by name.
// Returns the exit status: 1, after a sentence on stderr, when there is none.
int explain_reason(const std::string& number_or_name);

}  // namespace verbatim::tool
