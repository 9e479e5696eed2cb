#include "conformance/support/window.h"

namespace verbatim::conformance {
namespace {

void expect_completion(const Side& side, ibv_wc_opcode opcode) {
  const std::optional<ibv_wc> completion = side.poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
  EXPECT_EQ(completion->opcode, opcode);
}

void post(ibv_qp* qp, ibv_send_wr request) {
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &request, &bad), 0);
}

}  // namespace

void bind_window(const Side& side, ibv_qp* qp, ibv_mw* window, const ibv_mw_bind_info& range) {
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{.send_flags = IBV_SEND_SIGNALED, .bind_info = range};
    EXPECT_EQ(ibv_bind_mw(qp, window, &request), 0);
  } else {
    ibv_send_wr request{.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = range};
    post(qp, request);
    window->rkey = request.bind_mw.rkey;
  }
  expect_completion(side, IBV_WC_BIND_MW);
}

void bind_window_anew(const Side& side, ibv_mw* window, const ibv_mw_bind_info& range) {
  const QpHandle own = side.create_queue_pair();
  ASSERT_EQ(connect(own.get(), side.address_of(own.get())), 0);
  bind_window(side, own.get(), window, range);
}

void invalidate_window(const Side& side, ibv_qp* qp, const ibv_mw* window) {
  ibv_send_wr request{.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
  request.invalidate_rkey = window->rkey;
  post(qp, request);
  expect_completion(side, IBV_WC_LOCAL_INV);
}

}  // namespace verbatim::conformance
