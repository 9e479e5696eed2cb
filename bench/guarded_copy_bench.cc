// What the guard costs: the guarded copy beside memcpy, hot in the cache, for the sizes that matter.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/guarded_copy.h"

namespace verbatim {
namespace {

constexpr size_t kPage = 4096;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

std::unique_ptr<char, Free> pages(size_t length) {
  const size_t whole = (length + kPage - 1) / kPage * kPage;
  std::unique_ptr<char, Free> memory(static_cast<char*>(std::aligned_alloc(kPage, whole)));
  std::memset(memory.get(), 0x5a, whole);
  return memory;
}

template <class Copy>
void run(benchmark::State& state, Copy copy) {
  const auto length = static_cast<size_t>(state.range(0));
  const auto to = pages(length);
  const auto from = pages(length);
  for (auto _ : state) {
    copy(to.get(), from.get(), length);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

void plain_copy(benchmark::State& state) {
  run(state, [](char* to, const char* from, size_t length) { std::memcpy(to, from, length); });
}

void guarded(benchmark::State& state) {
  if (!install_guard().ok()) return state.SkipWithError("no guard");
  run(state, [&](char* to, const char* from, size_t length) {
    CopyFault fault;
    if (!guarded_copy(to, from, length, &fault)) state.SkipWithError("fault");
  });
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t size : {8, 64, 256, 512, 1024, 2048, 4096, 65536, 1 << 20}) benchmark->Arg(size);
}

BENCHMARK(plain_copy)->Apply(sizes);
BENCHMARK(guarded)->Apply(sizes);

}  // namespace
}  // namespace verbatim
