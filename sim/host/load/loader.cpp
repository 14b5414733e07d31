#include "sim/host/load/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plugin/base/check.h"
#include "sim/host/load/dependency.h"
#include "sim/host/load/elf_image.h"
#include "sim/host/load/getopt.h"
#include "sim/host/load/redirection.h"
#include "sim/host/load/static_tls.h"
#include "sim/host/sha256.h"

namespace meshbed::sim {
namespace {

// AddressSanitizer lays red zones between a library's globals: reading a whole segment is an error there. Copies then
// simply keep their own pages.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kRedZones = true;
#else
constexpr bool kRedZones = false;
#endif

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class FileDescriptor {
 public:
  FileDescriptor(int number, const std::string& what) : number_(number) {
    if (number < 0) throw_errno(what);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// A file's bytes, mapped for reading.
class MappedFile {
 public:
  MappedFile(int descriptor, std::size_t size_bytes, int protection = PROT_READ)
      : data_(::mmap(nullptr, size_bytes, protection, MAP_SHARED, descriptor, 0)), size_bytes_(size_bytes) {
    if (data_ == MAP_FAILED) throw_errno("mmap");
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { ::munmap(data_, size_bytes_); }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_;
  std::size_t size_bytes_;
};

struct FileRange {
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
};

void write_range(int descriptor, const MappedFile& from, FileRange range) {
  while (range.size_bytes > 0) {
    const ssize_t count =
        ::pwrite(descriptor, from.data() + range.offset, range.size_bytes, static_cast<off_t>(range.offset));
    if (count <= 0) throw_errno("write to memfd");
    range.offset += static_cast<std::size_t>(count);
    range.size_bytes -= static_cast<std::size_t>(count);
  }
}

/// What the dynamic linker reads of an ELF file: its headers and loadable segments. The rest (debug information,
/// section names) is most of a file, and none of its copies' business.
std::vector<FileRange> loaded_ranges(const MappedFile& file, const std::string& path) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file.data());
  const bool is_elf = file.size_bytes() >= sizeof(*header) && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
  if (!is_elf || header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > file.size_bytes()) {
    throw std::runtime_error(path + ": not an ELF file");
  }
  const auto* first = reinterpret_cast<const ElfW(Phdr)*>(file.data() + header->e_phoff);
  std::vector<FileRange> ranges{{0, header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr))}};
  for (const ElfW(Phdr)* program = first; program != first + header->e_phnum; ++program) {
    if (program->p_type != PT_LOAD) continue;
    // The linker maps whole pages: what stands around the segment in them is seen as well.
    const std::size_t begin = page_down(program->p_offset);
    const std::size_t end = std::min(page_up(program->p_offset + program->p_filesz), file.size_bytes());
    if (begin > end) throw std::runtime_error(path + ": a segment lies beyond the end of the file");
    ranges.push_back({begin, end - begin});
  }
  return ranges;
}

/// The entries of the dynamic section, in the file's bytes, which may be changed.
std::span<ElfW(Dyn)> dynamic_entries(const MappedFile& file) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file.data());
  const auto* first = reinterpret_cast<const ElfW(Phdr)*>(file.data() + header->e_phoff);
  for (const ElfW(Phdr) & program : std::span(first, header->e_phnum)) {
    if (program.p_type != PT_DYNAMIC || program.p_offset + program.p_filesz > file.size_bytes()) continue;
    auto* entries = const_cast<std::byte*>(file.data()) + program.p_offset;
    return {reinterpret_cast<ElfW(Dyn)*>(entries), program.p_filesz / sizeof(ElfW(Dyn))};
  }
  return {};
}

