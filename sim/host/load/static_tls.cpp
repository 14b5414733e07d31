#include "sim/host/load/static_tls.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "plugin/base/check.h"
#include "sim/host/host_state.h"

// Of glibc (ELF Handling For Thread-Local Storage, section 3.4.1); no public header declares it.
extern "C" void* __tls_get_addr(void* index);

// What a TLS descriptor's first word names where the second is the distance itself: all registers but rax are kept
// (the same ABI's section on descriptors).
extern "C" void meshbed_tls_descriptor();
asm(R"(
.pushsection .text
.globl meshbed_tls_descriptor
.hidden meshbed_tls_descriptor
.type meshbed_tls_descriptor, @function
meshbed_tls_descriptor:
  movq 8(%rax), %rax
  ret
.size meshbed_tls_descriptor, . - meshbed_tls_descriptor
.popsection
)");

namespace meshbed::sim {
namespace {

// Programs' blocks lie here. NCCL's tests have 4 bytes, a static libstdc++ 32.
constexpr std::size_t kRegionBytes = 8192;
constexpr std::size_t kRegionAlignment = 64;
alignas(kRegionAlignment) thread_local std::byte t_region[kRegionBytes];  // NOLINT: a place, no variable

std::byte* thread_pointer() { return static_cast<std::byte*>(__builtin_thread_pointer()); }

/// Of the file's bytes: what lies at an address of the loaded object.
class FileView {
 public:
  explicit FileView(std::span<std::byte> file)
      : file_(file),
        programs_(reinterpret_cast<const ElfW(Phdr) *>(file.data() + header().e_phoff), header().e_phnum) {}

  std::uintptr_t dynamic_value(ElfW(Sxword) tag) const {
    for (const ElfW(Phdr) & program : programs_) {
      if (program.p_type != PT_DYNAMIC || program.p_offset + program.p_filesz > file_.size()) continue;
      const auto* entries = reinterpret_cast<const ElfW(Dyn)*>(file_.data() + program.p_offset);
      for (const ElfW(Dyn) & entry : std::span(entries, program.p_filesz / sizeof(ElfW(Dyn)))) {
        if (entry.d_tag == tag) return entry.d_un.d_val;
      }
    }
    return 0;
  }

  /// nullptr: that many bytes of the file are not loaded there.
  template <typename T>
  T* at(std::uintptr_t address, std::size_t count = 1) const {
    for (const ElfW(Phdr) & program : programs_) {
      if (program.p_type != PT_LOAD || address < program.p_vaddr) continue;
      const std::size_t offset = address - program.p_vaddr;
      if (offset + count * sizeof(T) > program.p_filesz) continue;
      if (program.p_offset + program.p_filesz > file_.size()) return nullptr;
      return reinterpret_cast<T*>(file_.data() + program.p_offset + offset);
    }
    return nullptr;
  }

 private:
  const ElfW(Ehdr) & header() const { return *reinterpret_cast<const ElfW(Ehdr)*>(file_.data()); }

