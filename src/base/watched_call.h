// A system call that an interrupted thread does not make (interruption.h). What happens to the thread within the call
// is the kernel's affair: one that was begun is brought to its end before the thread can be stopped.
#pragma once

#include <array>

#include "base/interruption.h"

namespace verbatim {

extern "C" [[gnu::visibility("hidden")]] const rseq_cs verbatim_call_sequence;
inline const rseq_cs& kCallSequence = verbatim_call_sequence;

// What a call that was not made returns: neither a result nor the negative of an errno.
inline constexpr long kCallNotMade = -4096;

extern "C" [[gnu::visibility("hidden")]] long verbatim_watched_call(long number, const long* arguments,
                                                                    const std::atomic<uint64_t>* watch);

// The kernel's answer, of an error the negative errno; kCallNotMade if this thread, which is watched for kCallSequence,
// was interrupted before.
inline long watched_call(long number, const std::array<long, 6>& arguments) {
  return verbatim_watched_call(number, arguments.data(), &interruption_watch());
}

}  // namespace verbatim
