#pragma once
// Interruption: while it exists, SIGINT and SIGTERM end this process at once: unfinished files are removed, a line on
// standard error names the files that were kept, and the exit status is 130 or 143. A signal that was ignored before
// stays ignored, as in a background job of a shell without job control.
//
// The handler only calls functions that POSIX allows there (unlink, write, _exit), on text that was prepared before; so
// it works during any computation, on any stack. Children of start_child() die with their parent.
// One at a time in a process; its calls come from one thread at a time.

#include <csignal>
#include <cstddef>
#include <string>

namespace meshbed::testbed {

class Interruption {
 public:
  /// `kept`: what the user has after an interruption, as in "the rows above stay". `unit`: of what Progress counts, as
  /// in "iterations"; empty: its count is not shown.
  Interruption(const std::string& unit, const std::string& kept);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Replaces that text.
  static void set_kept(const std::string& kept);
  /// What the message counts; without effect where no Interruption lives.
  static void set_progress(int done, int total);
  /// In a child: signals to the process group are the parent's to act upon.
  static void leave_to_parent();

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

/// A file, or a folder as long as it is empty, that must not be left behind by an interruption. Many may live at one
/// time; an inner folder is made after the outer one.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&& other) noexcept;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t place_ = kNone;
};

/// Holds an interruption back for a step that is done as a whole or not at all.
class HeldInterruption {
 public:
  HeldInterruption();
  ~HeldInterruption();
  HeldInterruption(const HeldInterruption&) = delete;
  HeldInterruption& operator=(const HeldInterruption&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace meshbed::testbed