  std::span<std::byte> file_;
  std::span<const ElfW(Phdr)> programs_;
};

std::optional<TlsReference::Kind> kind_of(const ElfW(Rela) & relocation) {
  switch (ELF64_R_TYPE(relocation.r_info)) {
    case R_X86_64_TPOFF64:
      return TlsReference::Kind::kOffset;
    case R_X86_64_TLSDESC:
      return TlsReference::Kind::kDescriptor;
    case R_X86_64_DTPMOD64:
      return TlsReference::Kind::kModule;
    default:
      return std::nullopt;
  }
}

TlsReference reference_of(const FileView& view, const ElfW(Rela) & relocation, TlsReference::Kind kind) {
  TlsReference reference{.kind = kind, .slot = relocation.r_offset, .addend = relocation.r_addend};
  const std::size_t number = ELF64_R_SYM(relocation.r_info);
  if (number == 0) return reference;
  const std::uintptr_t symbols = view.dynamic_value(DT_SYMTAB);
  const auto* symbol = view.at<const ElfW(Sym)>(symbols + number * sizeof(ElfW(Sym)));
  if (symbol == nullptr) throw std::runtime_error("a symbol lies beyond the end of the file");
  reference.defined = symbol->st_shndx != SHN_UNDEF;
  reference.weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
  reference.value = reference.defined ? symbol->st_value : 0;
  const auto* name = view.at<const char>(view.dynamic_value(DT_STRTAB) + symbol->st_name);
  if (name != nullptr) reference.symbol = name;  // ends before the segment: the loader relies on it as well
  return reference;
}

std::byte* real_block(unsigned long module) {
  TlsIndex index{module, 0};
  return static_cast<std::byte*>(::__tls_get_addr(&index));
}

std::size_t rounded_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Where a program's instructions expect its block: ABI section 4.4.6, variant II.
std::byte* program_place(std::size_t size_bytes, std::size_t alignment) {
  const std::size_t bytes = rounded_up(size_bytes, alignment);
  const bool is_last = static_cast<std::byte*>(t_region) + kRegionBytes == thread_pointer();
  return is_last && bytes <= kRegionBytes && alignment <= kRegionAlignment ? thread_pointer() - bytes : nullptr;
}

/// A thread-local variable of one of these copies; module 0: none of them has it.
TlsIndex variable_in(std::span<void* const> copies, const std::string& name) {
  for (void* copy : copies) {
    const unsigned long module = tls_module_of(copy);
    const auto* found = module != 0 ? static_cast<const std::byte*>(::dlsym(copy, name.c_str())) : nullptr;
    if (found == nullptr) continue;
    const std::byte* block = real_block(module);  // dlsym() has searched what the copy needs as well
    if (found >= block && found < block + tls_template_of(module).size_bytes) {
      return {module, static_cast<unsigned long>(found - block)};
    }
  }
  return {0, 0};
}

std::byte* place_or_new(ProcessState& state, unsigned long module, const std::string& what) {
  if (std::byte* place = state.static_tls.place_of(module)) return place;
  const bool used = std::any_of(state.threads.begin(), state.threads.end(),
                                [&](const auto& entry) { return entry.second->tls_blocks.count(module) != 0; });
  if (used) {
    throw std::runtime_error(what +
                             ": reached without a call (initial-exec) after its library has used it otherwise; " +
                             "build with -ftls-model=global-dynamic");
  }
  return state.static_tls.add_place(module);
}

void fill_slot(ProcessState& state, const TlsOfCopy& copy, const TlsReference& reference, std::byte* base,
               const std::string& path) {
  // As the dynamic linker searches: a library's own definition comes after those of all programs, a program's before.
  void* const global = reference.symbol.empty() ? nullptr : ::dlsym(RTLD_DEFAULT, reference.symbol.c_str());
  const bool is_own = reference.symbol.empty() || (reference.defined && (copy.is_program || global == nullptr));
  const TlsIndex in_copy = reference.defined ? TlsIndex{0, 0} : variable_in(copy.needed, reference.symbol);
  auto* slot = reinterpret_cast<std::uintptr_t*>(base + reference.slot);
  if (reference.kind == TlsReference::Kind::kModule) {
    if (in_copy.module != 0) *slot = in_copy.module;
    return;
  }
  std::byte* address = nullptr;
  if (is_own) {
    address = place_or_new(state, tls_module_of(copy.handle), path) + reference.value;
  } else if (in_copy.module != 0) {
    address = place_or_new(state, in_copy.module, path + ": " + reference.symbol) + in_copy.offset;
  } else {
    address = static_cast<std::byte*>(global != nullptr ? global : ::dlsym(copy.handle, reference.symbol.c_str()));
  }
  if (address == nullptr && !reference.weak) {
    throw std::runtime_error(path + ": thread-local variable " + reference.symbol + " is in none of its libraries");
  }
  const std::uintptr_t distance =
      address == nullptr ? 0 : static_cast<std::uintptr_t>(address + reference.addend - thread_pointer());
  if (reference.kind == TlsReference::Kind::kDescriptor) {
    *slot++ = reinterpret_cast<std::uintptr_t>(&meshbed_tls_descriptor);
  }
  *slot = distance;
}

}  // namespace

std::vector<TlsReference> take_tls_references(std::span<std::byte> file) {
  const FileView view(file);
  std::vector<TlsReference> references;
  const std::array tables{std::pair{DT_RELA, DT_RELASZ}, std::pair{DT_JMPREL, DT_PLTRELSZ}};
  for (const auto& [address, size] : tables) {
    const std::size_t count = view.dynamic_value(size) / sizeof(ElfW(Rela));
    auto* first = count != 0 ? view.at<ElfW(Rela)>(view.dynamic_value(address), count) : nullptr;
    if (first == nullptr) continue;
    for (ElfW(Rela) & relocation : std::span(first, count)) {
      const auto kind = kind_of(relocation);
      if (!kind) continue;
      TlsReference reference = reference_of(view, relocation, *kind);
      const bool is_module = *kind == TlsReference::Kind::kModule;
      if (is_module && (reference.symbol.empty() || reference.defined)) continue;  // glibc's answer is right
      references.push_back(std::move(reference));
      if (!is_module) relocation.r_info = R_X86_64_NONE;
    }
  }
  return references;
}

TlsTemplate tls_template_of(unsigned long module) {
  struct Search {
    unsigned long module;
    TlsTemplate found;
  } search{module, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& wanted = *static_cast<Search*>(argument);
        if (info->dlpi_tls_modid != wanted.module) return 0;
        for (const ElfW(Phdr)* program = info->dlpi_phdr; program != info->dlpi_phdr + info->dlpi_phnum; ++program) {
          if (program->p_type != PT_TLS) continue;
          wanted.found = {.image = reinterpret_cast<const std::byte*>(info->dlpi_addr + program->p_vaddr),
                          .image_bytes = program->p_filesz,
                          .size_bytes = program->p_memsz,
                          .alignment = std::max<std::size_t>(program->p_align, 1)};
        }
        return 1;
      },
      &search);
  return search.found;
}

