// The layouts a compiled program has built in, held against the headers we are
// compiled with: a header that moved one of them would give a library that no
// existing program can use. Bytes, on 64-bit Linux; measured on libibverbs 44.
//
// Structs that later releases made longer are checked with >=: what programs
// were compiled with is then their beginning (verbs_context: their end).
#include <infiniband/verbs.h>

#include <cstddef>

static_assert(sizeof(void*) == 8, "the sizes below are those of 64-bit machines");

// Structs that have a mutex in them are longer from there on where the C library's is longer than that of x86-64.
constexpr size_t kMutexGrowth = sizeof(pthread_mutex_t) - 40;

// Objects: a program reads their members whenever it likes.
static_assert(sizeof(ibv_device) == 664);
static_assert(offsetof(ibv_device, node_type) == 16);
static_assert(offsetof(ibv_device, transport_type) == 20);
static_assert(offsetof(ibv_device, name) == 24);
static_assert(offsetof(ibv_device, dev_name) == 88);
static_assert(offsetof(ibv_device, dev_path) == 152);
static_assert(offsetof(ibv_device, ibdev_path) == 408);

static_assert(sizeof(ibv_context) == 328 + kMutexGrowth);
static_assert(offsetof(ibv_context, device) == 0);
static_assert(offsetof(ibv_context, ops) == 8);
static_assert(offsetof(ibv_context, cmd_fd) == 264);
static_assert(offsetof(ibv_context, async_fd) == 268);
static_assert(offsetof(ibv_context, num_comp_vectors) == 272);
static_assert(offsetof(ibv_context, mutex) == 280);
static_assert(offsetof(ibv_context, abi_compat) == 320 + kMutexGrowth);

static_assert(sizeof(ibv_pd) == 16);
static_assert(offsetof(ibv_pd, context) == 0);
static_assert(offsetof(ibv_pd, handle) == 8);

static_assert(sizeof(ibv_mr) == 48);
static_assert(offsetof(ibv_mr, pd) == 8);
static_assert(offsetof(ibv_mr, addr) == 16);
static_assert(offsetof(ibv_mr, length) == 24);
static_assert(offsetof(ibv_mr, handle) == 32);
static_assert(offsetof(ibv_mr, lkey) == 36);
static_assert(offsetof(ibv_mr, rkey) == 40);

static_assert(sizeof(ibv_mw) == 32);
static_assert(offsetof(ibv_mw, rkey) == 16);
static_assert(offsetof(ibv_mw, handle) == 20);
static_assert(offsetof(ibv_mw, type) == 24);

static_assert(sizeof(ibv_comp_channel) == 16);
static_assert(offsetof(ibv_comp_channel, context) == 0);
static_assert(offsetof(ibv_comp_channel, fd) == 8);
static_assert(offsetof(ibv_comp_channel, refcnt) == 12);

static_assert(sizeof(ibv_cq) == 128 + kMutexGrowth);
static_assert(offsetof(ibv_cq, channel) == 8);
static_assert(offsetof(ibv_cq, cq_context) == 16);
static_assert(offsetof(ibv_cq, handle) == 24);
static_assert(offsetof(ibv_cq, cqe) == 28);
static_assert(offsetof(ibv_cq, mutex) == 32);
static_assert(offsetof(ibv_cq, cond) == 72 + kMutexGrowth);
static_assert(offsetof(ibv_cq, comp_events_completed) == 120 + kMutexGrowth);
static_assert(offsetof(ibv_cq, async_events_completed) == 124 + kMutexGrowth);

static_assert(sizeof(ibv_qp) == 160 + kMutexGrowth);
static_assert(offsetof(ibv_qp, qp_context) == 8);
static_assert(offsetof(ibv_qp, pd) == 16);
static_assert(offsetof(ibv_qp, send_cq) == 24);
static_assert(offsetof(ibv_qp, recv_cq) == 32);
static_assert(offsetof(ibv_qp, srq) == 40);
static_assert(offsetof(ibv_qp, handle) == 48);
static_assert(offsetof(ibv_qp, qp_num) == 52);
static_assert(offsetof(ibv_qp, state) == 56);
static_assert(offsetof(ibv_qp, qp_type) == 60);
static_assert(offsetof(ibv_qp, events_completed) == 152 + kMutexGrowth);