/// False: it is a shared object with a main(). Throws std::runtime_error for a program that cannot be one of several in
/// a process.
bool check_program(const MappedFile& file, const std::string& path) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file.data());
  const auto* first = reinterpret_cast<const ElfW(Phdr)*>(file.data() + header->e_phoff);
  const std::span programs(first, header->e_phnum);
  if (header->e_type == ET_EXEC) {
    throw std::runtime_error(path + ": linked for fixed addresses, so that no two ranks can have it: link with -pie");
  }
  bool is_program = false;
  for (const ElfW(Dyn) & entry : dynamic_entries(file)) {
    is_program = is_program || (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0);
  }
  for (const ElfW(Phdr) & program : programs) {
    if (is_program && program.p_type == PT_TLS) check_program_block(program.p_memsz, program.p_align, path);
  }
  return is_program;
}

/// Makes a library of a program that the loader does not begin of itself; nor does it end it, where `fini` is set.
ProgramParts take_parts(const MappedFile& file, bool fini) {
  ProgramParts parts;
  for (ElfW(Dyn) & entry : dynamic_entries(file)) {
    switch (entry.d_tag) {
      case DT_FLAGS_1:
        entry.d_un.d_val &= ~static_cast<ElfW(Xword)>(DF_1_PIE);
        break;
      case DT_INIT:
        parts.init = entry.d_un.d_ptr;
        entry.d_tag = DT_DEBUG;  // which has no meaning in a library
        break;
      case DT_FINI:
        if (!fini) break;
        parts.fini = entry.d_un.d_ptr;
        entry.d_tag = DT_DEBUG;
        break;
      case DT_INIT_ARRAY:
        parts.init_array = entry.d_un.d_ptr;
        break;
      case DT_FINI_ARRAY:
        parts.fini_array = entry.d_un.d_ptr;
        break;
      case DT_INIT_ARRAYSZ:
        parts.init_count = std::exchange(entry.d_un.d_val, 0) / sizeof(ElfW(Addr));
        break;
      case DT_FINI_ARRAYSZ:
        if (!fini) break;
        parts.fini_count = std::exchange(entry.d_un.d_val, 0) / sizeof(ElfW(Addr));
        break;
      default:
        break;
    }
  }
  return parts;
}

/// The file as it was when the first rank loaded it: a later change on disk does not reach a run under way.
struct Master {
  Master(const std::string& path, bool program, bool of_program)
      : as_program(program), descriptor(::memfd_create("meshbed-master", MFD_CLOEXEC), "memfd_create") {
    const FileDescriptor disk(::open(path.c_str(), O_RDONLY | O_CLOEXEC), path);
    struct stat status {};
    if (::fstat(disk.get(), &status) != 0) throw_errno(path);
    if (status.st_size == 0) throw std::runtime_error(path + ": file too short");
    const MappedFile bytes(disk.get(), static_cast<std::size_t>(status.st_size));
    write_range(descriptor.get(), bytes, {0, bytes.size_bytes()});
    file.emplace(descriptor.get(), bytes.size_bytes(), PROT_READ | PROT_WRITE);
    ranges = loaded_ranges(*file, path);
    needs = needs_of({file->data(), file->size_bytes()});
    sha256 = sha256_hex(file->data(), file->size_bytes());
    // Here alone what is loaded differs from the file.
    tls_references = take_tls_references({const_cast<std::byte*>(file->data()), file->size_bytes()});
    const auto is_fixed = [](const TlsReference& one) { return one.kind != TlsReference::Kind::kModule; };
    runs_late = !as_program && (of_program || std::any_of(tls_references.begin(), tls_references.end(), is_fixed));
    if (as_program) is_program = check_program(*file, path);
    if (as_program || runs_late) parts = take_parts(*file, as_program);
  }

  const bool as_program;
  FileDescriptor descriptor;
  std::optional<MappedFile> file;
  std::vector<FileRange> ranges;
  ProgramParts parts;
  std::vector<TlsReference> tls_references;
  bool is_program = false;  // with a thread-local block of its process's
  bool runs_late = false;   // a library whose constructors need what settle() does: a program's are in the simulation
  Needs needs;
  std::string sha256;  // of the file; the copies' read-only segments are mapped from the memfd
};

