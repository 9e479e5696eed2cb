// <rdma/rdma_verbs.h>: the verbs that programs use most, on what an rdma_cm_id holds. rdma_verbs(7).
//
// It takes the place of the header of that name in librdmacm-dev, whose other headers it needs: the same functions with
// the same meaning, so that a program may be compiled with either. What is here is inline and needs no library but
// libibverbs. Verbatim's librdmacm exports the same functions in its version node VERBATIM_1.0, for languages that do
// not read C headers.
//
// rdma_reg_*: a memory region, or NULL with errno. The others: 0, the number of completions, or -1 with errno; EINVAL
// if the identifier has no protection domain, queue pair or completion queue yet. What verbs allow to threads is
// allowed here (ibv_post_send(3)); what an identifier holds must not be changed meanwhile. Nothing is allocated, and
// nothing is kept of the arguments but what the work request says. `context` comes back as the completion's wr_id.
//
// C99 or C++11 and later.
#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A source that defines it as nothing gets functions to export, not inline ones.
#ifndef RDMA_VERBS_FUNCTION
#define RDMA_VERBS_FUNCTION static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- shared receive queues: librdmacm ----

int rdma_create_srq(struct rdma_cm_id* id, struct ibv_pd* pd, struct ibv_srq_init_attr* attr);
int rdma_create_srq_ex(struct rdma_cm_id* id, struct ibv_srq_init_attr_ex* attr);
void rdma_destroy_srq(struct rdma_cm_id* id);

// ---- what the functions share ----

