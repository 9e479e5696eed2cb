// What objects cost a program that uses libibverbs: bytes, descriptors, time, and what it costs while nothing happens.
//
// usage: footprint objects | idle | calls TURNS
// objects: prints a line "NAME BYTES DESCRIPTORS" for each queue pair, memory region and peer, and "queue pairs SECONDS
// SECONDS", of the time to create and to destroy kMany. idle: the share of a processor, in percent, of a process that
// is connected and sleeps. calls: post_once() and poll_once() as often as said, for who counts instructions.
#include <dirent.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMany = 10000, kPeers = 16, kPort = 1, kBytes = 4096 };

struct side {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  char* memory;
  union ibv_gid gid;
};

// What one end tells the other.
struct address {
  uint32_t qpn;
  uint32_t rkey;
  uint64_t memory;
};

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static void open_side(struct side* side) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  check(devices && devices[0], "ibv_get_device_list");
  side->context = ibv_open_device(devices[0]);
  check(side->context != NULL, "ibv_open_device");
  ibv_free_device_list(devices);
  side->pd = ibv_alloc_pd(side->context);
  side->cq = ibv_create_cq(side->context, 16, NULL, NULL, 0);
  side->memory = aligned_alloc(kBytes, kBytes);
  check(side->pd && side->cq && side->memory, "a side");
  memset(side->memory, 0, kBytes);
  side->mr = ibv_reg_mr(side->pd, side->memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  check(side->mr != NULL, "ibv_reg_mr");
  check(ibv_query_gid(side->context, kPort, 0, &side->gid) == 0, "ibv_query_gid");
}

static struct ibv_qp* create_qp(struct side* side) {
  struct ibv_qp_init_attr init = {.send_cq = side->cq,
                                  .recv_cq = side->cq,
                                  .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
                                  .qp_type = IBV_QPT_RC,
                                  .sq_sig_all = 1};
  struct ibv_qp* qp = ibv_create_qp(side->pd, &init);
  check(qp != NULL, "ibv_create_qp");
  return qp;
}

static void connect_qp(struct ibv_qp* qp, const struct side* side, uint32_t peer) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = kPort, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = side->gid;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "RTS");
}

static struct address address_of(const struct ibv_qp* qp, const struct side* side) {
  return (struct address){qp->qp_num, side->mr->rkey, (uint64_t)(uintptr_t)side->memory};
}