unsigned long tls_module_of(void* handle) {
  unsigned long module = 0;
  return ::dlinfo(handle, RTLD_DI_TLS_MODID, &module) == 0 ? module : 0;
}

std::vector<unsigned long> real_tls_modules() {
  std::vector<unsigned long> modules;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        const bool is_copy = std::string_view(info->dlpi_name).starts_with("/proc/self/fd/");
        if (info->dlpi_tls_modid != 0 && !is_copy) {
          static_cast<std::vector<unsigned long>*>(argument)->push_back(info->dlpi_tls_modid);
        }
        return 0;
      },
      &modules);
  return modules;
}

unsigned long standard_library_tls_module() {
  static const unsigned long module = [] {
    Dl_info library{};
    // libstdc++'s own type information lies in it.
    if (::dladdr(::dlsym(RTLD_DEFAULT, "_ZTISt9exception"), &library) == 0) return 0UL;
    void* handle = ::dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return handle != nullptr ? tls_module_of(handle) : 0UL;
  }();
  return module;
}

void check_program_block(std::size_t size_bytes, std::size_t alignment, const std::string& path) {
  if (program_place(size_bytes, std::max<std::size_t>(alignment, 1)) != nullptr) return;
  throw std::runtime_error(path + ": a program with " + std::to_string(size_bytes) +
                           " bytes of thread-local variables of its own, whose places are its process's (here " +
                           std::to_string(kRegionBytes) + " at most): link it with -shared -fPIC, and keep main()");
}

void place_tls(ProcessState& state, const TlsOfCopy& copy, const std::string& path) {
  const unsigned long module = tls_module_of(copy.handle);
  if (module != 0) state.tls_modules.insert(module);
  const bool is_fixed = (copy.is_program && module != 0) ||
                        std::any_of(copy.references.begin(), copy.references.end(), [](const TlsReference& reference) {
                          return reference.kind != TlsReference::Kind::kModule;
                        });
  if (is_fixed && World::get().options().contexts == "thread") {
    throw std::runtime_error(path + ": its thread-local variables have one place for all threads, which operating-" +
                             "system threads do not share: leave out --contexts thread");
  }
  if (copy.is_program && module != 0) {
    const TlsTemplate initial = tls_template_of(module);
    std::byte* place = program_place(initial.size_bytes, initial.alignment);
    MESHBED_CHECK(place != nullptr);  // check_program_block() has seen it
    state.static_tls.add({.place = place, .initial = initial, .module = module});
  }
  link_map* map = nullptr;
  if (::dlinfo(copy.handle, RTLD_DI_LINKMAP, &map) != 0) throw std::runtime_error(::dlerror());
  for (const TlsReference& reference : copy.references) {
    fill_slot(state, copy, reference, reinterpret_cast<std::byte*>(map->l_addr), path);
  }
}

