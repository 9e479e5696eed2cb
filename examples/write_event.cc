// RDMA WRITE with a receiver that sleeps. `write_event PORT` waits, `write_event PORT HOST` writes into its memory and
// wakes it with the last WRITE, which carries the length. Builds with: c++ -std=c++20 write_event.cc -libverbs
#include <infiniband/verbs.h>
#include <netdb.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

constexpr uint8_t kPort = 1, kGid = 0;
constexpr uint32_t kLength = 1 << 20, kPieces = 16, kPart = kLength / kPieces;

void need(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

// Freed by `release` at the end of its scope, the last one first.
auto own(auto* object, auto* release) {
  return std::unique_ptr<std::remove_reference_t<decltype(*object)>, decltype(release)>(object, release);
}

struct Address {
  uint32_t qp_num, rkey;
  uint64_t memory;
  ibv_gid gid;
};

// A TCP connection to `host`, or from whoever comes when it is null.
int meet(const char* host, const char* port) {
  addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *where = nullptr;
  need(getaddrinfo(host, port, &hints, &where) == 0, "getaddrinfo");
  const int s = socket(where->ai_family, where->ai_socktype, 0), yes = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (host) return need(connect(s, where->ai_addr, where->ai_addrlen) == 0, "connect"), s;
  need(bind(s, where->ai_addr, where->ai_addrlen) == 0 && listen(s, 1) == 0, "bind");
  return accept(s, nullptr, nullptr);
}

void connect(ibv_qp* qp, const Address& peer) {
  ibv_qp_attr attr{.path_mtu = IBV_MTU_1024, .dest_qp_num = peer.qp_num, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  attr.ah_attr = {.grh = {.dgid = peer.gid, .sgid_index = kGid, .hop_limit = 64}, .is_global = 1, .port_num = kPort};
  attr.port_num = kPort, attr.min_rnr_timer = 12, attr.timeout = 14, attr.retry_cnt = attr.rnr_retry = 7;
  constexpr std::pair<ibv_qp_state, int> kSteps[] = {
      {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
      {IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                        IBV_QP_MIN_RNR_TIMER},
      {IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC}};
  for (const auto& [state, mask] : kSteps) {
    attr.qp_state = state;
    need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask) == 0, "ibv_modify_qp");
  }
}

int main(int argc, char** argv) try {
  need(argc > 1, "usage: write_event PORT [HOST]");
  const bool writes = argc > 2;
  std::vector<uint8_t> memory(kLength);
  ibv_device** devices = ibv_get_device_list(nullptr);
  need(devices && devices[0], "no RDMA device");
  const auto context = own(ibv_open_device(devices[0]), ibv_close_device);
  const auto pd = own(ibv_alloc_pd(context.get()), ibv_dealloc_pd);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const auto mr = own(ibv_reg_mr(pd.get(), memory.data(), kLength, kAccess), ibv_dereg_mr);
  const auto channel = own(ibv_create_comp_channel(context.get()), ibv_destroy_comp_channel);
  const auto cq = own(ibv_create_cq(context.get(), 16, nullptr, channel.get(), 0), ibv_destroy_cq);
  ibv_qp_init_attr wanted{.send_cq = cq.get(), .recv_cq = cq.get(), .cap = {kPieces, 1, 1, 1}, .qp_type = IBV_QPT_RC};
  const auto qp = own(ibv_create_qp(pd.get(), &wanted), ibv_destroy_qp);
  need(mr && qp && ibv_req_notify_cq(cq.get(), 0) == 0, "verbs objects");
  Address peer, here{qp->qp_num, mr->rkey, reinterpret_cast<uint64_t>(memory.data()), {}};
  need(ibv_query_gid(context.get(), kPort, kGid, &here.gid) == 0, "ibv_query_gid");
  const int tcp = meet(argv[2], argv[1]);
  need(write(tcp, &here, sizeof here) == sizeof here && read(tcp, &peer, sizeof peer) == sizeof peer, "TCP");
  connect(qp.get(), peer);
  ibv_recv_wr receive{}, *bad_receive;  // takes no data, only the word that it is there
  need(writes || ibv_post_recv(qp.get(), &receive, &bad_receive) == 0, "ibv_post_recv");
  for (uint32_t i = 0; writes && i < kLength; ++i) memory[i] = static_cast<uint8_t>(i * 7 + i / 256);
  for (uint32_t piece = 0; writes && piece < kPieces; ++piece) {
    const uint32_t offset = piece * kPart, last = piece == kPieces - 1;
    ibv_sge sge{here.memory + offset, kPart, mr->lkey};
    ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .imm_data = htonl(kLength)}, *bad;
    wr.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma = {.remote_addr = peer.memory + offset, .rkey = peer.rkey};
    need(ibv_post_send(qp.get(), &wr, &bad) == 0, "ibv_post_send");
  }
  ibv_cq* ready;
  void* ignored;
  ibv_wc wc;
  need(ibv_get_cq_event(channel.get(), &ready, &ignored) == 0 && ibv_poll_cq(ready, 1, &wc) == 1, "no completion");
  ibv_ack_cq_events(ready, 1);
  need(wc.status == IBV_WC_SUCCESS && (writes || ntohl(wc.imm_data) == kLength), ibv_wc_status_str(wc.status));
  for (uint32_t i = 0; i < kLength; ++i) need(memory[i] == static_cast<uint8_t>(i * 7 + i / 256), "wrong data");
  std::printf("%s %u bytes\n", writes ? "wrote" : "was written", kLength);
  need(write(tcp, "", 1) == 1 && read(tcp, &peer, 1) == 1, "TCP");  // neither leaves before the other is done
} catch (const std::exception& error) {
  return std::fprintf(stderr, "write_event: %s\n", error.what()), 1;
}
