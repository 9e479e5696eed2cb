// The C objects that programs hold, each with our object behind the part whose layout the ABI fixes. A pointer to the
// one is a pointer to the other. Ownership: made by an ibv_create/alloc/reg/open call, freed by its counterpart, or by
// ibv_close_device of the context they were made in.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <mutex>
#include <unordered_set>

#include "api/ibverbs/newer_verbs.h"
#include "api/ibverbs/poll_patience.h"
#include "api/ibverbs/send_batch.h"
#include "base/file_descriptor.h"
#include "model/address_handle.h"
#include "model/async_events.h"
#include "model/completion_channel.h"
#include "model/completion_queue.h"
#include "model/device.h"
#include "model/memory_region.h"
#include "model/memory_window.h"
#include "model/protection_domain.h"
#include "model/queue_pair.h"
#include "model/shared_receive_queue.h"
#include "model/xrc_domain.h"

namespace verbatim::api {

// A promise of the program to use what it makes with it in one thread at a time. We lock all the same.
struct TdObject {
  ibv_td base{};
  std::atomic<uint32_t> users{0};  // parent domains; free_parent_domain() pairs with dealloc_td()
};

// A protection domain or a parent domain.
struct PdObject {
  ibv_pd base{};
  std::unique_ptr<model::ProtectionDomain> impl;
  TdObject* thread_domain = nullptr;  // a parent domain's, or null
};

struct AhObject {
  ibv_ah base{};
  std::unique_ptr<model::AddressHandle> impl;
};

struct MrObject {
  ibv_mr base{};
  std::unique_ptr<model::MemoryRegion> impl;
};

struct MwObject {
  ibv_mw base{};
  std::unique_ptr<model::MemoryWindow> impl;
};

struct ChannelObject {
  ibv_comp_channel base{};  // refcnt: the CQs attached to it; guarded by the context's mutex
  model::CompletionChannel impl;
};

// ibv_cq_ex begins with ibv_cq.
struct CqObject {
  ibv_cq_ex base{};
  std::unique_ptr<model::CompletionQueue> impl;
  // The parent domain it was made in, or null; it is in use as long.
  PdObject* domain = nullptr;
  PollPatience patience;
  // From start_poll to end_poll: whose batch it is, and the completion that the read functions are about.
  std::mutex batch;
  Completion current;
};

// One opening of a domain, which others of this process may have opened too.
struct XrcdObject {
  ibv_xrcd base{};
  std::shared_ptr<model::XrcDomain> impl;
  std::atomic<uint32_t> users{0};  // what was made in it through this opening
};

// Keeps an opened domain from being closed.
class DomainUse {
 public:
  DomainUse() = default;
  explicit DomainUse(XrcdObject& object) : object_(&object) { object.users.fetch_add(1, std::memory_order_relaxed); }
  DomainUse(DomainUse&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  DomainUse& operator=(DomainUse&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~DomainUse() {
    if (object_) object_->users.fetch_sub(1, std::memory_order_release);  // pairs with close_xrcd
  }

 private:
  XrcdObject* object_ = nullptr;
};

struct SrqObject {
  ibv_srq base{};
  DomainUse domain;
  std::unique_ptr<model::SharedReceiveQueue> impl;
};

// ibv_qp_ex begins with ibv_qp.
struct QpObject {
  QueuePairBase extended;
  DomainUse domain;
  std::shared_ptr<model::QueuePair> impl;  // an XRC receiver's may be opened more than once
  bool opened = false;                     // by ibv_open_qp: events name who has created it
  std::unique_ptr<SendBatch> batch;        // null unless it was created with send_ops_flags

  ~QpObject() {
    if (impl && !opened) impl->silence();
  }

  ibv_qp& base() { return extended.base.qp_base; }
};

// The objects of one kind that a context still has: what the kernel would free when the device's file is closed.
template <class Object>
class LiveObjects {
 public:
  Object* add(std::unique_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    live_.insert(object.get());
    return object.release();
  }
  std::unique_ptr<Object> take(Object* object) {
    std::lock_guard lock(mutex_);
    live_.erase(object);
    return std::unique_ptr<Object>(object);
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    std::lock_guard lock(mutex_);
    for (Object* object : live_) visit(*object);
  }
  ~LiveObjects() {
    for (Object* object : live_) delete object;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<Object*> live_;
};

struct ContextObject {
  verbs_context base{};  // its last member is the ibv_context that programs hold
  model::Device& device;
  model::AsyncEvents events;
  // What stands where a NIC has the kernel's device: it can be duplicated and sent, and nothing else.
  FileDescriptor command;
  // Destroyed from the last to the first: queue pairs and windows before what they use.
  LiveObjects<PdObject> pds;
  LiveObjects<TdObject> tds;
  LiveObjects<PdObject> parent_domains;
  LiveObjects<AhObject> ahs;
  LiveObjects<MrObject> mrs;
  LiveObjects<MwObject> mws;
  LiveObjects<ChannelObject> channels;
  LiveObjects<CqObject> cqs;
  LiveObjects<XrcdObject> xrcds;
  LiveObjects<SrqObject> srqs;
  LiveObjects<QpObject> qps;
};

inline ContextObject& object_of(ibv_context* context) {
  return *reinterpret_cast<ContextObject*>(reinterpret_cast<char*>(context) - offsetof(verbs_context, context));
}
inline PdObject& object_of(ibv_pd* pd) { return *reinterpret_cast<PdObject*>(pd); }
inline TdObject& object_of(ibv_td* td) { return *reinterpret_cast<TdObject*>(td); }
inline AhObject& object_of(ibv_ah* ah) { return *reinterpret_cast<AhObject*>(ah); }
inline MrObject& object_of(ibv_mr* mr) { return *reinterpret_cast<MrObject*>(mr); }
inline MwObject& object_of(ibv_mw* mw) { return *reinterpret_cast<MwObject*>(mw); }
inline ChannelObject& object_of(ibv_comp_channel* channel) { return *reinterpret_cast<ChannelObject*>(channel); }
inline CqObject& object_of(ibv_cq* cq) { return *reinterpret_cast<CqObject*>(cq); }
inline XrcdObject& object_of(ibv_xrcd* xrcd) { return *reinterpret_cast<XrcdObject*>(xrcd); }
inline SrqObject& object_of(ibv_srq* srq) { return *reinterpret_cast<SrqObject*>(srq); }
inline QpObject& object_of(ibv_qp* qp) { return *reinterpret_cast<QpObject*>(qp); }
inline QpObject& object_of(ibv_qp_ex* qp) { return *reinterpret_cast<QpObject*>(qp); }

// NULL with errno, for calls that return a pointer.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

// Holds a lock of the C objects, for as long as it lives.
class HeldMutex {
 public:
  explicit HeldMutex(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~HeldMutex() { pthread_mutex_unlock(&mutex_); }
  HeldMutex(const HeldMutex&) = delete;
  HeldMutex& operator=(const HeldMutex&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// Sets the slots of ibv_context.ops that move data: post_send, post_recv, poll_cq, req_notify_cq.
void fill_data_path_slots(verbs_context& context);
// create_qp_ex, open_qp.
void fill_queue_pair_slots(verbs_context& context);
// create_srq_ex, get_srq_num, ops.post_srq_recv.
void fill_shared_receive_queue_slots(verbs_context& context);
// open_xrcd, close_xrcd.
void fill_xrc_domain_slots(verbs_context& context);
// alloc_null_mr, advise_mr.
void fill_memory_slots(verbs_context& context);
// alloc_mw, bind_mw, dealloc_mw.
void fill_window_slots(ibv_context_ops& ops);
// Sets the slots create_cq_ex and modify_cq.
void fill_completion_queue_slots(verbs_context& context);
// Sets the functions by which a CQ of ibv_create_cq_ex is polled; `alone`: by one thread only.
void fill_polling_functions(ibv_cq_ex& cq, bool alone);
// Sets alloc_td, dealloc_td, alloc_parent_domain.
void fill_parent_domain_slots(verbs_context& context);
// What ibv_dealloc_pd does with one that nobody uses.
void free_parent_domain(PdObject& object);

}  // namespace verbatim::api
