#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <streambuf>
#include <utility>

#include "plugin/base/cut_lines.h"
#include "sim/host/load/program.h"

namespace meshbed::sim {

class ProgramOutput::State final : public std::streambuf {
 public:
  explicit State(Print print) : print_(std::move(print)), real_(stdout), real_buffer_(std::cout.rdbuf()) {
    std::fflush(real_);
    stream_ = ::fopencookie(this, "w", {.read = nullptr, .write = &cookie_write, .seek = nullptr, .close = nullptr});
    if (stream_ == nullptr) throw std::runtime_error("fopencookie: no stream for what programs print");
    // Of each call at once, while its process runs.
    std::setvbuf(stream_, nullptr, _IONBF, 0);
    stdout = stream_;
    std::cout.rdbuf(this);
  }

  ~State() override {
    std::cout.rdbuf(real_buffer_);
    stdout = real_;
    std::fclose(stream_);
    for (auto& [process, lines] : begun_) {
      lines.finish([&, from = process](std::string_view line) { print_(*from, line); });
    }
  }

 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    if (!traits_type::eq_int_type(c, traits_type::eof())) take({&byte, 1});
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    take({text, static_cast<std::size_t>(size)});
    return size;
  }

 private:
  static ssize_t cookie_write(void* cookie, const char* text, std::size_t size) {
    static_cast<State*>(cookie)->take({text, size});
    return static_cast<ssize_t>(size);
  }

  void take(std::string_view text) {
    if (World::current() == nullptr) {  // the simulator's own words
      std::fwrite(text.data(), 1, text.size(), real_);
      return;
    }
    const Process& process = *World::current_process();
    begun_[&process].take(text, [&](std::string_view line) { print_(process, line); });
  }

  Print print_;
  std::FILE* const real_;
  std::streambuf* const real_buffer_;
  std::FILE* stream_ = nullptr;
  std::map<const Process*, CutLines> begun_;
};

ProgramOutput::ProgramOutput(Print print) : state_(new State(std::move(print))) {}
ProgramOutput::~ProgramOutput() { delete state_; }

}  // namespace meshbed::sim
