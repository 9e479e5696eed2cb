// What a private node promises to programs rather than to drivers. The rest of
// those nodes serves drivers that run on top of libibverbs; none runs on ours,
// so symbols.tsv answers for it.
#include <infiniband/verbs.h>

#include <array>

namespace {

// Two opcodes are numbers because libibverbs-dev 44 has no name for the first.
constexpr unsigned kFlush = 14;
constexpr unsigned kAtomicWrite = 15;

constexpr auto kOpcodeNames = [] {
  std::array<const char*, kAtomicWrite + 1> names{};
  names.fill("unknown");
  names[IBV_WR_RDMA_WRITE] = "rdma-write";
  names[IBV_WR_RDMA_WRITE_WITH_IMM] = "rdma-write-with-imm";
  names[IBV_WR_SEND] = "send";
  names[IBV_WR_SEND_WITH_IMM] = "send-with-imm";
  names[IBV_WR_RDMA_READ] = "rdma-read";
  names[IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic-cmp-and-swp";
  names[IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic-fetch-and-add";
  names[IBV_WR_LOCAL_INV] = "local-inv";
  names[IBV_WR_BIND_MW] = "bind-mw";
  names[IBV_WR_SEND_WITH_INV] = "send-with-inv";
  names[IBV_WR_TSO] = "tso";
  names[IBV_WR_DRIVER1] = "driver1";
  names[kFlush] = "flush";
  names[kAtomicWrite] = "atomic-write";
  return names;
}();

}  // namespace

// Declared in <infiniband/verbs.h> from release 49 on, yet exported in the
// private node. Never NULL; the string lives for ever.
extern "C" const char* ibv_wr_opcode_str(enum ibv_wr_opcode opcode) {
  const auto index = static_cast<unsigned>(opcode);
  return index < kOpcodeNames.size() ? kOpcodeNames[index] : "unknown";
}
