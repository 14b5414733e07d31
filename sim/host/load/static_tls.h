#pragma once
// Thread-local storage that code reaches by a fixed distance from the thread pointer, without a call: of programs
// (local-exec), of libraries built with -ftls-model=initial-exec or -mtls-dialect=gnu2, and of the shared libstdc++.
//
// Simulated threads share one operating-system thread, hence one thread pointer. Each such block therefore has one
// place, whose content is exchanged when another simulated thread has its turn. So the address of a thread-local
// variable is valid in its own thread only. A program's block takes the place of a region that our executable keeps
// free directly below the thread pointer; a library's block is ordinary memory at any distance.
// Cost: two copies of a process's blocks for each turn of one of its threads; nothing where no process has any.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/engine/world.h"

namespace meshbed::sim {

struct ProcessState;

/// What __tls_get_addr takes (ELF Handling For Thread-Local Storage, 3.4.1: tls_index).
struct TlsIndex {
  unsigned long module;
  unsigned long offset;
};

/// The PT_TLS segment of a loaded object: the initial content of its block.
struct TlsTemplate {
  const std::byte* image = nullptr;
  std::size_t image_bytes = 0;
  std::size_t size_bytes = 0;  // 0: the object has no thread-local variables
  std::size_t alignment = 1;
};

/// By the dynamic linker's number of the object.
TlsTemplate tls_template_of(unsigned long module);
/// The dynamic linker's number of a loaded object; 0: it has no thread-local variables.
unsigned long tls_module_of(void* handle);

/// A relocation that holds a place of thread-local storage.
struct TlsReference {
  enum class Kind { kOffset, kDescriptor, kModule };  // R_X86_64_TPOFF64, TLSDESC, DTPMOD64
  Kind kind = Kind::kOffset;
  std::uintptr_t slot = 0;  // address in the file
  std::string symbol{};     // empty: the object's own, at `addend`
  bool defined = false;     // by the object itself, at `value`
  bool weak = false;
  std::uintptr_t value = 0;
  std::intptr_t addend = 0;
};

/// Those of a file that its own block does not answer. Relocations of the first two kinds become R_X86_64_NONE in
/// `file`: glibc would refuse them once its reserve of static storage is used up, after some tens of ranks.
std::vector<TlsReference> take_tls_references(std::span<std::byte> file);

/// Throws std::runtime_error where a program's block of this size has no place.
void check_program_block(std::size_t size_bytes, std::size_t alignment, const std::string& path);

/// What a loaded copy needs: its place, and the content of the slots. `needed`: the process's copies that it is linked
/// to. Throws std::runtime_error for a variable that cannot be reached.
struct TlsOfCopy {
  void* handle = nullptr;
  bool is_program = false;
  std::span<const TlsReference> references;
  std::span<void* const> needed;
};
void place_tls(ProcessState& state, const TlsOfCopy& copy, const std::string& path);

/// Exchanges what glibc's real thread has of these objects, too: libstdc++, and libraries that a program brought.
void exchange_real_blocks(ProcessState& state, std::span<const unsigned long> modules);
/// All loaded objects with thread-local variables that are no rank's copies.
std::vector<unsigned long> real_tls_modules();
/// That of the libstdc++.so.6 that this program and ranks are linked to.
unsigned long standard_library_tls_module();

/// Of one process.
class StaticTls {
 public:
  struct Block {
    std::byte* place = nullptr;
    TlsTemplate initial;
    unsigned long module = 0;
    bool shared = false;  // with other processes and with what runs outside of ranks: a real block

    void reset() const;
  };

  /// nullptr: the object's block has no fixed place.
  std::byte* place_of(unsigned long module) const;
  bool has(unsigned long module) const;
  /// The running thread, if any, has the block from now on with its initial content; a shared one keeps its content.
  void add(const Block& block);
  /// A new place for the object's block.
  std::byte* add_place(unsigned long module);
  void forget(const Thread& thread);

 private:
  friend void begin_tls_turn(Thread* running);
  using Values = std::vector<std::vector<std::byte>>;
  void save(Values& into) const;
  void load(const Values& from) const;

  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> places_;
  std::unordered_map<const Thread*, Values> values_;
};

/// The World's turn hook.
void begin_tls_turn(Thread* running);

}  // namespace meshbed::sim
