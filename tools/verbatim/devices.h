// `verbatim devices`: what a program sees when it asks for RDMA devices.
#pragma once

namespace verbatim::tool {

// Loads the libibverbs.so.1 of this installation and prints each device, its ports and their GIDs through the public
// verbs alone. Returns the exit status: 1, after a sentence on stderr, when the library cannot be loaded or has no
// device.
int print_devices();

}  // namespace verbatim::tool
