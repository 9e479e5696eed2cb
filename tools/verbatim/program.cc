#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"

namespace verbatim::tool {
namespace fs = std::filesystem;
namespace {

Program refuse(fs::path file, int exit_status, std::string sentence) {
  return {std::move(file), exit_status, std::move(sentence)};
}

enum class Fitness { executable, not_executable, directory, missing };

Fitness fitness(const fs::path& file) {
  struct stat info;
  if (::stat(file.c_str(), &info) != 0) return errno == EACCES ? Fitness::not_executable : Fitness::missing;
  if (S_ISDIR(info.st_mode)) return Fitness::directory;
  const bool runnable = S_ISREG(info.st_mode) && ::access(file.c_str(), X_OK) == 0;
  return runnable ? Fitness::executable : Fitness::not_executable;
}

// PATH, or what the C library searches without one. An empty element means the current folder.
std::vector<fs::path> search_folders() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/bin:/usr/bin";
  std::vector<fs::path> folders;
  for (;;) {
    const size_t colon = rest.find(':');
    const std::string_view element = rest.substr(0, colon);
    folders.emplace_back(element.empty() ? "." : element);
    if (colon == std::string_view::npos) return folders;
    rest.remove_prefix(colon + 1);
  }
}

Program locate(const std::string& name) {
  std::vector<fs::path> candidates;
  if (name.find('/') != std::string::npos)
    candidates = {name};
  else
    for (const fs::path& folder : search_folders()) candidates.push_back(folder / name);

  Program best = refuse(name, kNotFound, fmt::format("{}: no such program", name));
  for (const fs::path& file : candidates) {
    switch (fitness(file)) {
      case Fitness::executable:
        return {file, 0, ""};
      case Fitness::not_executable:
        best = refuse(file, kCannotRun, fmt::format("{}: not executable for this user", file.string()));
        break;
      case Fitness::directory:
        if (candidates.size() == 1) best = refuse(file, kCannotRun, fmt::format("{}: is a directory", name));
        break;
      case Fitness::missing:
        break;
    }
  }
  return best;
}

// What the start of an ELF file says about who loads it.
struct ElfFacts {
  unsigned char bits = ELFCLASSNONE;
  uint16_t machine = EM_NONE;
  bool interpreter = false;
};

bool read_exactly(int fd, void* to, size_t length, uint64_t offset) {
  return ::pread(fd, to, length, static_cast<off_t>(offset)) == static_cast<ssize_t>(length);
}

// False when the file is no ELF program of this machine's byte order and word size, or is cut short.
bool has_interpreter(int fd) {
  Elf64_Ehdr header;
  if (!read_exactly(fd, &header, sizeof header, 0) || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_exactly(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment)) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

// Nothing for a file that is no ELF file or that we may execute but not read.
bool read_elf(const fs::path& file, ElfFacts* facts) {
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  // e_machine stands at the same offset in files of both word sizes.
  Elf64_Ehdr header;
  constexpr size_t kCommonPart = offsetof(Elf64_Ehdr, e_version);
  if (!fd.valid() || !read_exactly(fd.get(), &header, kCommonPart, 0)) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  facts->bits = header.e_ident[EI_CLASS];
  facts->machine = header.e_machine;
  facts->interpreter = facts->bits == ELFCLASS64 && has_interpreter(fd.get());
  return true;
}

// What running the file would add to the caller's rights, or nothing. The kernel then marks the process AT_SECURE,
// and ld.so(8) ignores LD_LIBRARY_PATH.
std::string_view raises_privileges(const fs::path& file) {
  struct stat info;
  struct statvfs mount;
  if (::stat(file.c_str(), &info) != 0 || ::statvfs(file.c_str(), &mount) != 0) return {};
  const bool ignored_by_kernel = (mount.f_flag & ST_NOSUID) || ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  if (ignored_by_kernel) return {};
  if ((info.st_mode & S_ISUID) && info.st_uid != ::getuid()) return "is setuid";
  // Without group execution the bit means mandatory locking.
  if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != ::getgid()) return "is setgid";
  // Root's own rights are not raised by a file's.
  if (::getuid() != 0 && ::getxattr(file.c_str(), "security.capability", nullptr, 0) > 0)
    return "has file capabilities";
  return {};
}

}  // namespace

Program find_program(const std::string& name) {
  Program program = locate(name);
  ElfFacts facts;
  if (program.exit_status != 0 || !read_elf(program.file, &facts)) return program;
  const std::string shown = program.file.string();

  ElfFacts ours;
  if (read_elf("/proc/self/exe", &ours) && (facts.bits != ours.bits || facts.machine != ours.machine))
    return refuse(program.file, kCannotRun,
                  fmt::format("{}: is a program for another kind of machine than these libraries", shown));
  if (!facts.interpreter)
    return refuse(program.file, kCannotRun, fmt::format("{}: is statically linked: it loads no library", shown));
  if (const std::string_view how = raises_privileges(program.file); !how.empty())
    return refuse(program.file, kCannotRun,
                  fmt::format("{}: {}, so the loader ignores our library path: run a copy without it", shown, how));
  return program;
}

}  // namespace verbatim::tool
