#include "agent/identity.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/process.h"

namespace verbatim {
namespace {

constexpr size_t kMaxTag = 32;

// Part of the name, so that releases whose protocols differ never meet.
constexpr std::string_view kNamePrefix = "verbatim/1/";

AbstractName abstract_name(const AgentIdentity& identity, std::string_view words) {
  std::string text(kNamePrefix);
  text += words;
  if (!identity.tag.empty()) text += "/" + identity.tag;

  AbstractName name;
  static_assert(sizeof name.address.sun_path >= 1 + 11 + 10 + 20 + 20 + 3 + 9 + 1 + kMaxTag, "the longest name fits");
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // the leading 0 makes it abstract
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

AbstractName readable_name(const AgentIdentity& identity, std::string_view last) {
  return abstract_name(
      identity, fmt::format("{}/{}/{}/{}", identity.uid, identity.namespaces.user, identity.namespaces.pid, last));
}

// Each input changes every bit of the result: the multiply-and-shift rounds of SplitMix64.
uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) + 0x9e3779b97f4a7c15;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
  state = (state ^ state >> 27) * 0x94d049bb133111eb;
  return state ^ state >> 31;
}

bool is_tag_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

Result<AgentIdentity> AgentIdentity::of_this_process() {
  Result<agent::ProcessFacts> facts = agent::read_own_facts();
  if (!facts.ok()) return facts.status();
  const agent::UserIds& users = facts.value().users;
  if (!users.all_are(users.effective)) return Status{EPERM};

  AgentIdentity identity{users.effective, facts.value().namespaces, ""};
  if (const char* tag = std::getenv(kTagVariable)) {
    if (!is_valid_tag(tag)) return Status{EINVAL};
    identity.tag = tag;
  }
  return identity;
}

AbstractName AgentIdentity::agent_name() const { return readable_name(*this, "agent"); }

AbstractName AgentIdentity::slot_name(Slot slot) const {
  return readable_name(*this, "slot/" + std::to_string(slot.value));
}

AbstractName AgentIdentity::xrc_domain_name(uint64_t device, uint64_t inode) const {
  uint64_t number = 0;
  for (const uint64_t word : {uint64_t{uid}, namespaces.user, namespaces.pid, device, inode})
    number = mix(number, word);
  return abstract_name(*this, fmt::format("xrc/{:016x}", number));
}

bool is_valid_tag(std::string_view tag) {
  if (tag.size() > kMaxTag) return false;
  for (char c : tag) {
    if (!is_tag_character(c)) return false;
  }
  return true;
}

}  // namespace verbatim
