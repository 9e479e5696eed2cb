// Memory of this process that writers change all the time: threads of this process or of another one, each through a
// queue pair of its own. The fixture of what happens when their rights are taken away in the middle of it.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "conformance/support/operation.h"

namespace verbatim::conformance {

class WrittenMemory : public testing::Test {
 protected:
  static constexpr uint32_t kWriters = 4;
  // More than one slice, so that a message is cut in the middle too.
  static constexpr uint32_t kLength = 300'000;

  // `writers`: in this process or in another; the kind that it names is that of their memory. `operation`: what they
  // do.
  void set_up(Setting writers, MemoryKind memory, const Operation& operation = {});

  // Fills the memory and connects a queue pair to each writer, which writes nothing yet.
  void connect_writers();
  // As many receives into all of the memory as a queue pair takes.
  void post_receives(uint32_t index, uint32_t lkey);
  // From here on writer `index` does it to all of the memory, an atomic to the first eight bytes, by that key: again
  // and again, even when it is refused.
  void begin_writing(uint32_t index, uint32_t rkey);
  // Returns a random moment after some of it has arrived.
  void let_them_write();
  // That the memory is the owner's alone: what it writes stays, whatever happens `meanwhile`.
  void expect_untouched(const std::function<void()>& meanwhile = [] {});
  // Nobody writes any more, the queue pairs are gone, and nothing is left of them in the CQ and among the events.
  void end_writing();

  std::optional<Side> side_;
  std::optional<Memory> memory_;
  std::unique_ptr<Responder> writers_;
  Operation operation_;
  XrcDomainHandle domain_;
  SrqHandle shared_;  // what XRC messages name
  std::vector<QpHandle> queue_pairs_;

 private:
  bool something_arrives() const;

  uint32_t shared_queue_ = 0;
  std::mt19937 random_{42};
};

// "WritersElsewhereFile": where they are and what they write into. "Asking": what they cannot map, its owner writes.
// "FromFile": their memory is a file.
std::string writing_name(Setting writers, MemoryKind memory);

}  // namespace verbatim::conformance
