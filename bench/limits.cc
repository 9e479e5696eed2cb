// What this machine allows: the limit that each figure of bench/report.py stands beside.
//
// usage: limits ping-pong | eventfd | tcp-connection | memcpy BYTES | process_vm_writev BYTES | process_vm_readv BYTES
// Prints one number of nanoseconds, the median of many windows: half a round trip between two processes for the first
// two, one call of that size for the others, whose memory is as hot as the calls before left it.
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLength = std::chrono::milliseconds(300);
constexpr auto kWindow = std::chrono::microseconds(500);

[[noreturn]] void fail(const char* what) {
  perror(what);
  _exit(1);
}

void* shared_pages(size_t length) {
  void* const pages = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  return pages;
}

// A child that ends with its parent.
class Child {
 public:
  explicit Child(const std::function<void()>& life) : pid_(fork()) {
    if (pid_ < 0) fail("fork");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    life();
    _exit(0);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Of one call of `once`, in nanoseconds.
double median(const std::function<void()>& once) {
  const auto spent = [&](uint64_t calls) {
    const auto start = Clock::now();
    for (uint64_t i = 0; i < calls; ++i) once();
    return Clock::now() - start;
  };
  uint64_t calls = 1;
  while (spent(calls) < kWindow) calls *= 2;
  std::vector<double> windows;
  for (const auto end = Clock::now() + kLength; Clock::now() < end;)
    windows.push_back(std::chrono::duration<double, std::nano>(spent(calls)).count() / static_cast<double>(calls));
  std::nth_element(windows.begin(), windows.begin() + windows.size() / 2, windows.end());
  return windows[windows.size() / 2];
}

// --- half a round trip ----------------------------------------------------------------------------------------------

struct Ball {
  alignas(128) std::atomic<uint64_t> there;  // pairs with who waits for it, in the other process
  alignas(128) std::atomic<uint64_t> back;   // likewise
};

// A program that measures reads the clock and posts through a pointer in each turn.
void hit(std::atomic<uint64_t>& word, uint64_t value) { word.store(value, std::memory_order_release); }
void (*volatile const post)(std::atomic<uint64_t>&, uint64_t) = hit;
volatile Clock::rep last_time;

void take_turn(std::atomic<uint64_t>& mine, std::atomic<uint64_t>& other, uint64_t turn, bool serves) {
  if (serves) {
    last_time = Clock::now().time_since_epoch().count();
    post(other, turn);
  }
  while (mine.load(std::memory_order_acquire) != turn) {
  }
  if (serves) return;
  last_time = Clock::now().time_since_epoch().count();
  post(other, turn);
}

double ping_pong() {
  Ball& ball = *new (shared_pages(sizeof(Ball))) Ball;
  const Child child([&] {
    for (uint64_t turn = 1;; ++turn) take_turn(ball.there, ball.back, turn, false);
  });
  uint64_t turn = 0;
  return median([&] { take_turn(ball.back, ball.there, ++turn, true); }) / 2;
}

double eventfd_ping_pong() {
  const int there = eventfd(0, 0), back = eventfd(0, 0);
  if (there < 0 || back < 0) fail("eventfd");
  const auto take = [](int fd) {
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count) fail("read");
  };
  const auto give = [](int fd) {
    const uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one) fail("write");
  };
  const Child child([&] {
    for (;;) take(there), give(back);
  });
  return median([&] { give(there), take(back); }) / 2;
}

// --- one call -------------------------------------------------------------------------------------------------------

char* new_buffer(size_t length, int fill) {
  constexpr size_t kPage = 4096;
  char* const buffer = static_cast<char*>(aligned_alloc(kPage, (length + kPage - 1) / kPage * kPage));
  if (!buffer) fail("aligned_alloc");
  memset(buffer, fill, length);
  return buffer;
}

double memcpy_of(size_t length) {
  char* const to = new_buffer(length, 1);
  const char* const from = new_buffer(length, 2);
  return median([&] {
    memcpy(to, from, length);
    __asm__ volatile("" ::"r"(to), "r"(from) : "memory");  // or the compiler would keep one copy of all
  });
}

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

double process_memory(Call call, size_t length) {
  char* const ours = new_buffer(length, 1);
  // Another process's pages at the same address, written so that they are its own.
  int ready[2];
  if (pipe(ready) != 0) fail("pipe");
  const Child child([&] {
    memset(ours, 2, length);
    if (write(ready[1], "", 1) != 1) fail("write");
    for (;;) pause();
  });
  char byte;
  if (read(ready[0], &byte, 1) != 1) fail("read");
  const iovec piece{ours, length};
  return median([&] {
    if (call(child.pid(), &piece, 1, &piece, 1, 0) != static_cast<ssize_t>(length)) fail("process_vm");
  });
}

// --- a connection ---------------------------------------------------------------------------------------------------

// Of TCP on loopback: until both sides have it, and both know of its end.
double tcp_connection() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 128) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("listen");
  const Child child([&] {
    for (;;) {
      const int one = accept(listener, nullptr, nullptr);
      char byte;
      if (one < 0 || write(one, "", 1) != 1 || read(one, &byte, 1) != 0) fail("accept");
      close(one);
    }
  });
  return median([&] {
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    char byte;
    if (connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || read(one, &byte, 1) != 1)
      fail("connect");
    if (shutdown(one, SHUT_WR) != 0 || read(one, &byte, 1) != 0) fail("shutdown");
    close(one);
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  const size_t length = count > 2 ? strtoull(arguments[2], nullptr, 10) : 0;
  double figure;
  if (what == "ping-pong" && count == 2) {
    figure = ping_pong();
  } else if (what == "eventfd" && count == 2) {
    figure = eventfd_ping_pong();
  } else if (what == "tcp-connection" && count == 2) {
    figure = tcp_connection();
  } else if (what == "memcpy" && length) {
    figure = memcpy_of(length);
  } else if (what == "process_vm_writev" && length) {
    figure = process_memory(process_vm_writev, length);
  } else if (what == "process_vm_readv" && length) {
    figure = process_memory(process_vm_readv, length);
  } else {
    fprintf(stderr,
            "usage: limits ping-pong | eventfd | tcp-connection | memcpy BYTES | process_vm_writev BYTES | "
            "process_vm_readv BYTES\n");
    return 2;
  }
  printf("%.1f\n", figure);
  return 0;
}
