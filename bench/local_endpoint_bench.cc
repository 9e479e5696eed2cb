// What a WRITE costs through a LocalEndpoint, each way to the target's memory, beside memcpy of as many bytes: the
// counter x_memcpy is the time of a WRITE divided by that of a memcpy, both measured here and now. Both ends are
// adapters of this process, and reach each other under its own pid as another process would be reached.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "local/backing.h"
#include "local/local_endpoint.h"

namespace verbatim::local {
namespace {

constexpr size_t kMemory = 1 << 20;
constexpr uint32_t kAccess = access::kLocalWrite | access::kRemoteWrite;

struct Acquaintance final : PeerTable::Introducer {
  void refresh() override {}
  Status introduce(Slot) override { return Status::success(); }
  Status introduce_everyone() override { return Status::success(); }
  Status appear() override { return Status::success(); }
};

// An adapter with one queue pair number and the peers it knows.
struct Side {
  explicit Side(uint16_t slot) : adapter(Adapter::create([slot]() -> Result<Slot> { return Slot{slot}; }).take()) {}

  void meet(const Side& other) {
    peers.add(std::make_shared<Peer>(SegmentView::map(other.adapter->segment_fd(), other.adapter->incarnation()).take(),
                                     other.adapter->incarnation(), getpid(),
                                     FileDescriptor(dup(other.adapter->doorbell_fd()))),
              other.adapter->slots());
  }

  Acquaintance introducer;
  std::unique_ptr<Adapter> adapter;
  PeerTable peers{std::make_shared<Peer>(adapter->view(), adapter->incarnation(), adapter->doorbell_fd()),
                  [this](Slot slot) { return adapter->owns(slot); }, introducer};
  Lanes lanes{*adapter, peers};
  Qpn qpn = adapter->allocate_qpn().take();
};

class Memory {
 public:
  explicit Memory(bool in_a_file) {
    if (in_a_file) {
      file_ = FileDescriptor(memfd_create("bench", MFD_CLOEXEC));
      if (ftruncate(file_.get(), kMemory) != 0) std::abort();
    }
    const int flags = (in_a_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_POPULATE;
    data_ = static_cast<uint8_t*>(mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, flags, file_.get(), 0));
    if (data_ == MAP_FAILED) std::abort();
    std::memset(data_, 0x5a, kMemory);
  }
  ~Memory() { munmap(data_, kMemory); }
  Memory(const Memory&) = delete;

  uint8_t* data() const { return data_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  // Publishes all of it; the file behind it, if any, stays open as long as this.
  MemoryKey publish(Adapter& adapter) {
    RegionFields region{.access = kAccess, .iova = address(), .length = kMemory, .address = address()};
    backing_ = find_backing(address(), kMemory).take();
    if (backing_) {
      region.backing_fd = backing_->backing().fd;
      region.backing_device = backing_->backing().device;
      region.backing_inode = backing_->backing().inode;
      region.backing_offset = backing_->backing().offset;
    }
    return adapter.publish_region(region).take();
  }

 private:
  FileDescriptor file_;
  uint8_t* data_;
  std::optional<OwnedBacking> backing_;
};

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_of_memcpy(uint8_t* to, const uint8_t* from, size_t length) {
  const int rounds = static_cast<int>((size_t{256} << 20) / (length + 512));
  const double start = processor_seconds();
  for (int i = 0; i < rounds; ++i) {
    benchmark::DoNotOptimize(length);  // a length the compiler knew would make memcpy a single move
    std::memcpy(to, from, length);
    benchmark::ClobberMemory();
  }
  return (processor_seconds() - start) / rounds;
}

void write_through(benchmark::State& state, Side& from, Side& to, bool target_in_a_file) {
  const auto length = static_cast<uint64_t>(state.range(0));
  Memory source(false), target(target_in_a_file);
  const MemoryKey lkey = source.publish(*from.adapter), rkey = target.publish(*to.adapter);
  const Qpn own = from.qpn, peer = to.adapter->allocate_qpn().take();
  to.adapter->publish(
      {.qpn = peer, .state = static_cast<uint32_t>(QueuePairState::rts), .access = kAccess, .peer = own});
  LocalEndpoint endpoint(*from.adapter, from.peers, from.lanes);
  if (!endpoint.connect({.own = own, .peer = peer}).ok()) return state.SkipWithError("no connection");
  const Sge sge{source.address(), static_cast<uint32_t>(length), lkey};
  const SendWork work{.rkey = rkey, .remote_address = target.address(), .sges = {&sge, 1}, .length = length};
  const double memcpy_seconds = seconds_of_memcpy(target.data(), source.data(), length);
  const double start = processor_seconds();
  for (auto _ : state) {
    Verdict verdict;
    uint64_t offset = 0;
    Advance outcome;
    do outcome = endpoint.advance(work, offset, verdict);
    while (outcome == Advance::more);
    if (outcome != Advance::done) return state.SkipWithError("a write failed");
  }
  const double seconds = (processor_seconds() - start) / static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * length));
  state.counters["x_memcpy"] = seconds / memcpy_seconds;
}

void in_process(benchmark::State& state) {
  Side side(0x10);
  write_through(state, side, side, false);
}

void between_processes(benchmark::State& state, bool target_in_a_file) {
  Side from(0x10), to(0x20);
  from.meet(to);
  write_through(state, from, to, target_in_a_file);
}

void by_process_vm(benchmark::State& state) { between_processes(state, false); }
void mapped(benchmark::State& state) { between_processes(state, true); }

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t size : {8, 4096, 65536}) benchmark->Arg(size);
}

BENCHMARK(in_process)->Apply(sizes);
BENCHMARK(by_process_vm)->Apply(sizes);
BENCHMARK(mapped)->Apply(sizes);

}  // namespace
}  // namespace verbatim::local