std::map<std::string, std::unique_ptr<Master>>& masters() {
  // Copies are never unloaded, so their master lives as long as the program.
  static auto* all = new std::map<std::string, std::unique_ptr<Master>>;
  return *all;
}

const Master& master_of(const std::string& path, bool as_program, bool of_program) {
  if (const auto found = masters().find(path); found != masters().end()) return *found->second;
  return *masters().emplace(path, std::make_unique<Master>(path, as_program, of_program)).first->second;
}

/// A descriptor stays open for each copy: its number makes the copy's name, and dlopen() takes an equal name for the
/// same object.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int protection_of(const Segment& segment) { return segment.executable ? PROT_READ | PROT_EXEC : PROT_READ; }

/// Maps the read-only segments from the master. `renamed`: a name in them was another one while it was loaded.
void share_read_only_segments(const ElfImage& image, const Master& master, bool renamed) {
  for (const Segment& segment : image.segments()) {
    if (segment.writable || segment.size_bytes == 0) continue;
    const std::size_t in_file = std::min(segment.size_bytes, master.file->size_bytes() - segment.file_offset);
    if (!renamed && std::memcmp(segment.address, master.file->data() + segment.file_offset, in_file) != 0) {
      throw std::runtime_error("a read-only segment differs from its file");
    }
    const void* mapped = ::mmap(segment.address, segment.size_bytes, protection_of(segment), MAP_PRIVATE | MAP_FIXED,
                                master.descriptor.get(), static_cast<off_t>(segment.file_offset));
    if (mapped == MAP_FAILED) throw_errno("mmap of a shared segment");
  }
}

/// Writes one byte of each page with its own value: after that the page no longer needs the file.
void make_writable_pages_private(const ElfImage& image) {
  for (const Segment& segment : image.segments()) {
    if (!segment.writable) continue;
    for (std::size_t offset = 0; offset < segment.size_bytes; offset += page_bytes()) {
      auto* byte = reinterpret_cast<volatile std::byte*>(segment.address + offset);
      *byte = *byte;
    }
  }
}

/// libstdc++'s functions that wait by the kernel's futexes themselves, as futures do. Bound to the simulator's own
/// libstdc++.so.6 they would block the simulator; those that standard_library.cpp has are simulated.
bool escapes_redirection(std::string_view name) { return name.starts_with("_ZNSt28__atomic_futex_unsigned_base"); }

/// What one of these copies itself has under that name; nullptr: none of them.
void* symbol_in(const std::vector<void*>& copies, const char* name) {
  for (void* copy : copies) {
    void* symbol = ::dlsym(copy, name);
    if (symbol != nullptr && ElfImage(copy).holds(symbol)) return symbol;
  }
  return nullptr;
}

std::uint64_t redirect_imports(const ElfImage& image, const std::vector<void*>& needed, ProcessState& state,
                               const std::string& path) {
  std::uint64_t changed = 0;
  image.each_import([&](void** slot, const char* name) {
    void* function = redirection_of(name);
    if (escapes_redirection(name)) {
      throw std::runtime_error(path + ": futures of the shared libstdc++ cannot be simulated (" + name +
                               "); link with -shared -fPIC -static-libstdc++ -Wl,--exclude-libs,ALL");
    }
    const std::string_view symbol(name);
    if (symbol == "environ" || symbol == "__environ") function = &state.environ_block;
    if (symbol.starts_with("opt")) function = getopt_variable(state, symbol);
    if (const auto own = state.program_variables.find(symbol); own != state.program_variables.end()) {
      function = own->second;
    }
    if (function == nullptr) function = symbol_in(needed, name);
    if (function == nullptr) return;
    if (void* kept = kept_nccl_call(state, symbol, function)) function = kept;
    *slot = function;
    ++changed;
  });
  return changed;
}

