#include "conformance/support/own_segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "local/segment_layout.h"

namespace verbatim::conformance {
namespace {

using local::Segment;

// The one mapping of it that may be written, or null.
char* find_segment() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t start = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, rights) != 3) continue;
    if (line.find("verbatim-adapter") != std::string::npos && rights[1] == 'w') return reinterpret_cast<char*>(start);
  }
  return nullptr;
}

// Offsets of the pages that were ever written, and so mean something.
std::vector<size_t> used_pages(char* segment) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(sizeof(Segment) / page);
  std::vector<size_t> used;
  if (mincore(segment, sizeof(Segment), resident.data()) != 0) return used;
  for (size_t i = 0; i < resident.size(); ++i) {
    const size_t offset = i * page;
    const bool touch_records = offset + page > offsetof(Segment, touch_records) && offset < offsetof(Segment, notices);
    if ((resident[i] & 1) && !touch_records) used.push_back(offset);
  }
  return used;
}

}  // namespace

void scribble_over_own_segment(const std::stop_token& stop) {
  char* const segment = find_segment();
  if (!segment) return;
  std::mt19937_64 random(std::random_device{}());
  while (!stop.stop_requested()) {
    // Anew each time: there are more of them as lanes come into use.
    const std::vector<size_t> pages = used_pages(segment);
    for (int i = 0; i < 2000 && !pages.empty(); ++i) {
      const size_t at = pages[random() % pages.size()] + random() % 512 * 8;
      const uint64_t word = random() % 2 ? random() % 300 : random();
      reinterpret_cast<std::atomic<uint64_t>*>(segment + at)->store(word, std::memory_order_relaxed);
    }
    std::this_thread::yield();
  }
}

}  // namespace verbatim::conformance
