// rdma_getaddrinfo(3) and rdma_freeaddrinfo: what a node and a service mean to rdma_create_ep(3), rdma_bind_addr(3) and
// rdma_resolve_addr(3). The C library looks them up, and may ask a name server. No device is asked: which one has a
// source, or leads to a destination, shows when an identifier is bound or resolved; and an Ethernet port has no routes
// to offer. Thread-safe; threads may be cancelled while a name is looked up, as in getaddrinfo(3).
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/rdmacm/convert_address.h"
#include "base/no_memory.h"

namespace verbatim::api {
namespace {

constexpr int kKnownFlags = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;
// The manual's EAI_QPTYPE, which no header has; gai_strerror(3) knows its number by this name.
constexpr int kWrongQueuePairType = EAI_SOCKTYPE;

// Which types of queue pair a port space has. The first row with the one says what it means without the other.
struct Service {
  int port_space = 0;
  int qp_type = 0;
};
constexpr std::array kServices{
    Service{RDMA_PS_TCP, IBV_QPT_RC},       Service{RDMA_PS_TCP, IBV_QPT_UC}, Service{RDMA_PS_TCP, IBV_QPT_XRC_SEND},
    Service{RDMA_PS_TCP, IBV_QPT_XRC_RECV}, Service{RDMA_PS_UDP, IBV_QPT_UD}, Service{RDMA_PS_IPOIB, IBV_QPT_UD},
    Service{RDMA_PS_IB, IBV_QPT_RC},        Service{RDMA_PS_IB, IBV_QPT_UC},  Service{RDMA_PS_IB, IBV_QPT_XRC_SEND},
    Service{RDMA_PS_IB, IBV_QPT_XRC_RECV},  Service{RDMA_PS_IB, IBV_QPT_UD},
};

// 0 stands for "not said".
std::optional<Service> service_of(const rdma_addrinfo& hints) {
  const auto agrees = [](int said, int value) { return said == 0 || said == value; };
  const auto found = std::find_if(kServices.begin(), kServices.end(), [&](const Service& row) {
    return agrees(hints.ai_port_space, row.port_space) && agrees(hints.ai_qp_type, row.qp_type);
  });
  if (found == kServices.end()) return std::nullopt;
  return *found;
}

// -1 with errno, the other of the two ways in which the manual has errors.
int fail(int error) {
  errno = error;
  return -1;
}

// From here on an int is 0 or what rdma_getaddrinfo returns.

// Family::none if the hints have none.
int read_hint(const sockaddr* hint, socklen_t length, cm::Address& address) {
  if (!hint || length == 0) return 0;
  sa_family_t family = AF_UNSPEC;
  if (length < sizeof family) return fail(EINVAL);
  std::memcpy(&family, hint, sizeof family);
  if (family != AF_INET && family != AF_INET6) return EAI_FAMILY;
  if (length < (family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))) return fail(EINVAL);
  address = *from_c(hint);
  return 0;
}

// getaddrinfo(3) would take what is left of it in 16 bits.
bool is_beyond_ports(std::string_view service) {
  unsigned long number = 0;
  const auto [end, error] = std::from_chars(service.data(), service.data() + service.size(), number);
  if (end != service.data() + service.size()) return false;
  return error == std::errc::result_out_of_range || number > 0xffff;
}

// One end of the communication: its addresses, the best one first, and its name if it was looked up.
struct End {
  std::vector<cm::Address> addresses;
  std::optional<std::string> name;
};

int look_up(const char* node, const char* service, const addrinfo& hints, End& end) {
  if (service && is_beyond_ports(service)) return EAI_SERVICE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(node, service, &hints, &list)) return error;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  if (list->ai_canonname) end.name = list->ai_canonname;
  for (const addrinfo* info = list; info; info = info->ai_next)
    if (const std::optional<cm::Address> address = from_c(info->ai_addr)) end.addresses.push_back(*address);
  return end.addresses.empty() ? EAI_ADDRFAMILY : 0;
}

struct Question {
  const char* node;
  const char* service;
  const rdma_addrinfo& hints;
  Service kind;
  cm::Address source;       // of the hints
  cm::Address destination;  // of the hints

  bool is_passive() const { return (hints.ai_flags & RAI_PASSIVE) != 0; }
  // Of the end that the node and the service name.
  const cm::Address& hint() const { return is_passive() ? source : destination; }
};

addrinfo lookup_hints(const Question& question) {
  const int flags = question.hints.ai_flags;
  addrinfo hints{};
  if (question.is_passive()) hints.ai_flags |= AI_PASSIVE;
  if (flags & RAI_NUMERICHOST) hints.ai_flags |= AI_NUMERICHOST;
  if (question.node) hints.ai_flags |= AI_CANONNAME;
  hints.ai_family = flags & RAI_FAMILY ? question.hints.ai_family : AF_UNSPEC;
  hints.ai_socktype = question.kind.qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
  return hints;
}

