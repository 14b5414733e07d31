#include "testbed/base/interruption.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "testbed/base/exit_status.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kTextBytes = 1024;
constexpr std::size_t kFilesMax = 64;

/// Written outside the handler, read by it. A text is written where the handler does not look, and then shown to it.
struct Prepared {
  std::array<std::array<char, kTextBytes>, 2> texts{};
  std::atomic<int> shown{0};
  std::array<char, 64> unit{};
  std::atomic<int> done{0}, total{0};
  bool terminal = false;
};
struct FileToRemove {
  std::atomic<bool> used{false}, complete{false};
  std::array<char, PATH_MAX> path{};
};

Prepared g_prepared;
std::array<FileToRemove, kFilesMax> g_files;
std::atomic<bool> g_active{false};

template <std::size_t kSize>
void copy_text(std::array<char, kSize>& to, std::string_view from) {
  const std::size_t length = std::min(from.size(), kSize - 1);
  std::memcpy(to.data(), from.data(), length);
  to[length] = '\0';
}

/// A line in the handler: no allocation, no locale.
class HandlerLine {
 public:
  void add(const char* text) {
    for (; *text != '\0' && size_ < text_.size(); ++text) text_[size_++] = *text;
  }
  void add(int number) {
    std::array<char, 12> digits{};
    std::size_t at = digits.size() - 1;
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    add(&digits[at]);
  }
  void write_out() const {
    for (std::size_t at = 0; at < size_;) {
      const ssize_t count = write(STDERR_FILENO, text_.data() + at, size_ - at);
      if (count <= 0 && errno != EINTR) return;
      at += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
  }

 private:
  std::array<char, kTextBytes + 256> text_{};
  std::size_t size_ = 0;
};

void on_interruption(int signal) {
  for (const FileToRemove& file : g_files) {
    if (file.complete) unlink(file.path.data());
  }
  for (std::size_t place = kFilesMax; place-- > 0;) {  // the innermost folder first; one that is not empty stays
    if (g_files[place].complete) rmdir(g_files[place].path.data());
  }
  HandlerLine line;
  if (g_prepared.terminal) line.add("\r\033[K");
  line.add(signal == SIGINT ? "meshbed: interrupted" : "meshbed: terminated");
  if (const int total = g_prepared.total; total > 0 && g_prepared.unit[0] != '\0') {
    line.add(" after ");
    line.add(g_prepared.done.load());
    line.add(" of ");
    line.add(total);
    line.add(" ");
    line.add(g_prepared.unit.data());
  }
  line.add(": ");
  line.add(g_prepared.texts[static_cast<std::size_t>(g_prepared.shown.load())].data());
  line.add("\n");
  line.write_out();
  _exit(signal == SIGINT ? kExitInterrupted : kExitTerminated);
}

void replace_action(int signal, struct sigaction* before) {
  sigaction(signal, nullptr, before);
  if (before->sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = on_interruption;
  action.sa_flags = SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(signal, &action, nullptr);
}

}  // namespace

Interruption::Interruption(const std::string& unit, const std::string& kept) {
  copy_text(g_prepared.unit, unit);
  g_prepared.done = g_prepared.total = 0;
  g_prepared.terminal = isatty(STDERR_FILENO) == 1;
  set_kept(kept);
  replace_action(SIGINT, &interrupt_);
  replace_action(SIGTERM, &terminate_);
  g_active = true;
}

Interruption::~Interruption() {
  g_active = false;
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

void Interruption::set_kept(const std::string& kept) {
  const int next = 1 - g_prepared.shown;
  copy_text(g_prepared.texts[static_cast<std::size_t>(next)], kept);
  g_prepared.shown = next;
}

void Interruption::set_progress(int done, int total) {
  g_prepared.done = done;
  g_prepared.total = total;
}

void Interruption::leave_to_parent() {
  if (!g_active) return;
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  if (path.size() >= PATH_MAX) return;
  for (std::size_t place = 0; place < kFilesMax && place_ == kNone; ++place) {
    if (!g_files[place].used.exchange(true)) place_ = place;
  }
  if (place_ == kNone) return;  // more than any command writes at one time
  copy_text(g_files[place_].path, path);
  g_files[place_].complete = true;
}

UnfinishedFile::~UnfinishedFile() {
  if (place_ == kNone) return;
  g_files[place_].complete = false;
  g_files[place_].used = false;
}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept : place_(std::exchange(other.place_, kNone)) {}

UnfinishedFile& UnfinishedFile::operator=(UnfinishedFile&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

HeldInterruption::HeldInterruption() {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldInterruption::~HeldInterruption() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace meshbed::testbed
