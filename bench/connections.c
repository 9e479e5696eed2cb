// What connections cost that librdmacm makes, between two processes.
//
// usage: connections rate COUNT | open COUNT
// rate: one after the other, each with a queue pair of its own, to ESTABLISHED on both sides and to DISCONNECTED again;
// prints nanoseconds for each. open: so many at once; prints "BYTES DESCRIPTORS" for each, of the process that
// connects.
#include <dirent.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

struct side {
  struct rdma_event_channel* channel;
  struct ibv_cq* cq;
};

static void create_qp(struct side* side, struct rdma_cm_id* id) {
  if (!side->cq) side->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr attributes = {
      .send_cq = side->cq, .recv_cq = side->cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  check(side->cq && rdma_create_qp(id, NULL, &attributes) == 0, "rdma_create_qp");
}

static void destroy(struct rdma_cm_id* id) {
  rdma_destroy_qp(id);
  check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
}

// The identifier of the next event, which has to be this one.
static struct rdma_cm_id* expect(struct side* side, enum rdma_cm_event_type type) {
  struct rdma_cm_event* event;
  check(rdma_get_cm_event(side->channel, &event) == 0, "rdma_get_cm_event");
  if (event->event != type) {
    fprintf(stderr, "%s (%d) where %s was due\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
    exit(1);
  }
  struct rdma_cm_id* const id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

static void serve(int port_out) {
  struct side side = {.channel = rdma_create_event_channel()};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct rdma_cm_id* listener;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  check(side.channel && rdma_create_id(side.channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0 && rdma_listen(listener, 0) == 0, "rdma_listen");
  const in_port_t port = rdma_get_src_port(listener);
  check(write(port_out, &port, sizeof port) == sizeof port, "write");
  for (;;) {
    struct rdma_cm_event* event;
    check(rdma_get_cm_event(side.channel, &event) == 0, "rdma_get_cm_event");
    struct rdma_cm_id* const id = event->id;
    const enum rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      create_qp(&side, id);
      check(rdma_accept(id, NULL) == 0, "rdma_accept");
    } else if (type == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_disconnect(id);
      destroy(id);
    }
  }
}

static struct rdma_cm_id* connect_to(struct side* side, in_port_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct rdma_cm_id* id;
  check(rdma_create_id(side->channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, 1000) == 0, "rdma_resolve_addr");
  expect(side, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id, 1000) == 0, "rdma_resolve_route");
  expect(side, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(side, id);
  check(rdma_connect(id, NULL) == 0, "rdma_connect");
  expect(side, RDMA_CM_EVENT_ESTABLISHED);
  return id;
}

static void rate(struct side* side, in_port_t port, long count) {
  struct timespec start, end;
  for (long i = -1; i < count; ++i) {
    if (i == 0) clock_gettime(CLOCK_MONOTONIC, &start);  // the first opens the device
    struct rdma_cm_id* const id = connect_to(side, port);
    check(rdma_disconnect(id) == 0, "rdma_disconnect");
    expect(side, RDMA_CM_EVENT_DISCONNECTED);
    destroy(id);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%.0f\n", ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / (double)count);
}

static long descriptors(void) {
  DIR* const folder = opendir("/proc/self/fd");
  long count = 0;
  check(folder != NULL, "/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

static long resident_bytes(void) {
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  check(file && fscanf(file, "%*s %ld", &pages) == 1, "/proc/self/statm");
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static void open_at_once(struct side* side, in_port_t port, long count) {
  connect_to(side, port);
  const long bytes = resident_bytes(), before = descriptors();
  for (long i = 0; i < count; ++i) connect_to(side, port);
  printf("%.0f %.2f\n", (double)(resident_bytes() - bytes) / (double)count,
         (double)(descriptors() - before) / (double)count);
}

int main(int argc, char** argv) {
  const long count = argc == 3 ? atol(argv[2]) : 0;
  if (count <= 0) return fprintf(stderr, "usage: connections rate COUNT | open COUNT\n"), 2;
  int ports[2];
  in_port_t port;
  check(pipe(ports) == 0, "pipe");
  const pid_t server = fork();
  check(server >= 0, "fork");
  if (server == 0) serve(ports[1]);
  close(ports[1]);
  check(read(ports[0], &port, sizeof port) == sizeof port, "read");
  struct side side = {.channel = rdma_create_event_channel()};
  check(side.channel != NULL, "rdma_create_event_channel");
  if (strcmp(argv[1], "open") == 0)
    open_at_once(&side, port, count);
  else
    rate(&side, port, count);
  kill(server, SIGKILL);
  return 0;
}
