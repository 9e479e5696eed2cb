// The far side of a test, as a script sees it: memory, queue pairs, and what becomes of them. The same script drives a
// responder of this process and one of another process, which sleeps but for the commands it is given.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/support/memory.h"
#include "conformance/support/side.h"

namespace verbatim::conformance {

// Where the responder lives and what its memory is, which decides how data gets there: unreachable is anonymous memory
// with no call that reaches another process's, in both processes and for the rest of their lives (ctest runs each test
// in a process of its own).
enum class Setting { in_process, other_process_file, other_process_anonymous, other_process_unreachable };
std::string name(Setting setting);
bool is_other_process(Setting setting);

// A piece of a side's memory.
struct Piece {
  uint64_t offset = 0;
  uint32_t length = 0;
};
inline constexpr size_t kReceivePieces = 32;
inline constexpr size_t kReadBytes = 40;

// A send work request of a responder's own, with one piece of its memory at most. An atomic one adds 1.
struct FarRequest {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  Piece piece;  // none when its length is 0
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint32_t immediate = 0;  // as it lies in memory, or the key to invalidate
  unsigned flags = IBV_SEND_SIGNALED;
  // A datagram's target, or whose shared receive queue an XRC message names.
  Address target;
};

// What may be wanted of a responder. Sent as it is between two processes of one program.
struct Command {
  enum class Act : uint32_t {
    register_memory,
    deregister_memory,
    lose_memory,
    create_queue_pair,
    destroy_queue_pair,
    modify,
    query,
    post_receives,
    post_receive,
    poll,
    next_event,
    fill,
    compare,
    await_change,
    post_send,
    add_remotely,
    read,
    allocate_window,
    bind_window,
    attach,
    detach,
    begin_scribbling,
    begin_writing,
    end_writing,
    fork_child,
    stop,
  };
  Act act{};
  uint32_t queue_pair = 0;  // an index
  uint32_t window = 0;      // likewise
  uint32_t count = 0;
  int mask = 0;
  unsigned access = 0;
  MemoryKind memory = MemoryKind::anonymous;
  bool other_pd = false;
  bool read_only = false;
  bool truncates = false;
  uint8_t byte = 0;
  uint64_t iova = 0;  // 0: the address
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t seed = 0;
  uint64_t position = 0;
  std::chrono::milliseconds patience{};
  ibv_qp_attr attributes{};
  uint64_t id = 0;
  Piece pieces[kReceivePieces];
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  uint32_t immediate = 0;  // as it lies in memory
  ibv_qp_type type = IBV_QPT_RC;
  bool shared = false;
  unsigned flags = 0;
  ibv_gid group{};
  Address target;
};

struct Event {
  ibv_event_type type{};
  uint32_t queue_pair = 0;  // the index of the one it names
  bool operator==(const Event&) const = default;
};

struct Reply {
  int error = 0;  // errno
  bool found = false;
  uint64_t value = 0;
  uint32_t rkey = 0;
  Address address;
  Event event;
  ibv_wc completion{};
  ibv_qp_attr attributes{};
  std::array<uint8_t, kReadBytes> bytes{};
};

struct RemoteMemory {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

class Responder {
 public:
  static std::unique_ptr<Responder> start(Setting setting);
  virtual ~Responder() = default;
  // A command is told, and answered, one at a time.
  virtual void tell(const Command& command) = 0;
  virtual Reply answer() = 0;
  Reply ask(const Command& command) {
    tell(command);
    return answer();
  }

  // Its process; that of the caller for one in this process.
  virtual pid_t pid() const = 0;
  // SIGKILL; only of another process. Returns when the kernel has taken it away.
  virtual void kill() = 0;
  // The same of one that lies, and may have died of it.
  virtual void kill_liar() = 0;

