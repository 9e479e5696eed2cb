// A queue pair of this process and one of a responder, which have not met yet.
#pragma once

#include "conformance/support/pair.h"

namespace verbatim::conformance {

struct FirstMeeting {
  static constexpr uint32_t kBytes = 4096;

  explicit FirstMeeting(Setting setting) : peer(Responder::start(setting)) {}

  // Once both are connected: the responder gets what a WRITE brings.
  void expect_a_write_to_arrive() const {
    fill(memory.bytes(), 1);
    EXPECT_EQ(post(qp.get(), {{.sges = {{memory.address(), kBytes, region->lkey}},
                               .remote_address = there.address,
                               .rkey = there.rkey}}),
              kAllPosted);
    const std::optional<ibv_wc> completion = side.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
    EXPECT_EQ(peer->first_difference(0, kBytes, 1, 0), std::nullopt);
  }

  const std::unique_ptr<Responder> peer;
  const RemoteMemory there = peer->register_memory(kBytes);
  const Address far = peer->create_queue_pair();
  const Side side;
  const Memory memory{MemoryKind::anonymous, kBytes};
  const MrHandle region = side.register_memory(memory);
  const QpHandle qp = side.create_queue_pair();
};

}  // namespace verbatim::conformance
