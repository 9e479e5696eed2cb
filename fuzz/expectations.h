// What fuzzers and the tests' fixtures need of each other: an EXPECT that fails is the end of the fuzzer, as a crash
// is.
#pragma once

#include <gtest/gtest.h>

namespace verbatim::fuzz {

// Called first in LLVMFuzzerTestOneInput.
inline void end_at_the_first_failure() {
  static const bool done = [] {
    testing::InitGoogleTest();
    // Not an exception, which would unwind through what shall be looked at.
    testing::GTEST_FLAG(break_on_failure) = true;
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace verbatim::fuzz
