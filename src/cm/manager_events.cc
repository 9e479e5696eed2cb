// What comes of the steps of connections and resolutions, and of time.
#include <cerrno>

#include "cm/manager.h"

namespace verbatim::cm {

void Manager::report(const Identifier& id, Event event) {
  // The program does not know it yet; its accept() will fail.
  if (!id.accepted) return;
  event.id = id.handle;
  event.context = id.context;
  events_.push(id.channel, event);
}

Reason Manager::take_step(ConnectionEntry& entry, const ConnectionStep& step, const wire::CmBody* body) {
  if (step.send) send(entry.connection.path(), *step.send);
  const auto found = ids_.find(entry.id);
  connections_.update(entry);
  if (found != ids_.end()) report(step.news, found->second, body);
  return step.dropped;
}

void Manager::report(ConnectionNews news, Identifier& id, const wire::CmBody* body) {
  const bool is_connecting = id.state == IdState::connecting;
  switch (news) {
    case ConnectionNews::none:
      return;
    case ConnectionNews::replied: {
      const wire::Rep& rep = std::get<wire::Rep>(*body);
      return report(id,
                    {.type = EventType::connect_response,
                     .connection = {.qpn = id.qp_type == QpType::xrc_send ? Qpn{rep.local_ee_context} : rep.local_qpn,
                                    .srq = rep.srq,
                                    .responder_resources = rep.initiator_depth,
                                    .initiator_depth = rep.responder_resources,
                                    .flow_control = rep.end_to_end_flow_control,
                                    .rnr_retry_count = rep.rnr_retry_count},
                     .private_data = PrivateData(rep.private_data),
                     .ece = rep.ece});
    }
    case ConnectionNews::established:
      return report(id, {.type = EventType::established});
    case ConnectionNews::rejected: {
      const wire::Rej& rej = std::get<wire::Rej>(*body);
      return report(id, {.type = EventType::rejected,
                         .status = static_cast<int>(rej.reason),
                         .private_data = PrivateData(rej.private_data)});
    }
    case ConnectionNews::unreachable:
      return report(id, {.type = EventType::unreachable, .status = -ETIMEDOUT});
    case ConnectionNews::disconnected:
    case ConnectionNews::disconnect_unanswered:
      if (!is_connecting) return;
      id.state = IdState::disconnected;
      return report(id,
                    {.type = EventType::disconnected, .status = news == ConnectionNews::disconnected ? 0 : -ETIMEDOUT});
    case ConnectionNews::timewait_over:
      if (id.state == IdState::disconnected) report(id, {.type = EventType::timewait_exit});
      return;
  }
}

Reason Manager::take_step(Resolution& resolution, const ResolutionStep& step, const wire::SidrRep* rep) {
  if (step.send) send(resolution.path(), *step.send);
  resolution_deadlines_.set(resolution.local_id(), resolution.deadline());
  const auto id = ids_.find(resolutions_.at(resolution.local_id()).second);
  if (step.news == ResolutionNews::unreachable)
    report(id->second, {.type = EventType::unreachable, .status = -ETIMEDOUT});
  if (step.news == ResolutionNews::answered) {
    const bool is_valid = rep->status == wire::SidrStatus::valid;
    Event event{.type = is_valid ? EventType::established : EventType::unreachable,
                .status = static_cast<int>(rep->status),
                .private_data = PrivateData(rep->private_data),
                .ece = rep->ece};
    if (is_valid) event.datagram = {.path = resolution.path(), .qpn = rep->qpn, .q_key = rep->q_key};
    report(id->second, event);
  }
  return step.dropped;
}

std::optional<OutgoingMad> Manager::poll_mad() {
  if (mads_.empty()) return std::nullopt;
  const OutgoingMad mad = mads_.front();
  mads_.pop_front();
  return mad;
}

Instant Manager::next_deadline() const {
  return std::min({connections_.next_deadline(), resolution_deadlines_.next(), address_deadlines_.next(),
                   unheard_.empty() ? kNever : unheard_.front().until});
}

void Manager::on_deadline(Instant now) {
  while (ConnectionEntry* const entry = connections_.pop_due(now))
    take_step(*entry, entry->connection.on_deadline(now), nullptr);
  while (const auto due = resolution_deadlines_.pop_due(now)) {
    Resolution& resolution = resolutions_.at(*due).first;
    take_step(resolution, resolution.on_deadline(now), nullptr);
  }
  if (!unheard_.empty() && unheard_.front().until <= now) hear_again(now);
  while (const auto due = address_deadlines_.pop_due(now)) fail_resolution(ids_.at(*due), ETIMEDOUT);
}

Status Manager::take_request(Owner owner, IdHandle request) {
  const Result<Identifier*> found = find(owner, request);
  if (!found.ok()) return found.status();
  if (!found.value()->waits_at) return {EINVAL};
  leave_backlog(*found.value());
  return Status::success();
}

std::optional<Event> Manager::take_event(Channel channel) {
  const std::optional<Event> event = events_.take(channel);
  if (event && event->type == EventType::connect_request) {
    Identifier& id = ids_.at(event->id);
    id.listener = {};
    id.channel = channel;
  }
  return event;
}

void Manager::put_back(Owner owner, Channel channel, std::span<const Event> events) {
  std::vector<Event> genuine;
  for (const Event& event : events) {
    const Result<Identifier*> found = find(owner, event.id);
    if (!found.ok()) continue;
    Identifier& id = *found.value();
    const bool is_request = event.type == EventType::connect_request;
    if (is_request && (!id.waits_at || id.waits_at != event.listener)) continue;
    if (is_request) id.listener = id.waits_at;
    genuine.push_back(event);
  }
  events_.put_back(channel, genuine);
}

Manager::Population Manager::population() const {
  return {.identifiers = ids_.size(),
          .memberships = memberships_.size(),
          .connections = connections_.size(),
          .resolutions = resolutions_.size() + asked_.size(),
          .ports = ports_.size(),
          .events = events_.size(),
          .accounts = events_.accounts()};
}

}  // namespace verbatim::cm
