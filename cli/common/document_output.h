#pragma once
// DocumentOutput: where a command's document goes: to standard output as text, line by line while it grows, or as JSON
// at its end; and to a file as JSON.

#include <boost/program_options.hpp>
#include <cstddef>
#include <iosfwd>
#include <string>

#include "testbed/base/json_text.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

struct DocumentOutput {
  bool json = false;
  std::string keep{};     // a file; empty: none
  int indent = kIndent;   // of JSON; kOneLine: none
  std::size_t shown = 0;  // characters of the text

  /// Adds --keep and --json.
  void describe(boost::program_options::options_description& options);
  /// Prints the end of the document's text that was not printed before, at once, and nothing for --json. The document
  /// may only have grown at its end.
  void show(const document::Document& document, std::ostream& out);
  /// Prints what is left of the text, or the JSON; writes the file. Throws std::runtime_error where it cannot be
  /// written.
  void finish(const document::Document& document, std::ostream& out);
};

}  // namespace meshbed::testbed
