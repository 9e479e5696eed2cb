// What is undone unless all that follows succeeds, by a return or by an exception.
#pragma once

#include <utility>

namespace verbatim {

template <class Action>
class Undo {
 public:
  explicit Undo(Action action) : action_(std::move(action)) {}
  ~Undo() {
    if (!kept_) action_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void keep() { kept_ = true; }

 private:
  Action action_;
  bool kept_ = false;
};

}  // namespace verbatim
