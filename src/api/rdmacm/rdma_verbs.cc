// The functions of our <rdma/rdma_verbs.h> as symbols: what the header defines, here not inline. rdma_verbs(7).
#define RDMA_VERBS_FUNCTION
#include "rdma/rdma_verbs.h"
