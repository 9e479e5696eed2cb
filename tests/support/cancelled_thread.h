// Threads that somebody has asked to end (pthread_cancel(3)). Test code only.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

namespace verbatim::testing_support {

// Whether `body` comes to its end in such a thread, having met no cancellation point.
template <class Body>
bool is_not_cancelled_in(Body&& body) {
  bool ended = false;
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    body();
    ended = true;
    pthread_testcancel();
    ADD_FAILURE() << "nobody cancelled it";
  });
  thread.join();
  return ended;
}

}  // namespace verbatim::testing_support
