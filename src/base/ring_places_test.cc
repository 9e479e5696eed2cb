#include "base/ring_places.h"

#include <gtest/gtest.h>

#include <set>

namespace verbatim {
namespace {

TEST(RingPlaces, AsManyInARowAsThereAreEntriesHavePlacesOfTheirOwn) {
  for (const size_t entries : {0, 1, 2, 3, 5, 8, 100, 4096, 4097}) {
    const RingPlaces places(entries);
    EXPECT_GE(places.count(), entries);
    for (const uint64_t first : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40, ~uint64_t{0} - entries}) {
      std::set<size_t> used;
      for (uint64_t i = 0; i < entries; ++i) {
        EXPECT_LT(places.of(first + i), places.count());
        used.insert(places.of(first + i));
      }
      EXPECT_EQ(used.size(), entries);
    }
  }
}

}  // namespace
}  // namespace verbatim