static_assert(sizeof(ibv_srq) == 128 + kMutexGrowth);
static_assert(offsetof(ibv_srq, srq_context) == 8);
static_assert(offsetof(ibv_srq, pd) == 16);
static_assert(offsetof(ibv_srq, events_completed) == 120 + kMutexGrowth);

static_assert(sizeof(ibv_ah) == 24);
static_assert(offsetof(ibv_ah, pd) == 8);
static_assert(sizeof(ibv_wq) == 152 + kMutexGrowth);
static_assert(offsetof(ibv_wq, post_recv) == 48);
static_assert(sizeof(ibv_flow) == 24);
static_assert(sizeof(ibv_dm) == 32);
static_assert(offsetof(ibv_dm, memcpy_to_dm) == 8);
static_assert(offsetof(ibv_dm, memcpy_from_dm) == 16);

// The extended kinds begin with the plain kind, since programs cast both ways.
static_assert(sizeof(ibv_cq_ex) == 288 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, cqe) == offsetof(ibv_cq, cqe));
static_assert(offsetof(ibv_cq_ex, async_events_completed) == offsetof(ibv_cq, async_events_completed));
static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));
static_assert(offsetof(ibv_cq_ex, start_poll) == 144 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, next_poll) == 152 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, end_poll) == 160 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, read_opcode) == 168 + kMutexGrowth);
static_assert(sizeof(ibv_qp_ex) >= 352 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, qp_base) == 0);
static_assert(offsetof(ibv_qp_ex, wr_atomic_cmp_swp) == 184 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_start) == 320 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_complete) == 328 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_abort) == 336 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_atomic_write) == 344 + kMutexGrowth);

// Work requests and completions.
static_assert(sizeof(ibv_sge) == 16);
static_assert(offsetof(ibv_sge, length) == 8);
static_assert(offsetof(ibv_sge, lkey) == 12);
static_assert(sizeof(ibv_recv_wr) == 32);
static_assert(offsetof(ibv_recv_wr, next) == 8);
static_assert(offsetof(ibv_recv_wr, sg_list) == 16);
static_assert(offsetof(ibv_recv_wr, num_sge) == 24);
static_assert(sizeof(ibv_send_wr) == 128);
static_assert(offsetof(ibv_send_wr, opcode) == 28);
static_assert(offsetof(ibv_send_wr, send_flags) == 32);
static_assert(offsetof(ibv_send_wr, imm_data) == 36);
static_assert(offsetof(ibv_send_wr, wr.rdma.remote_addr) == 40);
static_assert(offsetof(ibv_send_wr, wr.rdma.rkey) == 48);
static_assert(offsetof(ibv_send_wr, wr.atomic.swap) == 56);
static_assert(offsetof(ibv_send_wr, wr.atomic.rkey) == 64);
static_assert(offsetof(ibv_send_wr, wr.ud.ah) == 40);
static_assert(offsetof(ibv_send_wr, wr.ud.remote_qkey) == 52);
static_assert(offsetof(ibv_send_wr, qp_type.xrc.remote_srqn) == 72);
static_assert(offsetof(ibv_send_wr, bind_mw.bind_info) == 96);
static_assert(sizeof(ibv_wc) == 48);
static_assert(offsetof(ibv_wc, status) == 8);
static_assert(offsetof(ibv_wc, opcode) == 12);
static_assert(offsetof(ibv_wc, vendor_err) == 16);
static_assert(offsetof(ibv_wc, byte_len) == 20);
static_assert(offsetof(ibv_wc, imm_data) == 24);
static_assert(offsetof(ibv_wc, qp_num) == 28);
static_assert(offsetof(ibv_wc, src_qp) == 32);
static_assert(offsetof(ibv_wc, wc_flags) == 36);
static_assert(offsetof(ibv_wc, slid) == 42);
static_assert(offsetof(ibv_wc, dlid_path_bits) == 45);

