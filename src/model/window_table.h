// The memory windows of the device: which exist, what each is bound to, and the rules of binding (IBTA 10.6.7.2; the
// unclear ones as rdma_rxe takes them). A window is an entry of the same table as a memory region and its peers check
// it as one: its range and rights, and for type 2 the queue pair it is bound to. Bits 8-31 of its key name it for life,
// the low 8 change with each bind.
//
// Thread-safe, and its lock is the innermost: what executes requests may call it under a queue pair's locks.
#pragma once

#include <mutex>
#include <unordered_map>

#include "base/result.h"
#include "local/local_endpoint.h"
#include "local/revocation.h"
#include "proto/work.h"

namespace verbatim::model {

// ibv_mw_type.
enum class WindowType : uint8_t { one = 1, two = 2 };

// The rights that a window can grant.
inline constexpr uint32_t kWindowRights = access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic |
                                          access::kFlushGlobal | access::kFlushPersistent;

class WindowTable {
 public:
  // All references outlive the table.
  WindowTable(local::Adapter& adapter, local::PeerTable& peers, const Clock& clock);

  // A window that grants nothing yet. ENOMEM when the table of keys is full.
  Result<MemoryKey> allocate(PdId pd, WindowType type);
  // Forgets the window that `key` names; nothing can land through it any more. Waits for peers in the middle of a slice
  // (local/revocation.h): not under a touch record of one's own.
  void release(MemoryKey key);

  // Executes a request of queue pair `qpn` in `pd`. On success the window has the low 8 bits of the new key, and
  // nothing can land through the old one any more when `revocation` is over. A region of key 0 or a length of 0 unbinds
  // a type 1 window. Otherwise window_bind_error, and nothing has changed.
  local::Verdict bind(PdId pd, Qpn qpn, const WindowBind& request, local::Revocation& revocation);
  // Takes the rights of a type 2 window away, by the request of its own queue pair or of that queue pair's peer; one
  // that is not bound stays so. On success nothing can land through the key any more when `revocation` is over.
  // Otherwise local_qp_operation_error, and nothing has changed.
  local::Verdict invalidate(PdId pd, Qpn qpn, MemoryKey key, local::Revocation& revocation);
  // Unbinds the windows of a queue pair that ends: its number will be another's.
  void forget(Qpn qpn);

  // What must not happen to a region while windows are bound to it; false when there are.
  bool withdraw_region(MemoryKey region);
  bool change_region(const local::RegionFields& region);

 private:
  struct Window {
    PdId pd;
    WindowType type = WindowType::one;
    MemoryKey key;
    MemoryKey region;  // 0: not bound
    Qpn queue_pair;    // type 2: through which it is bound
  };

  // With mutex_ held.
  Window* find(MemoryKey key);
  bool may_bind(const Window* window, PdId pd, const WindowBind& request, local::RegionFields& region,
                local::Verdict& verdict) const;
  void attach(Window& window, const local::RegionFields& region, const WindowBind& request, Qpn qpn);
  void detach(Window& window);

  local::Adapter& adapter_;
  local::PeerTable& peers_;
  const Clock& clock_;

  std::mutex mutex_;                              // guards what follows
  std::unordered_map<uint32_t, Window> windows_;  // by bits 8-31 of the key
  std::unordered_map<uint32_t, uint32_t> bound_;  // windows by the region's key; none with 0
};

}  // namespace verbatim::model
