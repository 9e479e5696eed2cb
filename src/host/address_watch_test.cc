#include "host/address_watch.h"

#include <poll.h>

#include "support/network_namespace.h"

namespace verbatim::host {
namespace {

class AddressWatchInNamespace : public testing_support::InNamespace {
 protected:
  static bool has_news(const AddressWatch& watch, int milliseconds = 20'000) {
    pollfd wait{watch.fd(), POLLIN, 0};
    return poll(&wait, 1, milliseconds) == 1;
  }
  // The watch hears of the command, and of nothing more once it has been looked at.
  static void expect_heard(const AddressWatch& watch, const std::string& command) {
    ASSERT_TRUE(ip(command));
    EXPECT_TRUE(has_news(watch)) << command;
    watch.drain();
    EXPECT_FALSE(has_news(watch, 0)) << command;
  }
};

TEST_F(AddressWatchInNamespace, HearsOfAddressesAndLinksThatComeAndGo) {
  in_namespace({"link set dev lo up"}, [] {
    const Result<AddressWatch> watch = AddressWatch::open();
    ASSERT_TRUE(watch.ok());
    EXPECT_FALSE(has_news(watch.value(), 0));
    expect_heard(watch.value(), "address add 192.0.2.1/32 dev lo");
    expect_heard(watch.value(), "address del 192.0.2.1/32 dev lo");
    expect_heard(watch.value(), "-6 address add 2001:db8::1/128 dev lo nodad");
    expect_heard(watch.value(), "-6 address del 2001:db8::1/128 dev lo");
    expect_heard(watch.value(), "link set dev lo down");
  });
}

}  // namespace
}  // namespace verbatim::host
