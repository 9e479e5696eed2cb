// A program that uses all of <rdma/rdma_verbs.h>, whoever's it is. Only compiled (abi_rdma_verbs_header.py), as C and
// as C++. The pointers hold each function to its exact type.
#include <rdma/rdma_verbs.h>

#if defined(EXPECT_OURS) != defined(RDMA_VERBS_FUNCTION)
#error "another header was found than the one under test"
#endif

typedef struct rdma_cm_id* Id;
typedef struct ibv_mr* Mr;

int (*create_srq)(Id, struct ibv_pd*, struct ibv_srq_init_attr*) = rdma_create_srq;
int (*create_srq_ex)(Id, struct ibv_srq_init_attr_ex*) = rdma_create_srq_ex;
void (*destroy_srq)(Id) = rdma_destroy_srq;
int (*set_errno)(int) = rdma_seterrno;
Mr (*reg_msgs)(Id, void*, size_t) = rdma_reg_msgs;
Mr (*reg_read)(Id, void*, size_t) = rdma_reg_read;
Mr (*reg_write)(Id, void*, size_t) = rdma_reg_write;
int (*dereg_mr)(Mr) = rdma_dereg_mr;
int (*post_recv)(Id, void*, void*, size_t, Mr) = rdma_post_recv;
int (*post_recvv)(Id, void*, struct ibv_sge*, int) = rdma_post_recvv;
int (*post_send)(Id, void*, void*, size_t, Mr, int) = rdma_post_send;
int (*post_sendv)(Id, void*, struct ibv_sge*, int, int) = rdma_post_sendv;
int (*post_read)(Id, void*, void*, size_t, Mr, int, uint64_t, uint32_t) = rdma_post_read;
int (*post_readv)(Id, void*, struct ibv_sge*, int, int, uint64_t, uint32_t) = rdma_post_readv;
int (*post_write)(Id, void*, void*, size_t, Mr, int, uint64_t, uint32_t) = rdma_post_write;
int (*post_writev)(Id, void*, struct ibv_sge*, int, int, uint64_t, uint32_t) = rdma_post_writev;
int (*post_ud_send)(Id, void*, void*, size_t, Mr, int, struct ibv_ah*, uint32_t) = rdma_post_ud_send;
int (*get_send_comp)(Id, struct ibv_wc*) = rdma_get_send_comp;
int (*get_recv_comp)(Id, struct ibv_wc*) = rdma_get_recv_comp;

// As programs call them.
int exchange(Id id, char* buffer, size_t length) {
  struct ibv_wc completion;
  Mr region = rdma_reg_msgs(id, buffer, length);
  if (!region) return -1;
  if (rdma_post_recv(id, NULL, buffer, length, region)) return -1;
  if (rdma_post_send(id, NULL, buffer, length, region, IBV_SEND_SIGNALED | IBV_SEND_INLINE)) return -1;
  if (rdma_get_send_comp(id, &completion) <= 0 || rdma_get_recv_comp(id, &completion) <= 0) return -1;
  return rdma_dereg_mr(region);
}
