#include "cli/common/document_output.h"

#include <ostream>

#include "testbed/base/files.h"
#include "testbed/render/render.h"

namespace meshbed::testbed {

void DocumentOutput::describe(boost::program_options::options_description& options) {
  namespace po = boost::program_options;
  options.add_options()                                                                                           //
      ("keep", po::value(&keep)->value_name("FILE"), "also write the result, with its provenance, to this file")  //
      ("json", po::bool_switch(&json), "print JSON instead of the table");
}

void DocumentOutput::show(const document::Document& document, std::ostream& out) {
  if (json) return;
  const std::string text = text_of(document);
  // At once: a child process that starts later must not print it again.
  if (text.size() > shown) out << text.substr(shown) << std::flush;
  shown = text.size();
}

void DocumentOutput::finish(const document::Document& document, std::ostream& out) {
  show(document, out);
  if (!json && keep.empty()) return;
  const std::string text = json_text(json_of(document), indent) + "\n";
  if (json) out << text;
  if (!keep.empty()) write_text_file(keep, text);
}

}  // namespace meshbed::testbed
