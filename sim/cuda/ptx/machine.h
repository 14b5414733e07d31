// The agreed interface between the PTX interpreter (sim/cuda/ptx) and the simulated CUDA (sim/cuda).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::sim::ptx {

struct Program;
struct Grid;

struct Parameter {
  std::uint32_t offset = 0, bytes = 0, align = 1;
};

struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;  // as the kernel's parameter space has them
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0, local_bytes = 0, registers = 0;  // registers: an estimate, at most 255
  std::array<std::uint32_t, 3> required_block{};                          // .reqntid; 0: none
  std::uint32_t max_threads = 1024;                                       // .maxntid
  std::array<std::uint32_t, 3> required_cluster{};                        // .reqnctapercluster; 0: none
  std::uint32_t max_cluster_blocks = 0;                                   // .maxclusterrank; 0: as the device allows
  bool blocks_are_clusters = false;                                       // .blocksareclusters
};

struct VariableInfo {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t align = 1;
  bool constant = false, managed = false;
};

/// A parsed and verified module; immutable, shared by contexts.
class Module {
 public:
  /// Errors (kInvalidArgument / kUnsupported): "PLACE:LINE: opcode wgmma.mma_async is not implemented" and the like.
  /// Of a large text the bodies are decoded when they are called. What must be known of them before, such as the
  /// shared memory of each kernel, is kept in `cache` (a folder; empty: nowhere) for the next time.
  static Result<std::shared_ptr<const Module>> parse(std::string_view text, const std::string& place,
                                                     const std::string& cache = {});
  /// Several texts as one module, as a linker makes it: what one of them shows the others may use. Errors: as parse(),
  /// "PLACE, part 2 of 3:LINE: ...".
  static Result<std::shared_ptr<const Module>> link(std::vector<std::string> texts, const std::string& place,
                                                    const std::string& cache = {});
  const std::vector<KernelInfo>& kernels() const;
  const std::vector<VariableInfo>& variables() const;
  const KernelInfo* find_kernel(std::string_view name) const;
  /// Functions and variables that are used and defined in no text. A call of such a function is a fault; such a
  /// variable has memory of its own.
  std::vector<std::string> undefined() const;
  /// The first bytes of a variable (`bytes` of it, zeros where the text has no value) with the addresses of other
  /// variables and functions in it; addresses: by index of variables(), as in LaunchRequest.
  void write_initial(std::size_t variable, const std::vector<std::uint64_t>& addresses, void* bytes) const;
  Program& program() const { return *program_; }
  ~Module();

 private:
  Module();
  static Result<std::shared_ptr<const Module>> make(std::vector<std::string> texts, const std::string& place,
                                                    const std::string& cache);
  std::unique_ptr<Program> program_;
};

/// What a texture's or a surface's handle stands for: texels in rows and slices, and how they are read.
struct Texture {
  enum class Format : std::uint8_t { kSigned, kUnsigned, kFloat };
  enum class Address : std::uint8_t { kWrap, kClamp, kMirror, kBorder };  // in the order of cuda.h's
  std::byte* bytes = nullptr;
  std::uint64_t width = 1, height = 1, depth = 1;  // texels; depth: or layers, or faces of a cube
  std::uint64_t row_bytes = 0, slice_bytes = 0;    // from one row and slice to the next one
  std::uint32_t channels = 1, channel_bytes = 4;   // 1, 2 or 4 of each
  Format format = Format::kFloat;
  std::array<Address, 3> address{};
  bool linear = false;                  // the mean of the texels around, else the nearest one
  bool normalized_coordinates = false;  // 0 to 1 across the texture
  bool reads_normalized = false;        // integers of 8 and 16 bits as 0 to 1, or -1 to 1
  bool srgb = false;                    // bytes are sRGB, but for the fourth channel
  std::array<float, 4> border{};
  std::vector<Texture> smaller{};  // levels 1, 2 ... of a mipmapped array, each with the same settings
  bool mixes_levels = false;       // the mean of two levels, else the nearest one
  float level_bias = 0, level_least = 0, level_most = 0;
};

/// The device's access to addresses of the generic space that are not in shared or local windows.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Host bytes behind [address, address + bytes); nullptr where not all of it is of one live allocation.
  virtual void* at(std::uint64_t address, std::uint64_t bytes, bool write) = 0;
  /// Whether it is behind a link: a load or an atomic goes there and back.
  virtual bool is_far(std::uint64_t) { return false; }
  /// What at() found last is the host's memory: the bytes pass the link.
  bool over_link = false;
  /// nullptr: there is no such object.
  virtual const Texture* texture(std::uint64_t) { return nullptr; }
  /// For errors: "8 bytes after the end of the allocation of 4096 bytes at 0x..", "freed 0x.."
  virtual std::string describe(std::uint64_t address) const = 0;
};

/// Memory of grids that have ended, for the next ones: to make it anew costs more than a small kernel does. Of one
/// thread, and there for longer than the executions that use it.
class SpareGrids {
 public:
  SpareGrids();
  ~SpareGrids();

