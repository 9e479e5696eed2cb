#include "cm/identifier.h"

#include <cerrno>
#include <initializer_list>

namespace verbatim::cm {
namespace {

constexpr uint32_t states(std::initializer_list<IdState> allowed) {
  uint32_t mask = 0;
  for (IdState state : allowed) mask |= 1u << static_cast<int>(state);
  return mask;
}

using enum IdState;
constexpr uint32_t kAllowed[] = {
    /* bind */ states({idle}),
    /* resolve_address */ states({idle, bound}),
    /* resolve_route */ states({address_resolved}),
    /* set_path */ states({address_resolved}),
    /* listen */ states({idle, bound}),
    /* connect */ states({route_resolved}),
    /* accept */ states({connecting}),
    /* establish */ states({connecting}),
    /* reject */ states({connecting}),
    /* disconnect */ states({connecting, disconnected}),
    /* notify_established */ states({connecting}),
    /* join */ states({bound, address_resolved}),
    /* set_family_only */ states({idle, bound}),
    /* stop_reusing_address */ states({idle}),
};
static_assert(std::size(kAllowed) == static_cast<size_t>(kLastCommand) + 1);

}  // namespace

Status check(Command command, IdState state) {
  const bool allowed = kAllowed[static_cast<size_t>(command)] >> static_cast<int>(state) & 1;
  return allowed ? Status::success() : Status{EINVAL};
}

}  // namespace verbatim::cm
