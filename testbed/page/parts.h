#pragma once
// Parts: sections with the links that lead to them.

#include <string>
#include <utility>

#include "testbed/page/page.h"

namespace meshbed::testbed::page {

class Sections {
 public:
  explicit Sections(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Nothing without content.
  void add(const std::string& name, const std::string& title, const std::string& content) {
    if (content.empty()) return;
    const std::string id = prefix_ + "-" + name;
    contents_ += "<li><a href=\"#" + id + "\">" + xml_text(title) + "</a></li>";
    html_ += section_html(id, title, content);
  }
  void move_into(Part& part) {
    part.contents = std::move(contents_);
    part.html = std::move(html_);
  }

 private:
  std::string prefix_, contents_, html_;
};

/// The plugin's own reports (NCCL_MESH_REPORT): a row for each process and each of its cables. Empty without any.
std::string job_reports_html(const std::vector<Value>& reports);

/// A figure that a reader looks at first.
inline std::string tile_html(const std::string& name, const std::string& value, const std::string& about) {
  return "<div><dt>" + xml_text(name) + "</dt><dd>" + xml_text(value) +
         (about.empty() ? "" : "<small>" + xml_text(about) + "</small>") + "</dd></div>\n";
}

}  // namespace meshbed::testbed::page
