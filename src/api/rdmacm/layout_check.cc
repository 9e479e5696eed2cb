// The layouts a compiled program has built in, held against the headers we are compiled with. Bytes, on 64-bit Linux;
// measured on librdmacm 44. Programs read these structs directly, and hand us some of theirs.
#include <rdma/rdma_cma.h>

#include <cstddef>

static_assert(sizeof(void*) == 8, "the sizes below are those of 64-bit machines");

// Objects: a program reads their members whenever it likes. What is ours stands behind them.
static_assert(sizeof(rdma_event_channel) == 4);
static_assert(offsetof(rdma_event_channel, fd) == 0);

static_assert(sizeof(rdma_cm_id) == 416);
static_assert(offsetof(rdma_cm_id, verbs) == 0);
static_assert(offsetof(rdma_cm_id, channel) == 8);
static_assert(offsetof(rdma_cm_id, context) == 16);
static_assert(offsetof(rdma_cm_id, qp) == 24);
static_assert(offsetof(rdma_cm_id, route) == 32);
static_assert(offsetof(rdma_cm_id, ps) == 344);
static_assert(offsetof(rdma_cm_id, port_num) == 348);
static_assert(offsetof(rdma_cm_id, event) == 352);
static_assert(offsetof(rdma_cm_id, send_cq_channel) == 360);
static_assert(offsetof(rdma_cm_id, send_cq) == 368);
static_assert(offsetof(rdma_cm_id, recv_cq_channel) == 376);
static_assert(offsetof(rdma_cm_id, recv_cq) == 384);
static_assert(offsetof(rdma_cm_id, srq) == 392);
static_assert(offsetof(rdma_cm_id, pd) == 400);
static_assert(offsetof(rdma_cm_id, qp_type) == 408);

static_assert(sizeof(rdma_ib_addr) == 40);
static_assert(offsetof(rdma_ib_addr, sgid) == 0);
static_assert(offsetof(rdma_ib_addr, dgid) == 16);
static_assert(offsetof(rdma_ib_addr, pkey) == 32);
static_assert(sizeof(rdma_addr) == 296);
static_assert(offsetof(rdma_addr, src_addr) == 0);
static_assert(offsetof(rdma_addr, dst_addr) == 128);
static_assert(offsetof(rdma_addr, addr) == 256);
static_assert(sizeof(rdma_route) == 312);
static_assert(offsetof(rdma_route, addr) == 0);
static_assert(offsetof(rdma_route, path_rec) == 296);
static_assert(offsetof(rdma_route, num_paths) == 304);

static_assert(sizeof(rdma_cm_event) == 80);
static_assert(offsetof(rdma_cm_event, id) == 0);
static_assert(offsetof(rdma_cm_event, listen_id) == 8);
static_assert(offsetof(rdma_cm_event, event) == 16);
static_assert(offsetof(rdma_cm_event, status) == 20);
static_assert(offsetof(rdma_cm_event, param.conn) == 24);
static_assert(offsetof(rdma_cm_event, param.ud) == 24);

static_assert(sizeof(rdma_addrinfo) == 96);
static_assert(offsetof(rdma_addrinfo, ai_flags) == 0);
static_assert(offsetof(rdma_addrinfo, ai_family) == 4);
static_assert(offsetof(rdma_addrinfo, ai_qp_type) == 8);
static_assert(offsetof(rdma_addrinfo, ai_port_space) == 12);
static_assert(offsetof(rdma_addrinfo, ai_src_len) == 16);
static_assert(offsetof(rdma_addrinfo, ai_dst_len) == 20);
static_assert(offsetof(rdma_addrinfo, ai_src_addr) == 24);
static_assert(offsetof(rdma_addrinfo, ai_dst_addr) == 32);
static_assert(offsetof(rdma_addrinfo, ai_src_canonname) == 40);
static_assert(offsetof(rdma_addrinfo, ai_dst_canonname) == 48);
static_assert(offsetof(rdma_addrinfo, ai_route_len) == 56);
static_assert(offsetof(rdma_addrinfo, ai_route) == 64);
static_assert(offsetof(rdma_addrinfo, ai_connect_len) == 72);
static_assert(offsetof(rdma_addrinfo, ai_connect) == 80);
static_assert(offsetof(rdma_addrinfo, ai_next) == 88);

