// `verbatim doctor`: what this machine allows, and what follows from it for speed and reach.
#pragma once

namespace verbatim::tool {

// Prints a line for each check, and a verdict. Returns the exit status: 1 when something is missing without which
// programs do not run as on an RDMA NIC. For a process of one thread: it forks.
int examine_machine();

}  // namespace verbatim::tool
