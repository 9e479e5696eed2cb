// RDMA WRITE by the synchronous calls of librdmacm. `cm_write PORT` offers its memory to a client, whose address and
// key travel as private data; `cm_write PORT HOST` writes there. Builds with: cc cm_write.c -lrdmacm -libverbs
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1 << 20 };
static uint8_t memory[LENGTH];

struct offer {
  uint64_t address;
  uint32_t rkey;
};

static void need(int condition, const char* what) {
  if (condition) return;
  perror(what);
  exit(1);
}

static uint8_t pattern(int i) { return (uint8_t)(i * 7 + 1); }

// One that listens where `host` is NULL, or that has found its way there.
static struct rdma_cm_id* endpoint(const char* host, const char* port) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = host ? 0 : RAI_PASSIVE}, *where;
  struct ibv_qp_init_attr attributes = {.cap = {2, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  struct rdma_cm_id* id;
  need(rdma_getaddrinfo(host, port, &hints, &where) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(&id, where, NULL, &attributes) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(where);
  return id;
}

static void serve(const char* port) {
  struct rdma_cm_id *listener = endpoint(NULL, port), *id;
  struct ibv_wc wc;
  need(rdma_listen(listener, 1) == 0, "rdma_listen");
  puts("listening");
  fflush(stdout);
  need(rdma_get_request(listener, &id) == 0, "rdma_get_request");
  struct ibv_mr* mr = rdma_reg_write(id, memory, LENGTH);
  need(mr && rdma_post_recv(id, NULL, NULL, 0, mr) == 0, "rdma_post_recv");
  struct offer offer = {(uintptr_t)memory, mr->rkey};
  struct rdma_conn_param parameters = {.private_data = &offer,
                                       .private_data_len = sizeof offer,
                                       .responder_resources = RDMA_MAX_RESP_RES,
                                       .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                       .rnr_retry_count = 7};
  need(rdma_accept(id, &parameters) == 0, "rdma_accept");
  // The client's message says that it has written.
  need(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_get_recv_comp");
  for (int i = 0; i < LENGTH; ++i) need(memory[i] == pattern(i), "other bytes");
  printf("was written %d bytes\n", LENGTH);
  rdma_disconnect(id);
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listener);
}

static void ask(const char* host, const char* port) {
  struct rdma_cm_id* id = endpoint(host, port);
  struct ibv_wc wc;
  struct offer offer;
  int own;
  need(rdma_connect(id, NULL) == 0, "rdma_connect");
  // What the server has said stays until the next call.
  offer = *(const struct offer*)id->event->param.conn.private_data;
  struct ibv_mr* mr = rdma_reg_msgs(id, memory, LENGTH);
  need(mr != NULL, "rdma_reg_msgs");
  for (int i = 0; i < LENGTH; ++i) memory[i] = pattern(i);
  need(rdma_post_write(id, &own, memory, LENGTH, mr, 0, offer.address, offer.rkey) == 0, "rdma_post_write");
  // The context comes back as wr_id.
  need(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)&own,
       "rdma_get_send_comp");
  printf("wrote %d bytes\n", LENGTH);
  need(rdma_post_send(id, NULL, NULL, 0, mr, 0) == 0, "rdma_post_send");
  need(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_get_send_comp");
  rdma_disconnect(id);
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: cm_write PORT [HOST]\n"), 2;
  if (argc > 2)
    ask(argv[2], argv[1]);
  else
    serve(argv[1]);
  return 0;
}
