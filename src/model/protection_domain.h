// A protection domain: an identity that regions and queue pairs share, and the count of those who use it. A parent
// domain (ibv_alloc_parent_domain(3)) is one with the identity of another: what is made in the one works with what is
// made in the other.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"
#include "base/types.h"

namespace verbatim::model {

class Device;

class ProtectionDomain {
 public:
  // ENOMEM beyond the device's number of domains. The device outlives it.
  static Result<std::unique_ptr<ProtectionDomain>> create(Device& device);
  // A parent domain over `real`, which it uses and which outlives it. It is not counted among the device's.
  static std::unique_ptr<ProtectionDomain> over(ProtectionDomain& real);
  // Nobody uses it any more (in_use() is false).
  ~ProtectionDomain();

  PdId id() const { return id_; }
  bool is_parent_domain() const { return real_ != nullptr; }

  // Any thread.
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_user() { users_.fetch_sub(1, std::memory_order_release); }  // pairs with in_use()
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }

 private:
  ProtectionDomain(Device& device, PdId id, ProtectionDomain* real) : device_(device), id_(id), real_(real) {}

  Device& device_;
  const PdId id_;
  ProtectionDomain* const real_;  // null for one that stands for itself
  std::atomic<uint32_t> users_{0};
};

}  // namespace verbatim::model
