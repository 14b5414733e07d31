#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <streambuf>
#include <utility>
#include <vector>

#include "plugin/base/check.h"
#include "plugin/base/cut_lines.h"
#include "sim/host/load/program.h"
#include "sim/host/load/program_guard.h"

namespace meshbed::sim {

// Named, for they are members of ProgramOutput::State.
namespace program_output {

/// A stream of the C library and those of C++ beside it, replaced while this lives.
class ReplacedStream final : public std::streambuf {
 public:
  using Take = std::function<void(std::string_view text)>;

  ReplacedStream(std::FILE*& stream, std::vector<std::ostream*> others, Take take)
      : take_(std::move(take)), replaced_(stream), real_(stream) {
    std::fflush(real_);
    stream_ = ::fopencookie(this, "w", {.read = nullptr, .write = &cookie_write, .seek = nullptr, .close = nullptr});
    if (stream_ == nullptr) throw std::runtime_error("fopencookie: no stream for what programs print");
    // Of each call at once, while its process runs. Without locks: one thread runs at a time, and one that is stopped
    // within a call leaves it by a jump.
    std::setvbuf(stream_, nullptr, _IONBF, 0);
    ::__fsetlocking(stream_, FSETLOCKING_BYCALLER);
    replaced_ = stream_;
    for (std::ostream* other : others) others_.emplace_back(other, other->rdbuf(this));
  }

  ~ReplacedStream() override {
    for (const auto& [other, buffer] : others_) other->rdbuf(buffer);
    replaced_ = real_;
    std::fclose(stream_);
  }

  bool is(const std::FILE* stream) const { return stream == stream_; }
  void write_through(std::string_view text) { std::fwrite(text.data(), 1, text.size(), real_); }

 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    if (!traits_type::eq_int_type(c, traits_type::eof())) take_({&byte, 1});
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    take_({text, static_cast<std::size_t>(size)});
    return size;
  }

 private:
  static ssize_t cookie_write(void* cookie, const char* text, std::size_t size) {
    static_cast<ReplacedStream*>(cookie)->take_({text, size});
    return static_cast<ssize_t>(size);
  }

  const Take take_;
  std::FILE*& replaced_;
  std::FILE* const real_;
  std::FILE* stream_ = nullptr;
  std::vector<std::pair<std::ostream*, std::streambuf*>> others_;
};

}  // namespace program_output

class ProgramOutput::State {
 public:
  explicit State(Options options) : options_(std::move(options)) {
    MESHBED_CHECK_MSG(of_process == nullptr, "one ProgramOutput at a time");
    of_process = this;
  }

  ~State() {
    of_process = nullptr;
    for (auto& [process, lines] : begun_) {
      lines.finish([&, from = process](std::string_view line) { options_.print(*from, line); });
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void take_output(std::string_view text) {
    if (is_own()) return output_.write_through(text);
    if (!count(text.size())) return;
    const Process& process = *World::current_process();
    begun_[&process].take(text, [&](std::string_view line) {
      printing_ = true;
      options_.print(process, line);
      printing_ = false;
    });
  }

  void take_errors(std::string_view text) {
    if (is_own() || count(text.size())) errors_.write_through(text);
  }

  int descriptor_of(const std::FILE* stream) const {
    return output_.is(stream) ? STDOUT_FILENO : errors_.is(stream) ? STDERR_FILENO : -1;
  }

  static inline State* of_process = nullptr;

 private:
  using ReplacedStream = program_output::ReplacedStream;

  /// The simulator's own text.
  bool is_own() const { return printing_ || World::current() == nullptr; }

  /// False: the limit is passed. The program that passes it does not run on where a guard exists.
  bool count(std::size_t bytes) {
    written_[World::current_process()] += bytes;
    total_ += bytes;
    if (total_ <= options_.limit_bytes) return true;
    if (std::exchange(passed_, true)) return false;
    const auto most = std::max_element(written_.begin(), written_.end(),
                                       [](const auto& one, const auto& two) { return one.second < two.second; });
    stop_guarded(fmt::format(
        "the ranks have written more than {:g} MiB of output, {} {:.1f} MiB of it: write less, write to a "
        "file, or raise workload.output_limit_mib",
        static_cast<double>(options_.limit_bytes) / kMiB, most->first->name, static_cast<double>(most->second) / kMiB));
    return false;
  }

  const Options options_;
  std::map<const Process*, CutLines> begun_;
  std::map<const Process*, std::uint64_t> written_;
  std::uint64_t total_ = 0;
  bool printing_ = false, passed_ = false;
  ReplacedStream output_{stdout, {&std::cout}, [this](std::string_view text) { take_output(text); }};
  ReplacedStream errors_{stderr, {&std::cerr, &std::clog}, [this](std::string_view text) { take_errors(text); }};
};

ProgramOutput::ProgramOutput(Options options) : state_(new State(std::move(options))) {}
ProgramOutput::~ProgramOutput() { delete state_; }

int output_descriptor_of(const std::FILE* stream) {
  const ProgramOutput::State* const state = ProgramOutput::State::of_process;
  return state != nullptr ? state->descriptor_of(stream) : -1;
}

bool write_program_output(int descriptor, std::string_view text) {
  ProgramOutput::State* const state = ProgramOutput::State::of_process;
  if (state == nullptr) return false;
  if (descriptor == STDOUT_FILENO) {
    state->take_output(text);
  } else if (descriptor == STDERR_FILENO) {
    state->take_errors(text);
  } else {
    return false;
  }
  return true;
}

}  // namespace meshbed::sim
