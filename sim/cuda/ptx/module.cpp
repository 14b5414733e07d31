// Module: the text parsed, decoded, and what it has to offer.
#define XXH_INLINE_ALL  // the simulated CUDA links nothing but libc
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cuda/ptx/cache/layout.h"
#include "sim/cuda/ptx/machine.h"
#include "sim/cuda/ptx/program.h"

namespace meshbed::sim::ptx {

namespace {

TextsKey key_of(const std::vector<std::string>& texts) {
  TextsKey key;
  for (const std::string& text : texts) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    key.insert(key.end(), {hash.low64, hash.high64, text.size()});
  }
  return key;
}

/// The modules that are in use: the ranks of a simulation load the same texts, and reading NCCL's takes seconds.
struct ModulesInUse {
  std::mutex lock;
  std::map<TextsKey, std::weak_ptr<const Module>> by_text;
};
ModulesInUse& modules_in_use() {
  static auto* const all = new ModulesInUse;
  return *all;
}

/// From how many bytes on bodies are decoded when they are called: all of NCCL's are most of a gigabyte of
/// instructions, of which a program executes a few.
constexpr std::size_t kLargeBytes = std::size_t{256} << 10U;

bool is_large(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  return bytes >= kLargeBytes;
}

void read_texts(Program& program, std::vector<std::string>&& texts, const std::string& place) {
  program.place = place;
  program.text = std::make_unique<ModuleText>();
  for (std::string& text : texts) parse_text(std::move(text), *program.text);
}

}  // namespace

Module::Module() : program_(std::make_unique<Program>()) {}
Module::~Module() = default;

Result<std::shared_ptr<const Module>> Module::make(std::vector<std::string> texts, const std::string& place,
                                                   const std::string& cache) {
  ModulesInUse& known = modules_in_use();
  const TextsKey key = key_of(texts);
  {
    const std::lock_guard hold(known.lock);
    if (const auto found = known.by_text.find(key); found != known.by_text.end()) {
      if (auto module = found->second.lock()) return module;
    }
  }
  const std::size_t parts = texts.size();
  const bool keeps_code = !is_large(texts);
  const auto layout = keeps_code ? std::nullopt : find_layout(cache, key);
  std::shared_ptr<Module> made(new Module());
  try {
    read_texts(*made->program_, std::move(texts), place);
    if (!layout) {
      decode_program(*made->program_, keeps_code);
      if (!keeps_code) keep_layout(cache, key, layout_of(*made->program_));
    } else if (!decode_program(*made->program_, *layout)) {  // the file is of another text
      auto& again = made->program_->text->texts;
      return make({std::make_move_iterator(again.begin()), std::make_move_iterator(again.end())}, place, {});
    }
  } catch (const Refusal& refusal) {
    const std::string part =
        parts < 2 ? "" : ", part " + std::to_string(refusal.part + 1) + " of " + std::to_string(parts);
    return Error{.code = refusal.unsupported ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                 .text = place + part + ":" + std::to_string(refusal.line) + ": " + refusal.what()};
  }
  const std::lock_guard hold(known.lock);
  std::erase_if(known.by_text, [](const auto& one) { return one.second.expired(); });
  known.by_text[key] = made;
  return std::shared_ptr<const Module>(std::move(made));
}

Result<std::shared_ptr<const Module>> Module::parse(std::string_view text, const std::string& place,
                                                    const std::string& cache) {
  return make({std::string(text)}, place, cache);
}

Result<std::shared_ptr<const Module>> Module::link(std::vector<std::string> texts, const std::string& place,
                                                   const std::string& cache) {
  return make(std::move(texts), place, cache);
}

std::vector<std::string> Module::undefined() const {
  std::vector<std::string> names;
  for (const Function& function : program_->functions) {
    if (!function.text->defined && function.builtin < 0) names.push_back(function.name);
  }
  for (const VariableText& variable : program_->text->variables) {
    if (variable.symbol->external) names.push_back(variable.symbol->name);
  }
  return names;
}

const std::vector<KernelInfo>& Module::kernels() const { return program_->kernel_infos; }
const std::vector<VariableInfo>& Module::variables() const { return program_->variable_infos; }

const KernelInfo* Module::find_kernel(std::string_view name) const {
  for (const KernelInfo& kernel : program_->kernel_infos) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

void Module::write_initial(std::size_t variable, const std::vector<std::uint64_t>& addresses, void* bytes) const {
  const VariableText& text = program_->text->variables[variable];
  const std::size_t size = text.symbol->bytes;
  std::memset(bytes, 0, size);
  if (!text.initial.empty()) std::memcpy(bytes, text.initial.data(), std::min(size, text.initial.size()));
  for (const Relocation& one : text.relocations) {
    std::uint64_t value =
        address_of(*program_, nullptr, *one.symbol, addresses) + static_cast<std::uint64_t>(one.addend);
    value >>= one.shift;
    if (one.offset + one.bytes <= size)
      std::memcpy(static_cast<std::byte*>(bytes) + one.offset, &value, std::min(one.bytes, 8U));
  }
}

}  // namespace meshbed::sim::ptx