// The address of the hints, with the port of the service if there is one.
int complete_hint(const Question& question, End& end) {
  cm::Address address = question.hint();
  if (question.service) {
    End any;
    if (const int error = look_up(nullptr, question.service, lookup_hints(question), any)) return error;
    address.port = any.addresses.front().port;
  }
  end.addresses.push_back(address);
  return 0;
}

// The end that is asked for. Without any address: the hints have only a source, which is all that there is to say.
int find_end(const Question& question, End& end) {
  const bool has_hint = question.hint().family != cm::Family::none;
  if (!question.node && has_hint) return complete_hint(question, end);
  if (question.node || question.service) return look_up(question.node, question.service, lookup_hints(question), end);
  return question.source.family != cm::Family::none && !question.is_passive() ? 0 : EAI_NONAME;
}

// Pieces of an answer are from malloc, each by itself: programs hang pieces of their own into it.
template <class T>
T* allocated(size_t size = sizeof(T)) {
  void* const memory = std::calloc(1, size);
  if (!memory) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

void hang_in(const cm::Address& address, sockaddr*& place, socklen_t& length) {
  const socklen_t size = length_of(address.family);
  if (size == 0) return;
  const sockaddr_storage storage = to_c(address);
  place = allocated<sockaddr>(size);
  std::memcpy(place, &storage, size);
  length = size;
}

void hang_in(const std::string& name, char*& place) {
  place = allocated<char>(name.size() + 1);
  std::memcpy(place, name.data(), name.size());
}

struct FreeChain {
  void operator()(rdma_addrinfo* chain) const { rdma_freeaddrinfo(chain); }
};
using Chain = std::unique_ptr<rdma_addrinfo, FreeChain>;

Chain make_entry(const Question& question, const cm::Address& found, const End& end) {
  Chain entry(allocated<rdma_addrinfo>());
  entry->ai_flags = question.hints.ai_flags;
  entry->ai_qp_type = question.kind.qp_type;
  entry->ai_port_space = question.kind.port_space;
  const bool passive = question.is_passive();
  hang_in(passive ? found : question.source, entry->ai_src_addr, entry->ai_src_len);
  if (!passive) hang_in(found, entry->ai_dst_addr, entry->ai_dst_len);
  if (end.name) hang_in(*end.name, passive ? entry->ai_src_canonname : entry->ai_dst_canonname);
  const sockaddr* const any = entry->ai_dst_addr ? entry->ai_dst_addr : entry->ai_src_addr;
  entry->ai_family = any->sa_family;
  return entry;
}

// Whether one can get from the source of the hints to an address at all.
bool is_reachable(const Question& question, const cm::Address& address) {
  const cm::Family source = question.source.family;
  return question.is_passive() || source == cm::Family::none || source == address.family;
}

int make_chain(const Question& question, const End& end, Chain& chain) {
  if (end.addresses.empty()) {
    chain = make_entry(question, {}, end);
    return 0;
  }
  for (auto address = end.addresses.rbegin(); address != end.addresses.rend(); ++address) {
    if (!is_reachable(question, *address)) continue;
    Chain entry = make_entry(question, *address, end);
    entry->ai_next = chain.release();
    chain = std::move(entry);
  }
  return chain ? 0 : EAI_ADDRFAMILY;
}

int answer(const char* node, const char* service, const rdma_addrinfo& hints, Chain& chain) {
  if (hints.ai_flags & ~kKnownFlags) {
    // The number of this error is also that of the other way of saying one.
    errno = EINVAL;
    return EAI_BADFLAGS;
  }
  if (hints.ai_flags & RAI_FAMILY && hints.ai_family != AF_UNSPEC && hints.ai_family != AF_INET &&
      hints.ai_family != AF_INET6)
    return EAI_FAMILY;
  const std::optional<Service> kind = service_of(hints);
  if (!kind) return kWrongQueuePairType;
  Question question{.node = node, .service = service, .hints = hints, .kind = *kind};
  if (const int error = read_hint(hints.ai_src_addr, hints.ai_src_len, question.source)) return error;
  if (const int error = read_hint(hints.ai_dst_addr, hints.ai_dst_len, question.destination)) return error;
  End end;
  if (const int error = find_end(question, end)) return error;
  return make_chain(question, end, chain);
}

}  // namespace
}  // namespace verbatim::api

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
  using namespace verbatim;
  static constexpr rdma_addrinfo kNoHints{};
  if (!node && !service && !hints) return api::fail(EINVAL);
  const AllocationsMayFail guard;
  api::Chain chain;
  try {
    if (const int error = api::answer(node, service, hints ? *hints : kNoHints, chain)) return error;
  } catch (const std::bad_alloc&) {
    return EAI_MEMORY;
  }
  *res = chain.release();
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res) {
    rdma_addrinfo* const next = res->ai_next;
    std::free(res->ai_src_addr);
    std::free(res->ai_dst_addr);
    std::free(res->ai_src_canonname);
    std::free(res->ai_dst_canonname);
    std::free(res->ai_route);
    std::free(res->ai_connect);
    std::free(res);
    res = next;
  }
}

}  // extern "C"
