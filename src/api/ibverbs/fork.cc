// ibv_fork_init(3): registered memory needs no protection from fork, because nothing is pinned.
#include <infiniband/verbs.h>

extern "C" {

int ibv_fork_init(void) { return 0; }

ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

}  // extern "C"
