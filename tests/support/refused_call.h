// A system call that the kernel refuses from now on, as a container's seccomp filter does: to the calling thread, and
// to all threads and programs that it starts. There is no way back. Test code only.
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdint>
#include <iterator>
#include <optional>

namespace verbatim::testing_support {

// With EPERM, and only with that first argument if there is one. False when no filter can be set here.
inline bool refuse_call(long number, std::optional<uint32_t> first_argument = {}) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | (first_argument ? BPF_JEQ : BPF_JGE) | BPF_K, first_argument.value_or(0), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Other processes' memory is then reached by mapping it, or not at all.
inline bool refuse_process_memory() { return refuse_call(SYS_process_vm_readv) && refuse_call(SYS_process_vm_writev); }

}  // namespace verbatim::testing_support