  // Its one memory region. Bytes are at an offset from its start, where fill() puts those of the pattern's position.
  RemoteMemory register_memory(uint64_t length, unsigned access = kEveryAccess, bool other_pd = false);
  RemoteMemory register_memory_at(uint64_t length, uint64_t iova, unsigned access = kEveryAccess);
  // Filled, write-protected, and registered for reading.
  RemoteMemory register_read_only_memory(uint64_t length, uint64_t seed);
  void deregister_memory();
  // Takes its pages away, by truncating the file or by munmap; it stays registered.
  void lose_memory(bool by_truncation);
  void fill(uint64_t offset, uint64_t length, uint64_t seed);
  // Where, counted from `offset`, its bytes first differ from those of the pattern from `position` on.
  std::optional<uint64_t> first_difference(uint64_t offset, uint64_t length, uint64_t seed, uint64_t position);
  // As first_difference(), as soon as the last of these bytes is no longer `before`. EXPECTs that to be kSoon.
  std::optional<uint64_t> await_last_byte(uint8_t before, uint64_t offset, uint64_t length, uint64_t seed,
                                          uint64_t position) {
    begin_await_last_byte(before, offset, length, seed, position);
    return end_await_last_byte();
  }
  // The same in two halves: a responder of another process waits in between.
  void begin_await_last_byte(uint8_t before, uint64_t offset, uint64_t length, uint64_t seed, uint64_t position);
  std::optional<uint64_t> end_await_last_byte();
  uint8_t byte_at(uint64_t offset) { return bytes_at(offset)[0]; }
  // As many as there are up to the end of its memory, then 0.
  std::array<uint8_t, kReadBytes> bytes_at(uint64_t offset);

  // Its type 2 windows are named by their index too. The key of a new one, which is not bound.
  uint32_t allocate_window();
  // Binds one to all its memory, by a request of queue pair 0 and with a new key, which it returns. EXPECTs success, so
  // that it is not bound.
  uint32_t bind_window(uint32_t index);

  // Queue pairs are named by their index: 0, 1, 2, …
  // `shared`: its receives are taken from the one shared receive queue, as those of an XRC receiver are anyway.
  Address create_queue_pair(ibv_qp_type type = IBV_QPT_RC, bool shared = false);
  int destroy_queue_pair(uint32_t index = 0);
  int modify(uint32_t index, const ibv_qp_attr& attributes, int mask);
  int to_state(uint32_t index, ibv_qp_state state);
  int connect(uint32_t index, const Address& peer, const Wiring& wiring = {}, ibv_qp_type type = IBV_QPT_RC);
  ibv_qp_state state_of(uint32_t index = 0);
  // wr_ids 0 … count - 1.
  int post_receives(uint32_t index, uint32_t count);
  // Of at most kReceivePieces of its memory. `index` does not matter when that queue pair's queue is shared.
  int post_receive(uint32_t index, uint64_t id, const std::vector<Piece>& pieces);
  std::optional<ibv_wc> poll(std::chrono::milliseconds patience = kSoon);
  // The errno; waits for room.
  int post_send(uint32_t index, const FarRequest& request);
  // Adds 1 `count` times to the eight bytes there, by FETCH_ADD or by as many CMP_SWAP as it takes, into the first
  // bytes of its memory, one at a time. The errno; EIO when a request fails.
  int add_remotely(uint32_t index, ibv_wr_opcode opcode, const RemoteMemory& there, uint32_t count);
  // A thread of that queue pair posts this request again and again, even when it is refused. The end of it destroys all
  // queue pairs.
  void begin_writing(uint32_t index, const FarRequest& request);
  void end_writing();
  // A thread writes nonsense over what its process shows its peers. For the rest of that process's life: its own
  // objects are of no use to it any more, so that it can only be killed.
  void begin_scribbling();
  // The errno of entering and of leaving a multicast group.
  int attach(uint32_t index, const ibv_gid& group);
  int detach(uint32_t index, const ibv_gid& group);
  // A child that does nothing, and lives on when the responder is killed; only of another process. Its pid: the caller
  // ends it.
  pid_t fork_child();
  // Acknowledged.
  std::optional<Event> next_event(std::chrono::milliseconds patience = kSoon);

 protected:
  explicit Responder(MemoryKind memory) : memory_(memory) {}

 private:
  RemoteMemory register_as(Command command);

  const MemoryKind memory_;
};

// What argv[1] of a responder's process begins with; the number of its socket follows.
inline constexpr std::string_view kResponderOption = "--responder=";
// The life of that process; returns its exit status.
int serve_commands(int socket);

}  // namespace verbatim::conformance