// Attributes: the caller's memory, so a longer one of ours would run over it.
static_assert(sizeof(ibv_device_attr) == 232);
static_assert(sizeof(ibv_device_attr_ex) >= 400);
static_assert(offsetof(ibv_device_attr_ex, orig_attr) == 0);
static_assert(sizeof(ibv_port_attr) >= 52);
static_assert(offsetof(ibv_port_attr, flags) == 47);
static_assert(offsetof(ibv_port_attr, port_cap_flags2) == 48);
static_assert(sizeof(ibv_gid_entry) == 32);
static_assert(offsetof(ibv_gid_entry, gid_index) == 16);
static_assert(offsetof(ibv_gid_entry, gid_type) == 24);
static_assert(offsetof(ibv_gid_entry, ndev_ifindex) == 28);
static_assert(sizeof(ibv_async_event) == 16);
static_assert(offsetof(ibv_async_event, event_type) == 8);
static_assert(sizeof(ibv_ah_attr) == 32);
static_assert(sizeof(ibv_qp_attr) == 144);
static_assert(sizeof(ibv_qp_init_attr) == 64);
static_assert(offsetof(ibv_qp_init_attr, cap) == 32);
static_assert(offsetof(ibv_qp_init_attr, sq_sig_all) == 56);
static_assert(sizeof(ibv_qp_init_attr_ex) == 136);
static_assert(offsetof(ibv_qp_init_attr_ex, comp_mask) == 60);
static_assert(sizeof(ibv_srq_init_attr) == 24);
static_assert(sizeof(ibv_srq_init_attr_ex) == 64);
static_assert(sizeof(ibv_cq_init_attr_ex) == 56);
static_assert(sizeof(ibv_ece) == 12);

// Slots that the inline functions of the header call without asking, counted
// from the ibv_context.
static_assert(sizeof(ibv_context_ops) == 256);
static_assert(offsetof(ibv_context, ops.alloc_mw) == 64);
static_assert(offsetof(ibv_context, ops.bind_mw) == 72);
static_assert(offsetof(ibv_context, ops.dealloc_mw) == 80);
static_assert(offsetof(ibv_context, ops.poll_cq) == 96);
static_assert(offsetof(ibv_context, ops.req_notify_cq) == 104);
static_assert(offsetof(ibv_context, ops.post_srq_recv) == 168);
static_assert(offsetof(ibv_context, ops.post_send) == 208);
static_assert(offsetof(ibv_context, ops.post_recv) == 216);

// verbs_context grows at the front: a slot's place is its distance below the ibv_context.
constexpr std::size_t BelowContext(std::size_t offset) { return offsetof(verbs_context, context) - offset; }

static_assert(sizeof(verbs_context) >= 648);
static_assert(sizeof(verbs_context) == offsetof(verbs_context, context) + sizeof(ibv_context));
static_assert(BelowContext(offsetof(verbs_context, sz)) == 8);
static_assert(BelowContext(offsetof(verbs_context, close_xrcd)) == 24);
static_assert(BelowContext(offsetof(verbs_context, open_xrcd)) == 32);
static_assert(BelowContext(offsetof(verbs_context, create_srq_ex)) == 40);
static_assert(BelowContext(offsetof(verbs_context, get_srq_num)) == 48);
static_assert(BelowContext(offsetof(verbs_context, create_qp_ex)) == 56);
static_assert(BelowContext(offsetof(verbs_context, open_qp)) == 64);
static_assert(BelowContext(offsetof(verbs_context, ibv_create_flow)) == 80);
static_assert(BelowContext(offsetof(verbs_context, ibv_destroy_flow)) == 96);
static_assert(BelowContext(offsetof(verbs_context, query_device_ex)) == 104);
static_assert(BelowContext(offsetof(verbs_context, priv)) == 112);
static_assert(BelowContext(offsetof(verbs_context, create_cq_ex)) == 120);
static_assert(BelowContext(offsetof(verbs_context, alloc_null_mr)) == 304);
static_assert(BelowContext(offsetof(verbs_context, advise_mr)) == 312);
static_assert(BelowContext(offsetof(verbs_context, query_port)) == 320);
