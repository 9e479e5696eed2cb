#include "model/shared_receive_queue.h"

#include <cerrno>

#include "base/undo.h"
#include "model/completion_queue.h"
#include "model/xrc_domain.h"

namespace verbatim::model {

Result<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(Device& device, AsyncEvents& events,
                                                                       const Setup& setup) {
  const DeviceAttributes& limits = device.attributes();
  if (setup.max_wr == 0 || setup.max_wr > static_cast<uint32_t>(limits.max_srq_wr) ||
      setup.max_sge > static_cast<uint32_t>(limits.max_srq_sge) || setup.limit > setup.max_wr)
    return Status{EINVAL};
  if (!device.srqs.take(limits.max_srq)) return Status{ENOMEM};
  Undo taken([&] { device.srqs.give_back(); });
  const Result<uint32_t> number = device.adapter().claim_shared_receives();
  if (!number.ok()) return Status{ENOMEM};
  Undo claimed([&] { device.adapter().release_shared_receives(number.value()); });
  std::unique_ptr<SharedReceiveQueue> queue(new SharedReceiveQueue(device, events, setup, number.value()));
  taken.keep();
  claimed.keep();
  device.add(*queue);
  return queue;
}

SharedReceiveQueue::SharedReceiveQueue(Device& device, AsyncEvents& events, const Setup& setup, uint32_t number)
    : device_(device),
      events_(events),
      setup_(setup),
      number_(number),
      receives_(setup.max_wr, setup.max_sge),
      limit_(setup.limit) {
  device.adapter().receive_count(receive_count()).pd.store(pd().value, std::memory_order_relaxed);
  setup_.pd.add_user();
  if (setup_.cq) setup_.cq->add_user();
  if (setup_.xrc_domain) setup_.xrc_domain->add_user();
}

SharedReceiveQueue::~SharedReceiveQueue() {
  device_.remove(*this);
  events_.retire(acknowledgement_);
  device_.adapter().release_shared_receives(number_);
  if (setup_.xrc_domain) setup_.xrc_domain->remove_user();
  if (setup_.cq) setup_.cq->remove_user();
  setup_.pd.remove_user();
  device_.srqs.give_back();
}

Status SharedReceiveQueue::post(const ReceiveWork& work) {
  if (work.sges.size() > setup_.max_sge) return {EINVAL};
  std::lock_guard lock(mutex_);
  if (receives_.full()) return {ENOMEM};
  receives_.push(work);
  publish();
  return Status::success();
}

bool SharedReceiveQueue::take(TakenReceive& taken) {
  std::lock_guard lock(mutex_);
  if (receives_.empty()) return false;
  const ReceiveWork& head = receives_.head();
  taken.work_id = head.work_id;
  taken.count = static_cast<uint32_t>(head.sges.size());
  std::copy(head.sges.begin(), head.sges.end(), taken.sges.begin());
  receives_.pop();
  // Its room is free at once: what became of the receive is the completion queue's affair.
  receives_.retire(receives_.consumed());
  publish();
  check_limit();
  return true;
}

Status SharedReceiveQueue::set_limit(uint32_t limit) {
  if (limit > setup_.max_wr) return {EINVAL};
  std::lock_guard lock(mutex_);
  limit_ = limit;
  check_limit();
  return Status::success();
}

uint32_t SharedReceiveQueue::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

void SharedReceiveQueue::publish() {
  device_.adapter().receive_count(receive_count()).publish(receives_.posted(), receives_.consumed());
}

void SharedReceiveQueue::check_limit() {
  if (receives_.posted() - receives_.consumed() >= limit_) return;
  limit_ = 0;
  events_.raise({AsyncEventType::shared_receive_queue_limit, setup_.handle, 0, &acknowledgement_});
}

}  // namespace verbatim::model