// What most verbs return, 0 or an errno, as librdmacm says it.
static inline int rdma_seterrno(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

static inline struct ibv_mr* verbatim_rdma_register(struct rdma_cm_id* id, void* addr, size_t length, int access) {
  if (!id->pd) {
    errno = EINVAL;
    return NULL;
  }
  return ibv_reg_mr(id->pd, addr, length, access);
}

// Of a buffer without a region, as inline data may be, the lkey is 0. A length beyond what an SGE can say becomes the
// longest, which is more than any message may have.
static inline struct ibv_sge verbatim_rdma_sge(void* addr, size_t length, const struct ibv_mr* mr) {
  struct ibv_sge sge;
  sge.addr = (uint64_t)(uintptr_t)addr;
  sge.length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
  sge.lkey = mr ? mr->lkey : 0;
  return sge;
}

static inline int verbatim_rdma_receive(struct rdma_cm_id* id, void* context, struct ibv_sge* sgl, int nsge) {
  struct ibv_recv_wr request;
  struct ibv_recv_wr* refused;
  request.wr_id = (uintptr_t)context;
  request.next = NULL;
  request.sg_list = sgl;
  request.num_sge = nsge;
  if (id->srq) return rdma_seterrno(ibv_post_srq_recv(id->srq, &request, &refused));
  return rdma_seterrno(id->qp ? ibv_post_recv(id->qp, &request, &refused) : EINVAL);
}

// A message, until it is made something else.
static inline struct ibv_send_wr verbatim_rdma_request(void* context, struct ibv_sge* sgl, int nsge, int flags) {
  struct ibv_send_wr request;
  memset(&request, 0, sizeof request);
  request.wr_id = (uintptr_t)context;
  request.sg_list = sgl;
  request.num_sge = nsge;
  request.opcode = IBV_WR_SEND;
  request.send_flags = (unsigned int)flags;
  return request;
}

static inline int verbatim_rdma_send(struct rdma_cm_id* id, struct ibv_send_wr* request) {
  struct ibv_send_wr* refused;
  return rdma_seterrno(id->qp ? ibv_post_send(id->qp, request, &refused) : EINVAL);
}

static inline int verbatim_rdma_read(struct rdma_cm_id* id, struct ibv_send_wr request, uint64_t remote_addr,
                                     uint32_t rkey) {
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = remote_addr;
  request.wr.rdma.rkey = rkey;
  return verbatim_rdma_send(id, &request);
}

static inline int verbatim_rdma_write(struct rdma_cm_id* id, struct ibv_send_wr request, uint64_t remote_addr,
                                      uint32_t rkey) {
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = remote_addr;
  request.wr.rdma.rkey = rkey;
  return verbatim_rdma_send(id, &request);
}

// 1, or -1 with errno. What comes between the first look and the arming is found by the second; what comes later makes
// an event. Events that are left over from earlier calls only cost another look.
static inline int verbatim_rdma_await(struct ibv_cq* cq, struct ibv_comp_channel* channel, struct ibv_wc* wc) {
  for (;;) {
    struct ibv_cq* announced;
    void* cq_context;
    int count, error;
    if (!cq) return rdma_seterrno(EINVAL);
    count = ibv_poll_cq(cq, 1, wc);
    if (count == 0) {
      error = ibv_req_notify_cq(cq, 0);
      if (error) return rdma_seterrno(error);
      count = ibv_poll_cq(cq, 1, wc);
    }
    if (count > 0) return count;
    if (count < 0) return rdma_seterrno(EIO);
    if (!channel) return rdma_seterrno(EINVAL);
    if (ibv_get_cq_event(channel, &announced, &cq_context)) return -1;
    ibv_ack_cq_events(announced, 1);
  }
}

// ---- memory regions ----

// For messages at either end, the target of a READ and the source of a WRITE.
RDMA_VERBS_FUNCTION struct ibv_mr* rdma_reg_msgs(struct rdma_cm_id* id, void* addr, size_t length) {
  return verbatim_rdma_register(id, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

// The same, and a peer may read it.
RDMA_VERBS_FUNCTION struct ibv_mr* rdma_reg_read(struct rdma_cm_id* id, void* addr, size_t length) {
  return verbatim_rdma_register(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

// The same, and a peer may write to it.
RDMA_VERBS_FUNCTION struct ibv_mr* rdma_reg_write(struct rdma_cm_id* id, void* addr, size_t length) {
  return verbatim_rdma_register(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

RDMA_VERBS_FUNCTION int rdma_dereg_mr(struct ibv_mr* mr) { return rdma_seterrno(ibv_dereg_mr(mr)); }

// ---- receives, to the identifier's shared receive queue if it has one ----

RDMA_VERBS_FUNCTION int rdma_post_recv(struct rdma_cm_id* id, void* context, void* addr, size_t length,
                                       struct ibv_mr* mr) {
  struct ibv_sge sge = verbatim_rdma_sge(addr, length, mr);
  return verbatim_rdma_receive(id, context, &sge, 1);
}

RDMA_VERBS_FUNCTION int rdma_post_recvv(struct rdma_cm_id* id, void* context, struct ibv_sge* sgl, int nsge) {
  return verbatim_rdma_receive(id, context, sgl, nsge);
}

// ---- messages; flags: of enum ibv_send_flags. Without IBV_SEND_SIGNALED, success has no completion ----

// mr: may be NULL with IBV_SEND_INLINE, here and in what follows.
RDMA_VERBS_FUNCTION int rdma_post_send(struct rdma_cm_id* id, void* context, void* addr, size_t length,
                                       struct ibv_mr* mr, int flags) {
  struct ibv_sge sge = verbatim_rdma_sge(addr, length, mr);
  struct ibv_send_wr request = verbatim_rdma_request(context, &sge, 1, flags);
  return verbatim_rdma_send(id, &request);
}

RDMA_VERBS_FUNCTION int rdma_post_sendv(struct rdma_cm_id* id, void* context, struct ibv_sge* sgl, int nsge,
                                        int flags) {
  struct ibv_send_wr request = verbatim_rdma_request(context, sgl, nsge, flags);
  return verbatim_rdma_send(id, &request);
}

// A datagram, to a queue pair with the Q_Key of RDMA CM.
RDMA_VERBS_FUNCTION int rdma_post_ud_send(struct rdma_cm_id* id, void* context, void* addr, size_t length,
                                          struct ibv_mr* mr, int flags, struct ibv_ah* ah, uint32_t remote_qpn) {
  struct ibv_sge sge = verbatim_rdma_sge(addr, length, mr);
  struct ibv_send_wr request = verbatim_rdma_request(context, &sge, 1, flags);
  request.wr.ud.ah = ah;
  request.wr.ud.remote_qpn = remote_qpn;
  request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  return verbatim_rdma_send(id, &request);
}

// ---- the peer's memory ----

RDMA_VERBS_FUNCTION int rdma_post_read(struct rdma_cm_id* id, void* context, void* addr, size_t length,
                                       struct ibv_mr* mr, int flags, uint64_t remote_addr, uint32_t rkey) {
  struct ibv_sge sge = verbatim_rdma_sge(addr, length, mr);
  return verbatim_rdma_read(id, verbatim_rdma_request(context, &sge, 1, flags), remote_addr, rkey);
}

RDMA_VERBS_FUNCTION int rdma_post_readv(struct rdma_cm_id* id, void* context, struct ibv_sge* sgl, int nsge, int flags,
                                        uint64_t remote_addr, uint32_t rkey) {
  return verbatim_rdma_read(id, verbatim_rdma_request(context, sgl, nsge, flags), remote_addr, rkey);
}

RDMA_VERBS_FUNCTION int rdma_post_write(struct rdma_cm_id* id, void* context, void* addr, size_t length,
                                        struct ibv_mr* mr, int flags, uint64_t remote_addr, uint32_t rkey) {
  struct ibv_sge sge = verbatim_rdma_sge(addr, length, mr);
  return verbatim_rdma_write(id, verbatim_rdma_request(context, &sge, 1, flags), remote_addr, rkey);
}

RDMA_VERBS_FUNCTION int rdma_post_writev(struct rdma_cm_id* id, void* context, struct ibv_sge* sgl, int nsge, int flags,
                                         uint64_t remote_addr, uint32_t rkey) {
  return verbatim_rdma_write(id, verbatim_rdma_request(context, sgl, nsge, flags), remote_addr, rkey);
}

// ---- completions: the next one, waiting for it; 1, or -1 with errno ----

// Of what rdma_post_send() and the others post to the send queue. EAGAIN: none yet, and the channel is non-blocking.
RDMA_VERBS_FUNCTION int rdma_get_send_comp(struct rdma_cm_id* id, struct ibv_wc* wc) {
  return verbatim_rdma_await(id->send_cq, id->send_cq_channel, wc);
}

// Of receives.
RDMA_VERBS_FUNCTION int rdma_get_recv_comp(struct rdma_cm_id* id, struct ibv_wc* wc) {
  return verbatim_rdma_await(id->recv_cq, id->recv_cq_channel, wc);
}

#ifdef __cplusplus
}
#endif

#endif
