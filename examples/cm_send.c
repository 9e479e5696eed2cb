// SEND and RECV by the synchronous calls of librdmacm: each does its step to the end. `cm_send PORT` waits for a
// client, `cm_send PORT HOST` sends it a message and gets it back. Builds with: cc cm_send.c -lrdmacm -libverbs
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8192 };
static uint8_t message[LENGTH];

static void need(int condition, const char* what) {
  if (condition) return;
  perror(what);
  exit(1);
}

// One that listens where `host` is NULL, or that has found its way there.
static struct rdma_cm_id* endpoint(const char* host, const char* port) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = host ? 0 : RAI_PASSIVE}, *where;
  struct ibv_qp_init_attr attributes = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  struct rdma_cm_id* id;
  need(rdma_getaddrinfo(host, port, &hints, &where) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(&id, where, NULL, &attributes) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(where);
  return id;
}

static void check(uint8_t value) {
  for (int i = 0; i < LENGTH; ++i) need(message[i] == (uint8_t)(i * 7 + value), "another message");
}

static void serve(const char* port) {
  struct rdma_cm_id *listener = endpoint(NULL, port), *id;
  struct ibv_wc wc;
  need(rdma_listen(listener, 1) == 0, "rdma_listen");
  puts("listening");
  fflush(stdout);
  need(rdma_get_request(listener, &id) == 0, "rdma_get_request");
  struct ibv_mr* mr = rdma_reg_msgs(id, message, LENGTH);
  need(mr && rdma_post_recv(id, NULL, message, LENGTH, mr) == 0, "rdma_post_recv");
  need(rdma_accept(id, NULL) == 0, "rdma_accept");
  need(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == LENGTH, "rdma_get_recv_comp");
  check(1);
  need(rdma_post_send(id, NULL, message, LENGTH, mr, 0) == 0, "rdma_post_send");
  need(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_get_send_comp");
  printf("returned %d bytes\n", LENGTH);
  rdma_disconnect(id);
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listener);
}

static void ask(const char* host, const char* port) {
  struct rdma_cm_id* id = endpoint(host, port);
  struct ibv_wc wc;
  struct ibv_mr* mr = rdma_reg_msgs(id, message, LENGTH);
  need(mr && rdma_connect(id, NULL) == 0, "rdma_connect");
  for (int i = 0; i < LENGTH; ++i) message[i] = (uint8_t)(i * 7 + 1);
  need(rdma_post_send(id, NULL, message, LENGTH, mr, 0) == 0, "rdma_post_send");
  // The context comes back as wr_id.
  need(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 0, "rdma_get_send_comp");
  memset(message, 0, LENGTH);
  need(rdma_post_recv(id, NULL, message, LENGTH, mr) == 0, "rdma_post_recv");
  need(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_get_recv_comp");
  check(1);
  printf("sent %d bytes and got them back\n", LENGTH);
  rdma_disconnect(id);
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: cm_send PORT [HOST]\n"), 2;
  if (argc > 2)
    ask(argv[2], argv[1]);
  else
    serve(argv[1]);
  return 0;
}
