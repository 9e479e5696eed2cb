#include "agent/frame.h"

#include <cerrno>
#include <cstring>

namespace verbatim::agent {
namespace {

struct Header {
  uint32_t magic = 0;
  uint16_t version = 0;
  uint16_t kind = 0;
};
static_assert(sizeof(Header) == kFrameHeader);

constexpr uint32_t kMagic = 0x76626d61;
constexpr uint16_t kVersion = 5;

}  // namespace

Frame frame_of(uint16_t kind) {
  const Header header{kMagic, kVersion, kind};
  Frame frame;
  std::memcpy(frame.bytes.data(), &header, sizeof header);
  frame.size = sizeof header;
  return frame;
}

Result<FrameView> read_frame(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return Status{EPROTO};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return Status{EPROTO};
  if (header.version != kVersion) return Status{EPROTONOSUPPORT};
  return FrameView{header.kind, bytes.subspan(sizeof header)};
}

}  // namespace verbatim::agent