/// Allows writes to what the loader has made read-only after its relocations.
class WritableRelro {
 public:
  explicit WritableRelro(const ElfImage& image) : relro_(image.relro()) { protect(PROT_READ | PROT_WRITE); }
  WritableRelro(const WritableRelro&) = delete;
  WritableRelro& operator=(const WritableRelro&) = delete;
  ~WritableRelro() { protect(PROT_READ); }

 private:
  void protect(int protection) const {
    if (relro_.size_bytes == 0) return;
    MESHBED_CHECK(::mprotect(relro_.address, relro_.size_bytes, protection) == 0);
  }
  const Segment relro_;
};

/// The process's libraries use the program's copy in place of their own variable, so that its address is one and the
/// same everywhere. What the linker has bound within a library (-Bsymbolic) is as it would be in a real process.
void bind_to_program(ProcessState& state, const ElfImage::CopiedVariable& copy, const void* original) {
  state.program_variables[copy.name] = copy.place;
  for (const auto& [unused, library] : state.libraries) {
    const ElfImage image(library);
    const WritableRelro writable(image);
    image.each_reference(copy.name, [&](void** slot) {
      if (*slot == original) *slot = copy.place;
    });
  }
}

/// The program's own copies of other objects' variables (stdout, std::cout, environ) get their content here: the
/// dynamic linker has found the program's own definition, since it takes it for a library (glibc's elf/dl-lookup.c
/// passes over executables alone).
void copy_variables(const ElfImage& image, const std::vector<void*>& needed, ProcessState& state,
                    const std::string& path) {
  image.each_copied_variable([&](const ElfImage::CopiedVariable& copy) {
    const std::string_view name(copy.name);
    if (name == "environ" || name == "__environ" || name == "_environ") {
      state.environ_copies.push_back(static_cast<char***>(copy.place));
      *state.environ_copies.back() = state.environ_block;
      return;
    }
    if (adopt_getopt_variable(state, name, copy.place)) return;
    const void* original = symbol_in(needed, copy.name);
    if (original != nullptr) {
      bind_to_program(state, copy, original);
    } else {
      original = ::dlsym(RTLD_DEFAULT, copy.name);
    }
    if (original == nullptr) {
      throw std::runtime_error(fmt::format(
          "{}: its copy of the variable {} cannot be filled: that is in none of the libraries that ranks share; link "
          "with -shared -fPIC",
          path, name));
    }
    std::memcpy(copy.place, original, copy.size_bytes);
  });
}

/// Redirects the copy's imports and frees its memfd of all pages.
void settle(void* handle, int descriptor, const Master& master, const NeededCopies& needed, ProcessState& state,
            const std::string& path) {
  const ElfImage image(handle);
  const WritableRelro writable(image);
  host().counters.redirected_symbols += redirect_imports(image, needed.handles, state, path);
  if (master.as_program) copy_variables(image, needed.handles, state, path);
  place_tls(state,
            {.handle = handle,
             .is_program = master.is_program,
             .references = master.tls_references,
             .needed = needed.handles},
            path);
  const auto& names = master.needs.names;
  if (master.as_program || std::find(names.begin(), names.end(), "libstdc++.so.6") != names.end()) {
    const std::array modules{standard_library_tls_module()};
    exchange_real_blocks(state, modules);
  }
  if (!image.has_text_relocations() && !kRedZones) {
    make_writable_pages_private(image);
    share_read_only_segments(image, master, !needed.renamed.empty());
    if (::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(master.file->size_bytes())) != 0) {
      throw_errno("fallocate");
    }
  }
}

/// As the loader runs a library's, but with everything in place. The arguments of main() are not known here.
void run_constructors(void* handle, const ProgramParts& parts) {
  const ElfImage image(handle);
  if (parts.init != 0) reinterpret_cast<void (*)()>(image.at(parts.init))();
  for (std::size_t index = 0; index < parts.init_count; ++index) {
    void (*function)(int, char**, char**) = nullptr;
    std::memcpy(&function, image.at(parts.init_array) + index * sizeof function, sizeof function);
    function(0, nullptr, nullptr);
  }
}

