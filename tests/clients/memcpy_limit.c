// What memcpy reaches on this machine at this moment, the ceiling of every honest transfer figure.
//
// usage: memcpy_limit SIZE...
// Prints a line "SIZE BYTES_PER_SECOND" for each size: the best of many short windows of copies between two
// page-aligned buffers of that size, as warm in the caches as the copies before made them.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  kPage = 4096,
  kWindows = 60,
  // Long against reading the clock, short against a time slice: some windows run undisturbed on a busy machine.
  kBytesPerWindow = 512 * 1024,
  kMostCopiesPerWindow = 8192,
};

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int64_t window_ns(char* to, const char* from, size_t size, size_t copies) {
  const int64_t start = now_ns();
  for (size_t i = 0; i < copies; ++i) {
    memcpy(to, from, size);
    __asm__ volatile("" ::"r"(to), "r"(from) : "memory");  // or the compiler would keep one copy of all
  }
  return now_ns() - start;
}

static double best_bandwidth(char* to, const char* from, size_t size) {
  size_t copies = kBytesPerWindow / size;
  if (copies < 1) copies = 1;
  if (copies > kMostCopiesPerWindow) copies = kMostCopiesPerWindow;
  int64_t best = INT64_MAX;
  for (int window = 0; window < kWindows; ++window) {
    const int64_t spent = window_ns(to, from, size, copies);
    if (spent < best) best = spent;
  }
  return (double)size * (double)copies * 1e9 / (double)(best > 0 ? best : 1);
}

static char* new_buffer(size_t size, int fill) {
  char* buffer = aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage);
  if (buffer) memset(buffer, fill, size);  // else reading never-written pages would read one page of zeros
  return buffer;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const size_t size = strtoull(argv[i], NULL, 0);
    char* from = size ? new_buffer(size, 1) : NULL;
    char* to = size ? new_buffer(size, 2) : NULL;
    if (!from || !to) {
      fprintf(stderr, "memcpy_limit: cannot copy '%s' bytes\n", argv[i]);
      return 1;
    }
    printf("%zu %.0f\n", size, best_bandwidth(to, from, size));
    free(from);
    free(to);
  }
  return 0;
}
