#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/file_descriptor.h"
#include "base/interruption.h"
#include "services.h"
#include "trial.h"

namespace verbatim::tool {
namespace {

FileDescriptor sealable_file() {
  return FileDescriptor(::memfd_create("verbatim-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

int try_memfd() { return sealable_file().valid() ? 0 : errno; }

int try_seals() {
  const FileDescriptor file = sealable_file();
  if (!file.valid()) return errno;
  return ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0 ? 0 : errno;
}

int try_eventfd() {
  const FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  uint64_t value = 1;
  if (!bell.valid() || ::write(bell.get(), &value, sizeof value) < 0 || ::read(bell.get(), &value, sizeof value) < 0)
    return errno;
  return 0;
}

int try_pidfd() {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
  return process.valid() ? 0 : errno;
}

FileDescriptor local_socket() { return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

int try_abstract_socket() {
  const std::string name = "verbatim/doctor/" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading 0 makes it abstract
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());

  const FileDescriptor listener = local_socket();
  const FileDescriptor caller = local_socket();
  const auto* target = reinterpret_cast<const sockaddr*>(&address);
  const bool met = listener.valid() && caller.valid() && ::bind(listener.get(), target, length) == 0 &&
                   ::listen(listener.get(), 1) == 0 && ::connect(caller.get(), target, length) == 0;
  return met ? 0 : errno;
}

// A message of one byte that carries a descriptor.
struct Parcel {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{nullptr, 0, &data, 1, control, sizeof control, 0};
};

int try_descriptor_passing() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  Parcel sent;
  cmsghdr* head = CMSG_FIRSTHDR(&sent.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &ends[0], sizeof(int));
  Parcel received;
  if (::sendmsg(ends[0], &sent.message, MSG_NOSIGNAL) < 0) return errno;
  if (::recvmsg(ends[1], &received.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0) return errno;
  // The kernel leaves out what does not fit into the table of descriptors.
  return CMSG_FIRSTHDR(&received.message) ? 0 : EMFILE;
}

// A robust list of one (set_robust_list(2)), in memory that outlives the process.
struct RobustWord {
  robust_list_head head;
  robust_list node;
  volatile uint32_t word;  // written by the kernel
};

int try_robust_futex() {
  void* memory = ::mmap(nullptr, sizeof(RobustWord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  auto* robust = static_cast<RobustWord*>(memory);
  robust->node.next = &robust->head.list;
  robust->head.list.next = &robust->node;
  robust->head.futex_offset = offsetof(RobustWord, word) - offsetof(RobustWord, node);
  const int error = try_in_child([robust] {
    robust->word = static_cast<uint32_t>(::gettid());
    return ::syscall(SYS_set_robust_list, &robust->head, sizeof robust->head) == 0 ? 0 : errno;
  });
  if (error != 0) return error;
  return robust->word & FUTEX_OWNER_DIED ? 0 : ENOSYS;
}

int membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0 ? 0 : errno; }

int try_membarrier() {
  if (const int error = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)) return error;
  return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

}  // namespace

Services probe_services() {
  return {
      .memfd_error = try_in_child(try_memfd),
      .seal_error = try_in_child(try_seals),
      .eventfd_error = try_in_child(try_eventfd),
      .pidfd_error = try_in_child(try_pidfd),
      .abstract_socket_error = try_in_child(try_abstract_socket),
      .descriptor_passing_error = try_in_child(try_descriptor_passing),
      .robust_futex_error = try_in_child(try_robust_futex),
      .membarrier_error = try_in_child(try_membarrier),
      .restartable_sequence_error = notices_interruption() ? 0 : ENOSYS,
  };
}

}  // namespace verbatim::tool