void* load_new_copy(const Master& master, ProcessState& state, const std::string& path) {
  raise_descriptor_limit();
  const NeededCopies needed = load_needed(master.needs, state, path);
  FileDescriptor copy(::memfd_create("meshbed-copy", MFD_CLOEXEC), "memfd_create (open files: see ulimit -n)");
  if (::ftruncate(copy.get(), static_cast<off_t>(master.file->size_bytes())) != 0) throw_errno("ftruncate");
  {
    const MappedFile written(copy.get(), master.file->size_bytes());
    for (const FileRange& range : master.ranges) {
      write_range(copy.get(), *master.file, range);
      if (std::memcmp(written.data() + range.offset, master.file->data() + range.offset, range.size_bytes) != 0) {
        throw std::runtime_error(path + ": the copy differs from the file");
      }
    }
    for (const NeededCopies::Renamed& one : needed.renamed) {
      const std::size_t bytes = one.name.size() + 1;
      if (::pwrite(copy.get(), one.name.c_str(), bytes, static_cast<off_t>(one.place)) != static_cast<ssize_t>(bytes)) {
        throw_errno(path);
      }
    }
  }
  const std::string name = "/proc/self/fd/" + std::to_string(copy.get());
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    // Whose file it is, not the copy's name, is what helps.
    std::string reason = ::dlerror();
    if (reason.starts_with(name + ": ")) reason.erase(0, name.size() + 2);
    throw std::runtime_error(path + ": " + reason);
  }
  settle(handle, copy.release(), master, needed, state, path);
  ++host().counters.copies;
  if (master.runs_late) run_constructors(handle, master.parts);
  return handle;
}

void* load_as(ProcessState& state, const std::string& path, bool as_program) {
  if (const auto found = state.libraries.find(path); found != state.libraries.end()) return found->second;
  state.refresh_environ();
  const Master& master = master_of(path, as_program, !state.command.empty());
  void* handle = load_new_copy(master, state, path);
  state.libraries[path] = handle;
  for (const std::string& name : master.needs.names) {
    if (host().offered_libraries.count(name) != 0) state.offered_libraries.insert(name);
  }
  return handle;
}

}  // namespace

void* load_copy(ProcessState& state, const std::string& path) { return load_as(state, path, false); }

Program load_program(ProcessState& state, const std::string& path) {
  // Libraries that are no copies come with the first rank's program, and serve all ranks.
  static auto* brought = new std::set<unsigned long>;
  const std::vector<unsigned long> before = real_tls_modules();
  void* handle = load_as(state, path, true);
  for (const unsigned long module : real_tls_modules()) {
    if (std::find(before.begin(), before.end(), module) == before.end()) brought->insert(module);
  }
  exchange_real_blocks(state, std::vector<unsigned long>(brought->begin(), brought->end()));
  return {.handle = handle, .parts = master_of(path, true, true).parts};
}

bool is_copy(const ProcessState& state, void* handle) {
  return std::any_of(state.libraries.begin(), state.libraries.end(),
                     [handle](const auto& entry) { return entry.second == handle; });
}

void* load_for(Process& process, const std::string& path) { return load_copy(state_of(process), path); }

void* loaded_by(Process& process, const std::string& path) {
  const ProcessState& state = state_of(process);
  const auto found = state.libraries.find(path);
  return found != state.libraries.end() ? found->second : nullptr;
}

void* symbol_of(void* handle, const char* name) { return ::dlsym(handle, name); }

std::string loaded_sha256(const std::string& path) {
  const auto found = masters().find(path);
  return found != masters().end() ? found->second->sha256 : std::string();
}

}  // namespace meshbed::sim
