// What a program gives rdma_connect(3), rdma_accept(3) and rdma_reject(3) for the other end: every length that the
// message has room for arrives, followed by zeros; one byte more is refused.
#include <numeric>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

struct DataLimits {
  const char* name;
  rdma_port_space space;
  // The room in each message, and how much of it the receiver is shown.
  size_t request, accept, reject;
};
void PrintTo(const DataLimits& limits, std::ostream* out) { *out << limits.name; }

class PrivateDataOf : public TwoEnds, public testing::WithParamInterface<DataLimits> {
 protected:
  PrivateDataOf() { space_ = GetParam().space; }

  static std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> result(count);
    std::iota(result.begin(), result.end(), 1);
    return result;
  }
  static std::vector<uint8_t> padded(std::vector<uint8_t> bytes, size_t size) {
    bytes.resize(size);
    return bytes;
  }
  static rdma_conn_param carrying(const std::vector<uint8_t>& data) {
    rdma_conn_param parameters = parameters_of_foreign_queue_pair();
    parameters.private_data = data.data();
    parameters.private_data_len = static_cast<uint8_t>(data.size());
    return parameters;
  }
  int connect(const std::vector<uint8_t>& data) {
    rdma_conn_param parameters = carrying(data);
    return error_of(rdma_connect(active_.get(), &parameters));
  }
  int reject(const std::vector<uint8_t>& data) {
    return error_of(rdma_reject(passive_.get(), data.data(), static_cast<uint8_t>(data.size())));
  }
  void ask_anew(const std::vector<uint8_t>& data = {}) {
    // The events of what was before go with it.
    active_.reset();
    passive_.reset();
    active_ = resolved();
    ASSERT_EQ(connect(data), 0);
    take_request();
  }
  static std::vector<size_t> lengths(size_t most) { return {0, 1, 2, 3, 4, 5, 7, 8, most / 2, most - 1, most}; }
};

TEST_P(PrivateDataOf, ARequestArrives) {
  listen();
  for (size_t length : lengths(GetParam().request)) {
    SCOPED_TRACE(length);
    ASSERT_NO_FATAL_FAILURE(ask_anew(bytes(length)));
    EXPECT_EQ(request_->private_data, padded(bytes(length), GetParam().request));
  }
}

TEST_P(PrivateDataOf, AnAnswerArrives) {
  listen();
  for (size_t length : lengths(GetParam().accept)) {
    SCOPED_TRACE(length);
    ASSERT_NO_FATAL_FAILURE(ask_anew());
    ASSERT_EQ(accept(carrying(bytes(length))), 0);
    const std::optional<CmEvent> answer = client_.take();
    EXPECT_EQ(name(answer), space_ == RDMA_PS_TCP ? "CONNECT_RESPONSE" : "ESTABLISHED");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->private_data, padded(bytes(length), GetParam().accept));
  }
}

TEST_P(PrivateDataOf, ARejectionArrives) {
  listen();
  for (size_t length : lengths(GetParam().reject)) {
    SCOPED_TRACE(length);
    ASSERT_NO_FATAL_FAILURE(ask_anew());
    ASSERT_EQ(reject(bytes(length)), 0);
    const std::optional<CmEvent> answer = client_.take();
    EXPECT_EQ(name(answer), space_ == RDMA_PS_TCP ? "REJECTED 28" : "UNREACHABLE 2");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->private_data, padded(bytes(length), GetParam().reject));
  }
}

TEST_P(PrivateDataOf, MoreThanThereIsRoomForIsRefused) {
  listen();
  active_ = resolved();
  EXPECT_EQ(connect(bytes(GetParam().request + 1)), EINVAL);
  EXPECT_EQ(connect(bytes(255)), EINVAL);
  ASSERT_EQ(connect(bytes(GetParam().request)), 0) << "what failed may be tried again";
  take_request();
  EXPECT_EQ(reject(bytes(GetParam().reject + 1)), EINVAL);
  EXPECT_EQ(reject(bytes(255)), EINVAL);
  EXPECT_EQ(accept(carrying(bytes(255))), EINVAL);
  EXPECT_EQ(accept(carrying(bytes(GetParam().accept + 1))), EINVAL);
}

TEST_P(PrivateDataOf, ALengthWithoutBytesIsNone) {
  listen();
  active_ = resolved();
  rdma_conn_param parameters = carrying(bytes(8));
  parameters.private_data = nullptr;
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  take_request();
  EXPECT_EQ(request_->private_data, std::vector<uint8_t>(GetParam().request));
}

INSTANTIATE_TEST_SUITE_P(Spaces, PrivateDataOf,
                         testing::Values(DataLimits{"Tcp", RDMA_PS_TCP, 56, 196, 148},
                                         DataLimits{"Udp", RDMA_PS_UDP, 180, 136, 136},
                                         DataLimits{"Ipoib", RDMA_PS_IPOIB, 180, 136, 136}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace verbatim::conformance
