// Polling completion by completion: the functions that ibv_start_poll, ibv_next_poll, ibv_end_poll and ibv_wc_read_*
// call (ibv_create_cq_ex(3)). A batch keeps other batches of the same CQ out, but nobody else: between its calls the
// program may post, arm, and poll the CQ with ibv_poll_cq.
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

CqObject& object_of(ibv_cq_ex* cq) { return api::object_of(ibv_cq_ex_to_cq(cq)); }
const Completion& current(ibv_cq_ex* cq) { return object_of(cq).current; }

int next_poll(ibv_cq_ex* cq) {
  CqObject& object = object_of(cq);
  if (object.impl->poll(1, [&](const Completion& completion) { object.current = completion; }) == 0) return ENOENT;
  cq->wr_id = object.current.work_id;
  cq->status = static_cast<ibv_wc_status>(object.current.status);
  return 0;
}

int first_poll(ibv_cq_ex* cq, const ibv_poll_cq_attr* attr) {
  return attr && attr->comp_mask != 0 ? EINVAL : next_poll(cq);
}

int start_poll_alone(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  const int error = first_poll(cq, attr);
  object_of(cq).patience.after(error == 0);
  return error;
}
void end_poll_alone(ibv_cq_ex*) {}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  CqObject& object = object_of(cq);
  object.batch.lock();
  const int error = first_poll(cq, attr);
  // No batch, so nobody will end it.
  if (error) object.batch.unlock();
  object.patience.after(error == 0);
  return error;
}
void end_poll(ibv_cq_ex* cq) { object_of(cq).batch.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); }
uint32_t read_vendor_err(ibv_cq_ex* cq) { return static_cast<uint32_t>(current(cq).reason); }
uint32_t read_byte_len(ibv_cq_ex* cq) { return current(cq).byte_length; }
__be32 read_imm_data(ibv_cq_ex* cq) { return current(cq).immediate; }
uint32_t read_qp_num(ibv_cq_ex* cq) { return current(cq).qpn.value; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return current(cq).source.value; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return current(cq).flags; }
// An Ethernet port has no LIDs.
uint32_t read_slid(ibv_cq_ex*) { return 0; }
uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
uint8_t read_sl(ibv_cq_ex* cq) { return current(cq).service_level; }

uint64_t read_completion_ts(ibv_cq_ex* cq) { return static_cast<uint64_t>(current(cq).added_at.ns); }

uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  const Clock& clock = api::object_of(cq->context).device.clock();
  const Duration age = clock.now() - current(cq).added_at;
  return static_cast<uint64_t>(clock.wall_ns() - age.ns);
}

}  // namespace

void verbatim::api::fill_polling_functions(ibv_cq_ex& cq, bool alone) {
  cq.start_poll = alone ? start_poll_alone : start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = alone ? end_poll_alone : end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}
