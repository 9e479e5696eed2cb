#include "model/window_table.h"

#include "base/log.h"
#include "base/undo.h"

namespace verbatim::model {
namespace {

constexpr uint32_t kTag = 0xff;
constexpr uint32_t kWriters = access::kRemoteWrite | access::kRemoteAtomic;
constexpr uint32_t kFlushes = access::kFlushGlobal | access::kFlushPersistent;

uint32_t name_of(MemoryKey key) { return key.value & ~kTag; }

template <class... Args>
bool refuse(local::Verdict& verdict, CompletionStatus status, Reason reason, fmt::format_string<Args...> format,
            Args&&... args) {
  verdict.status = status;
  verdict.reason = reason;
  if (log_enabled(LogLevel::warn)) verdict.detail = fmt::format(format, std::forward<Args>(args)...);
  return false;
}

bool unbinds(const WindowBind& request) { return request.region.value == 0 || request.length == 0; }

bool grants(const local::RegionFields& region, uint32_t rights) {
  if (!(region.access & access::kWindowBind)) return false;
  // IBTA C10-74: a window lets peers write only where the device may.
  if ((rights & kWriters) && !(region.access & access::kLocalWrite)) return false;
  return (rights & kFlushes & ~region.access) == 0;
}

bool contains(const local::RegionFields& region, uint64_t start, uint64_t length) {
  return start >= region.iova && start - region.iova <= region.length &&
         length <= region.length - (start - region.iova);
}

}  // namespace

WindowTable::WindowTable(local::Adapter& adapter, local::PeerTable& peers, const Clock& clock)
    : adapter_(adapter), peers_(peers), clock_(clock) {}

Result<MemoryKey> WindowTable::allocate(PdId pd, WindowType type) {
  const Result<MemoryKey> key = adapter_.publish_region({.pd = pd, .kind = local::RegionKind::window});
  if (!key.ok()) return key;
  Undo published([&] { adapter_.withdraw_region(key.value()); });
  std::lock_guard lock(mutex_);
  windows_[name_of(key.value())] = {.pd = pd, .type = type, .key = key.value()};
  published.keep();
  return key;
}

void WindowTable::release(MemoryKey key) {
  {
    std::lock_guard lock(mutex_);
    Window* const window = find(key);
    detach(*window);
    adapter_.withdraw_region(key);
    windows_.erase(name_of(key));
  }
  local::settle_window(adapter_, peers_, clock_, key);
}

local::Verdict WindowTable::bind(PdId pd, Qpn qpn, const WindowBind& request, local::Revocation& revocation) {
  local::Verdict verdict;
  bool was_bound = false;
  {
    std::lock_guard lock(mutex_);
    Window* const window = find(request.window);
    local::RegionFields region;
    if (!may_bind(window, pd, request, region, verdict)) return verdict;
    was_bound = window->region.value != 0;
    detach(*window);
    window->key.value = name_of(window->key) | (request.new_key.value & kTag);
    attach(*window, region, request, qpn);
  }
  if (was_bound) revocation = local::Revocation::of_window(adapter_, peers_, clock_, request.window);
  return verdict;
}

local::Verdict WindowTable::invalidate(PdId pd, Qpn qpn, MemoryKey key, local::Revocation& revocation) {
  constexpr auto kStatus = CompletionStatus::local_qp_operation_error;
  constexpr auto kReason = Reason::not_invalidatable;
  local::Verdict verdict;
  {
    std::lock_guard lock(mutex_);
    Window* const window = find(key);
    if (!window || window->key != key) {
      refuse(verdict, kStatus, kReason, "key {:#x} is no memory window", key.value);
    } else if (window->type != WindowType::two) {
      refuse(verdict, kStatus, kReason, "key {:#x} is a type 1 memory window", key.value);
    } else if (window->pd != pd) {
      refuse(verdict, kStatus, kReason, "key {:#x} belongs to PD {}, the QP to PD {}", key.value, window->pd.value,
             pd.value);
    } else if (window->region.value == 0) {
      return verdict;
    } else if (window->queue_pair != qpn) {
      refuse(verdict, kStatus, kReason, "key {:#x} is bound to QP {:#08x}, the request is of QP {:#08x}", key.value,
             window->queue_pair.value, qpn.value);
    } else {
      detach(*window);
      adapter_.change_region({.key = window->key, .pd = window->pd, .kind = local::RegionKind::window});
    }
    if (verdict.status != CompletionStatus::success) return verdict;
  }
  revocation = local::Revocation::of_window(adapter_, peers_, clock_, key);
  return verdict;
}

void WindowTable::forget(Qpn qpn) {
  std::lock_guard lock(mutex_);
  for (auto& [name, window] : windows_) {
    if (window.region.value == 0 || window.queue_pair != qpn) continue;
    detach(window);
    adapter_.change_region({.key = window.key, .pd = window.pd, .kind = local::RegionKind::window});
  }
}

bool WindowTable::withdraw_region(MemoryKey region) {
  std::lock_guard lock(mutex_);
  if (bound_.contains(region.value)) return false;
  adapter_.withdraw_region(region);
  return true;
}

bool WindowTable::change_region(const local::RegionFields& region) {
  std::lock_guard lock(mutex_);
  if (bound_.contains(region.key.value)) return false;
  adapter_.change_region(region);
  return true;
}

WindowTable::Window* WindowTable::find(MemoryKey key) {
  const auto found = windows_.find(name_of(key));
  return found == windows_.end() ? nullptr : &found->second;
}

bool WindowTable::may_bind(const Window* window, PdId pd, const WindowBind& request, local::RegionFields& region,
                           local::Verdict& verdict) const {
  constexpr auto kStatus = CompletionStatus::window_bind_error;
  if (!window || window->pd != pd)
    return refuse(verdict, kStatus, Reason::window_unknown, "key {:#x} is no memory window of PD {}",
                  request.window.value, pd.value);
  if (window->type == WindowType::two && window->region.value != 0)
    return refuse(verdict, kStatus, Reason::window_bound, "window {:#x} is bound to region {:#x}", window->key.value,
                  window->region.value);
  if (unbinds(request)) {
    // IBTA o10-37.2.40: a type 2 window is unbound by invalidating it.
    return window->type == WindowType::one ||
           refuse(verdict, kStatus, Reason::window_range, "window {:#x} is of type 2 and bound to nothing",
                  window->key.value);
  }
  if (!adapter_.view().read(request.region, region) || region.kind != local::RegionKind::region || region.pd != pd)
    return refuse(verdict, kStatus, Reason::window_region, "lkey {:#x} is no memory region of PD {}",
                  request.region.value, pd.value);
  if (region.access & access::kZeroBased)
    return refuse(verdict, kStatus, Reason::window_region, "region {:#x} is zero-based", request.region.value);
  // What the device may do by the region is no right of the window; programs name it nevertheless.
  constexpr uint32_t kKnown = kWindowRights | access::kZeroBased | access::kLocalWrite;
  if ((request.access & ~kKnown) || !grants(region, request.access))
    return refuse(verdict, kStatus, Reason::window_rights, "region {:#x} has access {:#x}, the window wants {:#x}",
                  request.region.value, region.access, request.access);
  if (!contains(region, request.address, request.length))
    return refuse(verdict, kStatus, Reason::window_range, "region {:#x} covers {:#x}+{}, the window {:#x}+{}",
                  request.region.value, region.iova, region.length, request.address, request.length);
  return true;
}

void WindowTable::attach(Window& window, const local::RegionFields& region, const WindowBind& request, Qpn qpn) {
  local::RegionFields fields{.key = window.key, .pd = window.pd, .kind = local::RegionKind::window};
  if (!unbinds(request)) {
    const uint64_t into_region = request.address - region.iova;
    window.region = request.region;
    window.queue_pair = window.type == WindowType::two ? qpn : Qpn{};
    ++bound_[request.region.value];
    fields.access = request.access & kWindowRights;
    fields.iova = request.access & access::kZeroBased ? 0 : request.address;
    fields.length = request.length;
    fields.address = region.address + into_region;
    fields.backing_fd = region.backing_fd;
    fields.backing_device = region.backing_device;
    fields.backing_inode = region.backing_inode;
    fields.backing_offset = region.backing_offset + into_region;
    fields.queue_pair = window.queue_pair;
  }
  adapter_.change_region(fields);
}

void WindowTable::detach(Window& window) {
  if (window.region.value == 0) return;
  const auto count = bound_.find(window.region.value);
  if (--count->second == 0) bound_.erase(count);
  window.region = {};
  window.queue_pair = {};
}

}  // namespace verbatim::model
