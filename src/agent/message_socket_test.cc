#include "agent/message_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace verbatim::agent {
namespace {

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class MessageSocket : public testing::Test {
 protected:
  MessageSocket() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    left_ = FileDescriptor(pair[0]);
    right_ = FileDescriptor(pair[1]);
    EXPECT_TRUE(enable_credentials(right_.get()).ok());
  }

  // Sends bare bytes with that many copies of standard input.
  void send_raw(size_t size, size_t descriptors) {
    std::vector<char> bytes(size, 1);
    std::vector<int> fds(descriptors, 0);
    std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (descriptors > 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* entry = CMSG_FIRSTHDR(&header);
      entry->cmsg_level = SOL_SOCKET;
      entry->cmsg_type = SCM_RIGHTS;
      entry->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
      std::memcpy(CMSG_DATA(entry), fds.data(), descriptors * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(left_.get(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }

  FileDescriptor left_, right_;
  const Frame frame_ = encode(ToAgent(Introduce{5}));
};

TEST_F(MessageSocket, BringsTheMessageItsDescriptorsAndItsSender) {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(send_packet(left_.get(), frame_, std::array{event.get(), event.get()}).ok());
  Result<Packet> packet = receive_packet(right_.get());
  ASSERT_TRUE(packet.ok());
  EXPECT_TRUE(std::ranges::equal(packet.value().frame.view(), frame_.view()));
  EXPECT_EQ(packet.value().sender.pid, ::getpid());
  EXPECT_EQ(packet.value().sender.uid, ::geteuid());
  ASSERT_EQ(packet.value().descriptors.size(), 2u);
  for (const FileDescriptor& fd : packet.value().descriptors) {
    EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST_F(MessageSocket, SaysThatThereIsNothingAndThatTheOtherSideIsGone) {
  EXPECT_EQ(receive_packet(right_.get()).error(), EAGAIN);
  left_.reset();
  EXPECT_EQ(receive_packet(right_.get()).error(), ECONNRESET);
  EXPECT_EQ(send_packet(right_.get(), frame_, {}).error, EPIPE);
}

TEST_F(MessageSocket, BringsTheLastWordsOfASideThatClosedWithUnreadMessages) {
  ASSERT_TRUE(send_packet(right_.get(), frame_, {}).ok());
  ASSERT_TRUE(send_packet(left_.get(), frame_, {}).ok());
  left_.reset();
  EXPECT_TRUE(receive_packet(right_.get()).ok());
  EXPECT_EQ(receive_packet(right_.get()).error(), ECONNRESET);
}

TEST_F(MessageSocket, AnOversizedMessageIsMalformed) {
  send_raw(kMaxFrame + 1, 0);
  EXPECT_EQ(receive_packet(right_.get()).error(), EPROTO);
}

TEST_F(MessageSocket, TooManyDescriptorsAreMalformedAndNoneOfThemStays) {
  send_raw(8, 0);
  ASSERT_TRUE(receive_packet(right_.get()).ok());
  const size_t before = open_descriptors();
  for (size_t count : {3, 100}) {
    send_raw(8, count);
    EXPECT_EQ(receive_packet(right_.get()).error(), EPROTO) << count;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(MessageSocket, SaysWhenThereIsNoRoomForTheDescriptors) {
  send_raw(8, 2);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int error = receive_packet(right_.get()).error();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(error, EMFILE);
}

TEST_F(MessageSocket, AFullSocketKeepsTheRestOfTheQueueInOrder) {
  OutgoingQueue queue;
  constexpr uint64_t kMessages = 2000;
  for (uint64_t i = 1; i <= kMessages; ++i) queue.push(encode(ToAgent(KnownPeer{i, 0, 1})), nullptr, {i});
  uint64_t sent = 0;
  const auto count = [&](Incarnation which) { EXPECT_EQ(which.value, ++sent); };
  ASSERT_EQ(queue.flush(left_.get(), count).error, EAGAIN);
  EXPECT_GT(sent, 0u);
  EXPECT_EQ(queue.size(), kMessages - sent);
  uint64_t received = 0;
  while (received < kMessages) {
    Result<Packet> packet = receive_packet(right_.get());
    if (packet.error() == EAGAIN) {
      ASSERT_FALSE(queue.empty());
      [[maybe_unused]] const Status flushed = queue.flush(left_.get(), count);
      continue;
    }
    ASSERT_TRUE(packet.ok());
    const auto message = decode_to_agent(packet.value().frame.view(), 0);
    ASSERT_TRUE(message.ok());
    EXPECT_EQ(std::get<KnownPeer>(message.value()).incarnation, ++received);
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace verbatim::agent
