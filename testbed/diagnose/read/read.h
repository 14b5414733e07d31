#pragma once
// Readers: one for each format, which put facts and signs into a Case. Formats are recognised by what is in a file, not
// by its name. Each reader is fuzzed (tests/fuzz/diagnose_fuzz.cpp): any bytes are read or refused, never a crash.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "testbed/diagnose/evidence.h"

namespace meshbed::testbed::diagnose {

/// A format that consists of lines, among which other formats' lines may stand, as NCCL's among nccl-tests'.
class LineReader {
 public:
  virtual ~LineReader() = default;
  virtual const char* format() const = 0;
  /// False: the line is not one of this format.
  virtual bool take(const Line& line, Case& found) = 0;
  /// Behind the last line of a file.
  virtual void end(Case& /*found*/) {}
};

std::unique_ptr<LineReader> nccl_log_reader();     // NCCL_DEBUG=INFO or WARN, 2.18 to 2.32
std::unique_ptr<LineReader> mesh_log_reader();     // Meshbed's plugin, engine and `meshbed run`
std::unique_ptr<LineReader> nccl_tests_reader();   // all_reduce_perf and its like, and meshbed perf
std::unique_ptr<LineReader> ras_text_reader();     // ncclras
std::unique_ptr<LineReader> kernel_log_reader();   // dmesg
std::unique_ptr<LineReader> inspector_reader();    // NCCL's Inspector, v4.0 to v4.3
std::unique_ptr<LineReader> state_reader();        // meshbed state
std::unique_ptr<LineReader> system_text_reader();  // ibv_devinfo, ulimit, iptables-save, lspci, PyTorch's errors

/// What RAS answers in its JSON format. False: it is something else.
bool read_ras_json(const document::Value& value, const std::string& file, Case& found);
/// PyTorch's flight recorder as JSON. False: it is something else.
bool read_flight_recorder(const document::Value& value, const std::string& file, Case& found);
/// What Meshbed's plugin writes at a job's end (NCCL_MESH_REPORT). False: it is something else.
bool read_job_report(const document::Value& value, const std::string& file, Case& found);
/// summary.json of a run. False: it is something else.
bool read_summary(const document::Value& value, const std::string& file, Case& found);
/// messages.csv of a run: how many messages ended with which status.
void read_messages(const std::string& text, const std::string& file, Case& found);

/// A file's text, of any of the formats. Throws std::runtime_error for one that is none of them: with its name, the
/// reason and what to do.
void read_text(const std::string& text, const std::string& file, Case& found);

// --- helpers of the readers ---

/// What is between `before` and `after` behind it ("": the end of the text); nullopt: `before` is not there.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after);
/// The number that the text begins with, spaces before it allowed.
std::optional<double> leading_number(std::string_view text);
/// Members of a JSON object: "", `otherwise`, false, an empty list where there is none of that name and kind.
std::string text_at(const document::Value& object, const char* key);
double number_at(const document::Value& object, const char* key, double otherwise = 0);
bool flag_at(const document::Value& object, const char* key);
const document::Value& list_at(const document::Value& object, const char* key);
/// A place in a file as a whole, its text cut as Line has it.
Line whole_file(const std::string& file, std::string text);
/// JSON with a comma where NCCL 2.28.9's RAS leaves one out (src/ras/client_support.cc:1963, v2.28.9-1). Throws
/// std::runtime_error with line and column.
document::Value parse_json(const std::string& text, const std::string& file);

}  // namespace meshbed::testbed::diagnose
