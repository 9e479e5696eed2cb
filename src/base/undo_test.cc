#include "base/undo.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace verbatim {
namespace {

TEST(Undo, UndoesUnlessItIsKept) {
  int undone = 0;
  {
    const Undo undo([&] { ++undone; });
  }
  EXPECT_EQ(undone, 1);
  {
    Undo undo([&] { ++undone; });
    undo.keep();
  }
  EXPECT_EQ(undone, 1);
}

TEST(Undo, UndoesOnAnException) {
  int undone = 0;
  try {
    const Undo undo([&] { ++undone; });
    throw std::runtime_error("");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(undone, 1);
}

}  // namespace
}  // namespace verbatim
