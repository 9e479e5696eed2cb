// SEND and RECV over a reliable connection. `send_recv PORT` waits, `send_recv PORT HOST` sends it a message, and both
// check what they get. The two find each other over TCP. Builds with: cc send_recv.c -libverbs
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LENGTH = 8192, PORT = 1, GID_INDEX = 0 };

struct address {
  uint32_t qp_num;
  union ibv_gid gid;
};

static void need(int condition, const char* what) {
  if (condition) return;
  perror(what);
  exit(1);
}

// A TCP connection to `host`, or from whoever comes when it is NULL.
static int meet(const char* host, const char* port) {
  const int yes = 1;
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *where;
  need(getaddrinfo(host, port, &hints, &where) == 0, "getaddrinfo");
  const int s = socket(where->ai_family, where->ai_socktype, 0);
  if (host) {
    need(connect(s, where->ai_addr, where->ai_addrlen) == 0, "connect");
    return s;
  }
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  need(bind(s, where->ai_addr, where->ai_addrlen) == 0 && listen(s, 1) == 0, "bind");
  return accept(s, NULL, NULL);
}

static void to_rts(struct ibv_qp* qp, const struct address* peer) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = peer->qp_num,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1, .port_num = PORT}};
  rtr.ah_attr.grh.dgid = peer->gid;
  rtr.ah_attr.grh.sgid_index = GID_INDEX;
  rtr.ah_attr.grh.hop_limit = 64;
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  need(!(errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) &&
           !(errno = ibv_modify_qp(qp, &rtr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) &&
           !(errno = ibv_modify_qp(qp, &rts,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC)),
       "ibv_modify_qp");
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: send_recv PORT [HOST]\n"), 2;
  const int sends = argc > 2;
  static uint8_t buffer[LENGTH];
  struct ibv_device** devices = ibv_get_device_list(NULL);
  need(devices && devices[0], "no RDMA device");
  struct ibv_context* context = ibv_open_device(devices[0]);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  struct ibv_qp* qp = ibv_create_qp(pd, &wanted);
  struct address own = {.qp_num = qp ? qp->qp_num : 0}, peer;
  need(mr && qp && !ibv_query_gid(context, PORT, GID_INDEX, &own.gid), "ibv_create_qp");

  const int tcp = meet(argv[2], argv[1]);
  need(write(tcp, &own, sizeof own) == sizeof own && read(tcp, &peer, sizeof peer) == sizeof peer, "TCP");
  to_rts(qp, &peer);

  struct ibv_sge sge = {(uintptr_t)buffer, sizeof buffer, mr->lkey};
  struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                     *bad_send;
  struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
  for (int i = 0; sends && i < LENGTH; ++i) buffer[i] = (uint8_t)(i * 7);
  need(!(errno = sends ? ibv_post_send(qp, &send, &bad_send) : ibv_post_recv(qp, &receive, &bad_receive)), "post");
  struct ibv_wc completion;
  while (ibv_poll_cq(cq, 1, &completion) == 0) continue;
  need(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
  for (int i = 0; i < LENGTH; ++i) need(buffer[i] == (uint8_t)(i * 7), "wrong data");
  printf("%s %d bytes\n", sends ? "sent" : "received", LENGTH);
  need(write(tcp, "", 1) == 1 && read(tcp, &peer, 1) == 1, "TCP");  // neither leaves before the other is done
  return ibv_destroy_qp(qp) || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
         ibv_close_device(context);
}
