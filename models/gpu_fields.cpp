#include "models/gpu_fields.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace meshbed::models {
namespace {

constexpr char kSeparator = ';';
constexpr double kPerMicrosecond = 1e6, kGiga = 1e9;

Error wrong(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

}  // namespace

const std::vector<GpuField>& gpu_fields() {
  using M = GpuModel;
  static const std::vector<GpuField> all{
      {"compute_major", "compute", "1", 1, 1, &M::compute_major},
      {"compute_minor", "compute", "1", 1, 0, &M::compute_minor},
      {"sms", "sms", "1", 1, 1, &M::sms},
      {"threads_per_sm", "threads_per_sm", "1", 1, 32, &M::threads_per_sm},
      {"blocks_per_sm", "blocks_per_sm", "1", 1, 1, &M::blocks_per_sm},
      {"registers_per_sm", "registers_per_sm", "1", 1, 1024, &M::registers_per_sm},
      {"shared_of_sm_bytes", "shared_bytes_per_sm", "bytes", 1, 1024, &M::shared_bytes_per_sm},
      {"shared_of_block_bytes", "shared_bytes_per_block", "bytes", 1, 1024, &M::shared_bytes_per_block},
      {"memory_bytes", "memory_bytes", "bytes", 1, 1, &M::memory_bytes},
      {"memory_GBps", "memory_bytes_per_second", "GB/s", kGiga, 1, &M::memory_bytes_per_second},
      {"l2_bytes", "l2_bytes", "bytes", 1, 0, &M::l2_bytes},
      {"float32_per_second", "float32_per_second", "1/s", 1, 100'000, &M::float32_per_second},
      {"integrated", "", "1", 1, 0, &M::integrated},
      {"link_GBps", "link_bytes_per_second", "GB/s", kGiga, 1, &M::link_bytes_per_second},
      {"pageable_GBps", "pageable_bytes_per_second", "GB/s", kGiga, 1, &M::pageable_bytes_per_second},
      {"copy_start_us", "copy_start_ps", "us", kPerMicrosecond, 0, &M::copy_start_ps},
      {"launch_call_us", "launch_call_ps", "us", kPerMicrosecond, 0, &M::launch_call_ps},
      {"launch_delay_us", "launch_delay_ps", "us", kPerMicrosecond, 0, &M::launch_delay_ps},
      {"graph_call_us", "graph_call_ps", "us", kPerMicrosecond, 0, &M::graph_call_ps},
      {"kernel_gap_us", "kernel_gap_ps", "us", kPerMicrosecond, 0, &M::kernel_gap_ps},
      {"wake_us", "wake_ps", "us", kPerMicrosecond, 0, &M::wake_ps},
      {"grid_sync_us", "grid_sync_ps", "us", kPerMicrosecond, 0, &M::grid_sync_ps},
      {"contended_atomic_us", "contended_atomic_ps", "us", kPerMicrosecond, 0, &M::contended_atomic_ps},
      // A kernel that polls looks twice as often at most; never: it would look for ever at one moment.
      {"host_flag_us", "host_flag_ps", "us", kPerMicrosecond, 1000, &M::host_flag_ps},
  };
  return all;
}

const GpuField* find_gpu_field(std::string_view name) {
  const auto& all = gpu_fields();
  const auto found = std::find_if(all.begin(), all.end(), [&](const GpuField& one) { return name == one.name; });
  return found != all.end() ? &*found : nullptr;
}

std::int64_t get(const GpuModel& model, const GpuField& field) {
  return std::visit([&](auto place) { return static_cast<std::int64_t>(model.*place); }, field.place);
}

Result<void> set(GpuModel& model, const GpuField& field, std::int64_t value) {
  return std::visit(
      [&](auto place) -> Result<void> {
        using Value = std::remove_reference_t<decltype(model.*place)>;
        constexpr std::int64_t kMost = std::is_same_v<Value, bool>  ? 1
                                       : std::is_same_v<Value, int> ? std::numeric_limits<int>::max()
                                                                    : std::numeric_limits<std::int64_t>::max();
        if (value < field.least || value > kMost) {
          return wrong(std::string(field.name) + ": " + std::to_string(value) + " is not within " +
                       std::to_string(field.least) + " to " + std::to_string(kMost));
        }
        model.*place = static_cast<Value>(value);
        return ok();
      },
      field.place);
}

double profile_value(const GpuModel& model, const GpuField& field) {
  return static_cast<double>(get(model, field)) / field.scale;
}

std::string gpu_word(const GpuModel& model) {
  std::string word = model.name;
  for (const GpuField& field : gpu_fields()) word += kSeparator + std::to_string(get(model, field));
  return word;
}

bool is_gpu_word(std::string_view text) { return text.find(kSeparator) != std::string_view::npos; }

Result<GpuModel> parse_gpu_word(std::string_view word) {
  GpuModel model;
  std::size_t at = std::min(word.find(kSeparator), word.size());
  model.name = word.substr(0, at);
  for (const GpuField& field : gpu_fields()) {
    std::int64_t value = 0;
    const char* const end = word.data() + word.size();
    const char* const begin = word.data() + std::min(at + 1, word.size());
    const auto [next, error] = std::from_chars(begin, end, value);
    if (error != std::errc()) return wrong("'" + std::string(word) + "' lacks " + field.name);
    if (auto done = set(model, field, value); !done) return done.error();
    at = static_cast<std::size_t>(next - word.data());
  }
  if (at != word.size()) return wrong("'" + std::string(word) + "' goes on where a model of a GPU has ended");
  return model;
}

}  // namespace meshbed::models
