// docs/questions.md shows what the commands on it print and draw today.
// MESHBED_UPDATE_GOLDEN=1 writes tables and pictures anew; read the difference before you commit it.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace questions_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;

namespace {

/// A command of the page, with the block behind it.
struct Question {
  std::string arguments;  // behind ./meshbed, without --plot
  std::string picture;    // "ring-or-switch.svg"
  std::string table;
};

/// The page's blocks: each `sh` block of one command, then the `text` block with its table.
std::vector<Question> questions_of(const std::string& page) {
  const std::string program = "./meshbed ", plot = " --plot results/";
  std::vector<Question> questions;
  std::istringstream in(page);
  bool in_table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) {
      in_table = line == "```text";
    } else if (in_table) {
      questions.back().table += line + "\n";
    } else if (line.rfind(program, 0) == 0) {
      const std::size_t at = line.find(plot);
      REQUIRE_MESSAGE(at != std::string::npos, line);
      questions.push_back({.arguments = line.substr(program.size(), at - program.size()),
                           .picture = line.substr(at + plot.size()),
                           .table = ""});
    }
  }
  return questions;
}

/// The page with other tables, in order.
std::string with_tables(const std::string& page, const std::vector<std::string>& tables) {
  std::string renewed;
  std::istringstream in(page);
  std::size_t next = 0;
  bool in_table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) {
      in_table = line == "```text";
      renewed += line + "\n" + (in_table ? tables[next++] : "");
    } else if (!in_table) {
      renewed += line + "\n";
    }
  }
  return renewed;
}

}  // namespace

TEST_CASE("the tables and pictures of docs/questions.md are what its commands print and draw") {
  const std::string docs = std::string(MESHBED_SOURCE_DIR) + "/docs/";
  const std::string page = read_text_file(docs + "questions.md");
  const bool renew = std::getenv("MESHBED_UPDATE_GOLDEN") != nullptr;
  const std::string folder = scratch_folder("questions");
  const std::vector<Question> questions = questions_of(page);
  CHECK(questions.size() == 5);
  std::vector<std::string> tables;
  for (const Question& question : questions) {
    INFO(question.arguments);
    const std::string drawn = folder + "/" + question.picture;
    const CommandResult swept = run_command_line("cd '" MESHBED_SOURCE_DIR "' && " + meshbed_program() + " " +
                                                 question.arguments + " --results " + folder + " --plot " + drawn);
    CHECK(swept.status == 0);
    tables.push_back(swept.output.substr(0, swept.output.find("; results in ")) + "\n");
    const std::string kept = docs + "questions/" + question.picture;
    if (renew) std::ofstream(kept, std::ios::binary) << read_text_file(drawn);
    CHECK(question.table == tables.back());
    CHECK(read_text_file(drawn) == read_text_file(kept));
  }
  if (renew) std::ofstream(docs + "questions.md", std::ios::binary) << with_tables(page, tables);
}

}  // namespace questions_command_test
