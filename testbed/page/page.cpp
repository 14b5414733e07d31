#include "testbed/page/page.h"

#include <fmt/format.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "testbed/page/bundle.h"

namespace meshbed::testbed::page {
namespace {

/// As a content security policy names a script: "sha256-...".
std::string hash_of(std::string_view text) {
  sha256_ctx state;
  sha256_init(&state);
  sha256_update(&state, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&state, digest.size(), digest.data());
  std::array<char, BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE)> coded{};
  base64_encode_raw(coded.data(), digest.size(), digest.data());
  return "sha256-" + std::string(coded.data(), coded.size());
}

std::string head(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src '{}'\">\n<title>{}</title>\n<style>{}</style>\n</head>\n",
      hash_of(bundled_script()), xml_text(title), bundled_style());
}

std::string badge(const Part& part) {
  return fmt::format("<span class=\"badge {}\">{}</span>", part.good ? "good" : "bad", xml_text(part.verdict));
}

/// Of several parts: a line for each.
std::string overview(const std::vector<Part>& parts) {
  if (parts.size() < 2) return "";
  std::string html = "<div class=\"overview\">\n";
  for (std::size_t index = 0; index < parts.size(); ++index) {
    html += fmt::format("<p><a href=\"#r{}\">{}</a> {} {}</p>\n", index + 1, xml_text(parts[index].title),
                        badge(parts[index]), xml_text(parts[index].lead));
  }
  return html + "</div>\n";
}

std::string with_budget(const std::vector<Source>& sources, const Budget& budget) {
  std::vector<Part> parts;
  for (const Source& source : sources) {
    const std::string prefix = fmt::format("r{}", parts.size() + 1);
    parts.push_back(source.run ? run_part(*source.run, prefix, budget) : sweep_part(*source.sweep, prefix, budget));
  }
  const std::string title = parts.size() == 1 ? parts.front().title : fmt::format("{} results", parts.size());
  std::string html = head(title + " – Meshbed");
  html +=
      "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header class=\"bar\"><span "
      "class=\"brand\">Meshbed <b>report</b></span>"
      "<button type=\"button\" id=\"theme\" hidden>Dark</button></header>\n<main id=\"main\">\n";
  html += "<h1>" + xml_text(title) + "</h1>\n" + overview(parts);
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const Part& part = parts[index];
    html += fmt::format(
        "<article id=\"r{0}\" aria-labelledby=\"r{0}-h\">\n<h2 id=\"r{0}-h\"{1}>{2}</h2>\n<p class=\"lead\">{3} "
        "{4}</p>\n<nav aria-label=\"Sections of {2}\"><ul>{5}</ul></nav>\n{6}</article>\n",
        index + 1, parts.size() == 1 ? " class=\"only\"" : "", xml_text(part.title), badge(part), xml_text(part.lead),
        part.contents, part.html);
  }
  html +=
      "</main>\n<footer>Made by meshbed report. This file loads nothing: all data is in it. Wall-clock time, CPU time, "
      "memory, host names and paths are left out, so that equal runs have equal reports.</footer>\n";
  return html + fmt::format("<script>{}</script>\n</body>\n</html>\n", bundled_script());
}

}  // namespace

std::string page_of(const std::vector<Source>& sources) {
  Budget budget = Budget{}.part_of(std::max<std::size_t>(1, sources.size()));
  std::string page = with_budget(sources, budget);
  while (page.size() > kPageMostBytes && budget.messages > 1) {
    budget = budget.part_of(2);
    page = with_budget(sources, budget);
  }
  return page;
}

std::string report_page(const std::vector<std::string>& folders, const std::vector<std::string>& measured) {
  const std::vector<MeasuredCurve> curves = read_measured_curves(measured);
  std::vector<Source> sources;
  bool has_place = curves.empty();
  for (const std::string& folder : folders) {
    for (Source& source : read_results(folder)) {
      if (source.sweep && has_curves(*source.sweep)) {
        source.sweep->measured = curves;
        has_place = true;
      }
      sources.push_back(std::move(source));
    }
  }
  if (!has_place) {
    throw std::runtime_error("--measured: no results are of a sweep over sizes; sweep with --vary workload.bytes=...");
  }
  try {
    return page_of(sources);
  } catch (const std::out_of_range&) {
    // Said below.
  } catch (const nlohmann::json::exception&) {
    // Said below.
  }
  throw std::runtime_error(fmt::format(
      "{}: summary.json contradicts itself: the file was changed; run the scenario again", fmt::join(folders, ", ")));
}

}  // namespace meshbed::testbed::page