void exchange_real_blocks(ProcessState& state, std::span<const unsigned long> modules) {
  if (World::get().options().contexts == "thread") return;  // each has real ones of its own
  for (const unsigned long module : modules) {
    if (module == 0 || state.static_tls.has(module)) continue;
    const StaticTls::Block block{
        .place = real_block(module), .initial = tls_template_of(module), .module = module, .shared = true};
    Host& all = host();
    if (!all.outside_tls.has(module)) all.outside_tls.add(block);
    state.static_tls.add(block);
  }
}

// --- the blocks of a process ---

bool StaticTls::has(unsigned long module) const {
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.module == module; });
}

std::byte* StaticTls::place_of(unsigned long module) const {
  for (const Block& block : blocks_) {
    if (block.module == module) return block.place;
  }
  return nullptr;
}

void StaticTls::Block::reset() const {
  std::memset(place, 0, initial.size_bytes);
  if (initial.image_bytes != 0) std::memcpy(place, initial.image, initial.image_bytes);
}

void StaticTls::add(const Block& block) {
  Host& all = host();
  Thread* const running = World::current();
  // What runs outside of ranks keeps what it has now.
  if (block.shared) {
    if (all.tls_thread == nullptr) all.outside_tls.save(all.outside_tls.values_[nullptr]);
  } else {
    block.reset();
  }
  blocks_.push_back(block);
  if (this == &all.outside_tls) return;
  World::set_turn_hook(&begin_tls_turn);
  if (running != nullptr && &state_of(running->process()).static_tls == this) all.tls_thread = running;
}

std::byte* StaticTls::add_place(unsigned long module) {
  const TlsTemplate initial = tls_template_of(module);
  const std::size_t alignment = std::max(initial.alignment, sizeof(void*));
  places_.emplace_back(
      static_cast<std::byte*>(std::aligned_alloc(alignment, rounded_up(initial.size_bytes, alignment))), &std::free);
  if (places_.back() == nullptr) throw std::bad_alloc();
  add({.place = places_.back().get(), .initial = initial, .module = module});
  return places_.back().get();
}

void StaticTls::save(Values& into) const {
  into.resize(blocks_.size());
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    into[index].assign(blocks_[index].place, blocks_[index].place + blocks_[index].initial.size_bytes);
  }
}

void StaticTls::load(const Values& from) const {
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    const Block& block = blocks_[index];
    if (index < from.size()) {
      std::memcpy(block.place, from[index].data(), block.initial.size_bytes);
      continue;
    }
    block.reset();
  }
}

void StaticTls::forget(const Thread& thread) {
  if (host().tls_thread == &thread) begin_tls_turn(nullptr);
  values_.erase(&thread);
}

void begin_tls_turn(Thread* running) {
  Host& all = host();
  StaticTls* next = nullptr;
  if (running != nullptr && running->process().host_state) {
    StaticTls& tls = state_of(running->process()).static_tls;
    if (!tls.blocks_.empty()) next = &tls;
  }
  Thread* const wanted = next != nullptr ? running : nullptr;
  if (all.tls_thread == wanted) return;
  const auto tls_of = [&](Thread* thread) -> StaticTls& {
    return thread != nullptr ? state_of(thread->process()).static_tls : all.outside_tls;
  };
  StaticTls& before = tls_of(all.tls_thread);
  before.save(before.values_[all.tls_thread]);
  StaticTls& now = tls_of(wanted);
  now.load(now.values_[wanted]);
  all.tls_thread = wanted;
}

}  // namespace meshbed::sim