 private:
  friend class Execution;
  std::vector<std::unique_ptr<Grid>> grids_;
};

struct LaunchRequest {
  std::shared_ptr<const Module> module;
  const KernelInfo* kernel = nullptr;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};  // blocks of a cluster; the grid is a multiple of it along each axis
  bool is_explicit_cluster = false;               // the launch or the kernel has such a size
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;              // parameter_bytes
  std::vector<std::uint64_t> variable_addresses;  // by index of Module::variables()
  std::uint32_t resident_blocks = 1;              // on the whole device, at once
  bool cooperative = false;                       // it has a workspace, in which its blocks wait for one another
  std::uint32_t sms = 1;
  std::uint64_t seed = 0;                       // 0: the plain order
  bool check_races = false;                     // between blocks: Execution::race()
  std::function<std::uint64_t()> clock_ns;      // %globaltimer, clock64
  std::function<std::int64_t()> now_ps;         // where far_ps is not 0
  std::int64_t far_ps = 0;                      // what a load that may be a poll takes in far memory, and an atomic
  std::int64_t far_news_ps = 0;                 // and more where such a load sees something new
  std::function<void(std::string_view)> print;  // printf
  // The device's heap (malloc and free in kernels); absent: a kernel that asks for it faults. 0: no memory left.
  std::function<std::uint64_t(std::uint64_t)> allocate;
  std::function<void(std::uint64_t)> release;
  SpareGrids* spares = nullptr;  // nullptr: it has all its memory made anew
};

struct Fault {
  enum class Kind { kAddress, kMisaligned, kTrap, kAssert, kBarrier, kDeadlock, kUnsupported, kStackOverflow } kind;
  std::string text;  // kernel, block, thread, PTX line, what and why
};

struct Counts {
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::uint64_t global_bytes_read = 0, global_bytes_written = 0, shared_bytes = 0;
  std::uint64_t link_bytes_read = 0, link_bytes_written = 0;  // of the global ones; not those of asynchronous copies
  std::uint64_t flops = 0, atomics = 0, barriers = 0;

  Counts& operator+=(const Counts& other) {
    warp_instructions += other.warp_instructions;
    lane_instructions += other.lane_instructions;
    global_bytes_read += other.global_bytes_read;
    global_bytes_written += other.global_bytes_written;
    shared_bytes += other.shared_bytes;
    link_bytes_read += other.link_bytes_read;
    link_bytes_written += other.link_bytes_written;
    flops += other.flops;
    atomics += other.atomics;
    barriers += other.barriers;
    return *this;
  }
};

/// One grid that runs. The caller steps it, so that other work of the simulation goes on between steps.
class Execution {
 public:
  /// Errors (kInvalidArgument), with the kernel's name: a dimension of 0, more blocks along an axis, threads or shared
  /// memory than a device has, a block that .maxntid or .reqntid rules out, too few bytes of parameters.
  static Result<std::unique_ptr<Execution>> start(LaunchRequest&& request, Memory& memory);
  ~Execution();  // prints what printf has written so far
  enum class State {
    kRunning,
    kFinished,
    kSpinning /* nothing but polls of memory since the last step: others must act */,
    kFar /* all warps that could run wait for far memory, until next_ps() */,
    kFault
  };
  State step(std::uint64_t lane_instructions);  // at most about so many
  /// Of a grid that still runs: whether a block has done more than poll since each had its last turn.
  bool progresses() const;
  /// Blocks wait for others to end: more were launched than are resident at once.
  bool has_blocks_to_begin() const;
  std::uint64_t resident_blocks() const;
  std::int64_t next_ps() const;
  /// Whether the last step did more than look at memory.
  bool moved() const;
  /// Whether it saw something new in memory, or looked at a clock.
  bool saw_news() const;
  /// Something else than this grid may have changed the memory that it looks at.
  void others_acted();
  /// Whether the last step looked at memory alone, and at no clock, and saw what it had seen there, and each warp has
  /// looked at everything that it looks at since others_acted(), and no word that it looks at now and then is another
  /// one: the next steps see no more until that is called again.
  /// `forget`: it has had the time to look at all such words, and those that are others are none of these any more.
  bool idled(bool forget);
  const std::optional<Fault>& fault() const;
  const Counts& counts() const;
  /// The first data race between blocks, in one line, where the request asked for it; empty: none was seen.
  const std::string& race() const;
  /// What the threads that have not ended do: at which lines they poll or wait, most of them first. One line.
  std::string waiting() const;
  struct PolledWord {
    std::uint64_t address = 0, bytes = 0, value = 0;
  };
  /// Words of the host's memory (Memory::is_far) at which its threads look again and again, at most `most`.
  std::vector<PolledWord> polled_words(std::size_t most) const;

 private:
  explicit Execution(std::unique_ptr<Grid> grid);
  std::unique_ptr<Grid> grid_;
};

}  // namespace meshbed::sim::ptx