// Functions of their own, to be found by their names.
__attribute__((noinline, noclone)) static void post_once(struct ibv_qp* qp, struct side* side,
                                                         const struct address* to) {
  struct ibv_sge sge = {(uint64_t)(uintptr_t)side->memory, 8, side->mr->lkey};
  struct ibv_send_wr work = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  work.wr.rdma.remote_addr = to->memory + 64;
  work.wr.rdma.rkey = to->rkey;
  struct ibv_send_wr* bad;
  check(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
}

__attribute__((noinline, noclone)) static int poll_once(struct side* side, struct ibv_wc* completion) {
  return ibv_poll_cq(side->cq, 1, completion);
}

static void write_once(struct ibv_qp* qp, struct side* side, const struct address* to) {
  post_once(qp, side, to);
  struct ibv_wc completion;
  int count;
  while ((count = poll_once(side, &completion)) == 0) {
  }
  check(count == 1 && completion.status == IBV_WC_SUCCESS, "a WRITE");
}

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long resident_bytes(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  check(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm");
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static long descriptors(void) {
  long count = 0;
  DIR* folder = opendir("/proc/self/fd");
  check(folder != NULL, "/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

static void print_cost(const char* name, long bytes, long fds, int count) {
  printf("%s %.0f %.2f\n", name, (double)(resident_bytes() - bytes) / count, (double)(descriptors() - fds) / count);
}

static void measure_queue_pairs(struct side* side) {
  static struct ibv_qp* qps[kMany];
  memset(qps, 1, sizeof qps);  // touched before anything is counted
  const long bytes = resident_bytes(), fds = descriptors();
  const double start = seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < kMany; ++i) qps[i] = create_qp(side);
  const double created = seconds(CLOCK_MONOTONIC);
  print_cost("queue-pair", bytes, fds, kMany);
  const double before = seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < kMany; ++i) check(ibv_destroy_qp(qps[i]) == 0, "ibv_destroy_qp");
  printf("queue-pairs %.4f %.4f\n", created - start, seconds(CLOCK_MONOTONIC) - before);
}

static void measure_regions(struct side* side) {
  static struct ibv_mr* regions[kMany];
  memset(regions, 1, sizeof regions);
  const long bytes = resident_bytes(), fds = descriptors();
  for (int i = 0; i < kMany; ++i)
    check((regions[i] = ibv_reg_mr(side->pd, side->memory, kBytes, IBV_ACCESS_LOCAL_WRITE)) != NULL, "ibv_reg_mr");
  print_cost("memory-region", bytes, fds, kMany);
  for (int i = 0; i < kMany; ++i) check(ibv_dereg_mr(regions[i]) == 0, "ibv_dereg_mr");
}

// The other end of a connection, in a process of its own.
static void be_peer(int talk) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct side side;
  open_side(&side);
  struct ibv_qp* qp = create_qp(&side);
  struct address own = address_of(qp, &side), other;
  check(write(talk, &own, sizeof own) == sizeof own && read(talk, &other, sizeof other) == sizeof other, "a peer");
  connect_qp(qp, &side, other.qpn);
  char byte = 0;
  check(write(talk, &byte, 1) == 1, "a peer");
  for (;;) pause();
}

static void measure_peers(void) {
  int talks[kPeers];
  pid_t pids[kPeers];
  // Before this process has a device: a child would find its parent's.
  for (int i = 0; i < kPeers; ++i) {
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
    pids[i] = fork();
    check(pids[i] >= 0, "fork");
    if (pids[i] == 0) be_peer(ends[1]);
    close(ends[1]);
    talks[i] = ends[0];
  }
  struct side side;
  open_side(&side);
  struct ibv_qp* qps[kPeers + 1];
  for (int i = 0; i <= kPeers; ++i) qps[i] = create_qp(&side);
  // The first peer of all brings what the others share.
  const struct address self = address_of(qps[kPeers], &side);
  connect_qp(qps[kPeers], &side, self.qpn);
  write_once(qps[kPeers], &side, &self);
  long bytes = 0, fds = 0;
  for (int i = 0; i < kPeers; ++i) {
    if (i == 1) bytes = resident_bytes(), fds = descriptors();
    const struct address own = address_of(qps[i], &side);
    struct address other;
    char byte;
    check(read(talks[i], &other, sizeof other) == sizeof other, "a peer");
    check(write(talks[i], &own, sizeof own) == sizeof own && read(talks[i], &byte, 1) == 1, "a peer");
    connect_qp(qps[i], &side, other.qpn);
    write_once(qps[i], &side, &other);
  }
  print_cost("peer", bytes, fds, kPeers - 1);
  for (int i = 0; i < kPeers; ++i) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  measure_queue_pairs(&side);
  measure_regions(&side);
}

static void connect_to_itself(struct side* side, struct ibv_qp** qp, struct address* self) {
  open_side(side);
  *qp = create_qp(side);
  *self = address_of(*qp, side);
  connect_qp(*qp, side, self->qpn);
  write_once(*qp, side, self);
}

static void measure_idle(void) {
  const unsigned length = 3;
  struct side side;
  struct ibv_qp* qp;
  struct address self;
  connect_to_itself(&side, &qp, &self);
  sleep(1);  // what had begun is over
  const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
  sleep(length);
  printf("%.3f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - before) / length * 100);
}

static void call(unsigned long turns) {
  struct side side;
  struct ibv_qp* qp;
  struct address self;
  connect_to_itself(&side, &qp, &self);
  while (turns--) write_once(qp, &side, &self);
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "objects") == 0 && count == 2) {
    measure_peers();
  } else if (strcmp(what, "idle") == 0 && count == 2) {
    measure_idle();
  } else if (strcmp(what, "calls") == 0 && count == 3) {
    call(strtoul(arguments[2], NULL, 10));
  } else {
    fprintf(stderr, "usage: footprint objects | idle | calls TURNS\n");
    return 2;
  }
  return 0;
}
