#pragma once
// Renderers of documents (testbed/result/document.h), a source each. Pure functions; any thread.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/result/document.h"

namespace meshbed::testbed::document {

/// Lines, each with its end.
std::string text_of(const Document& document);
/// Of one section, without their ends.
std::vector<std::string> text_lines(const Section& section);

/// Fields and tables by their keys; those of a section with a key in an object of its own.
nlohmann::ordered_json json_of(const Document& document);
nlohmann::ordered_json json_of(const Section& section);
/// A list of objects, one a row.
nlohmann::ordered_json json_of(const Table& table);

/// The JSON Schema (draft-07) of json_of() a document of this shape: keys, types, units and meanings. Other keys are
/// refused, except in values of another program.
nlohmann::ordered_json schema_of(const Document& shape);

/// RFC 4180: a line of keys, then one a row; lines end with "\n". null is empty; lists and objects are JSON.
std::string csv_of(const Table& table);

/// JUnit XML, as CI systems read it: a test case for each row of the document's tables of checks, a failure with the
/// detail where it does not hold.
std::string junit_of(const Document& document, const std::string& suite);

}  // namespace meshbed::testbed::document