// Parameters: the caller's memory, so a longer one of ours would read or run beyond it.
static_assert(sizeof(rdma_conn_param) == 24);
static_assert(offsetof(rdma_conn_param, private_data) == 0);
static_assert(offsetof(rdma_conn_param, private_data_len) == 8);
static_assert(offsetof(rdma_conn_param, responder_resources) == 9);
static_assert(offsetof(rdma_conn_param, initiator_depth) == 10);
static_assert(offsetof(rdma_conn_param, flow_control) == 11);
static_assert(offsetof(rdma_conn_param, retry_count) == 12);
static_assert(offsetof(rdma_conn_param, rnr_retry_count) == 13);
static_assert(offsetof(rdma_conn_param, srq) == 14);
static_assert(offsetof(rdma_conn_param, qp_num) == 16);

static_assert(sizeof(rdma_ud_param) == 56);
static_assert(offsetof(rdma_ud_param, private_data) == 0);
static_assert(offsetof(rdma_ud_param, private_data_len) == 8);
static_assert(offsetof(rdma_ud_param, ah_attr) == 16);
static_assert(offsetof(rdma_ud_param, qp_num) == 48);
static_assert(offsetof(rdma_ud_param, qkey) == 52);

static_assert(sizeof(rdma_cm_join_mc_attr_ex) == 16);
static_assert(offsetof(rdma_cm_join_mc_attr_ex, comp_mask) == 0);
static_assert(offsetof(rdma_cm_join_mc_attr_ex, join_flags) == 4);
static_assert(offsetof(rdma_cm_join_mc_attr_ex, addr) == 8);

// Paths, of an identifier's route and of RDMA_OPTION_IB_PATH.
static_assert(sizeof(ibv_sa_path_rec) == 64);
static_assert(offsetof(ibv_sa_path_rec, dgid) == 0);
static_assert(offsetof(ibv_sa_path_rec, sgid) == 16);
static_assert(offsetof(ibv_sa_path_rec, dlid) == 32);
static_assert(offsetof(ibv_sa_path_rec, slid) == 34);
static_assert(offsetof(ibv_sa_path_rec, flow_label) == 40);
static_assert(offsetof(ibv_sa_path_rec, hop_limit) == 44);
static_assert(offsetof(ibv_sa_path_rec, traffic_class) == 45);
static_assert(offsetof(ibv_sa_path_rec, pkey) == 54);
static_assert(offsetof(ibv_sa_path_rec, sl) == 56);
static_assert(offsetof(ibv_sa_path_rec, mtu) == 58);
static_assert(offsetof(ibv_sa_path_rec, rate) == 60);
static_assert(offsetof(ibv_sa_path_rec, packet_life_time) == 62);
static_assert(offsetof(ibv_sa_path_rec, preference) == 63);

static_assert(sizeof(ibv_path_record) == 64);
static_assert(offsetof(ibv_path_record, service_id) == 0);
static_assert(offsetof(ibv_path_record, dgid) == 8);
static_assert(offsetof(ibv_path_record, sgid) == 24);
static_assert(offsetof(ibv_path_record, flowlabel_hoplimit) == 44);
static_assert(offsetof(ibv_path_record, pkey) == 50);
static_assert(offsetof(ibv_path_record, mtu) == 54);
static_assert(offsetof(ibv_path_record, packetlifetime) == 56);
static_assert(sizeof(ibv_path_data) == 72);
static_assert(offsetof(ibv_path_data, flags) == 0);
static_assert(offsetof(ibv_path_data, path) == 8);

// Numbers that the wire and other releases share.
static_assert(RDMA_CM_EVENT_TIMEWAIT_EXIT == 15);
static_assert(RDMA_PS_IPOIB == 0x0002 && RDMA_PS_TCP == 0x0106 && RDMA_PS_UDP == 0x0111 && RDMA_PS_IB == 0x013f);
static_assert(RDMA_UDP_QKEY == 0x01234567);
