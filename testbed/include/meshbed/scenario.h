#pragma once
// meshbed::Scenario: cabling, workload, faults and expected results. Read from a TOML file whose keys are in
// scenarios/README.md, and changed key by key.
//
// Version 0: names may change until version 1. A Scenario is a value: copies are independent of each other. Different
// threads may use different Scenarios; one Scenario must be used by one thread at a time.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "meshbed/export.h"

namespace meshbed {

/// One thing that is wrong, slow or worth knowing about a scenario, as `meshbed lint` prints it.
struct Finding {
  std::string severity;  // "error": a run is refused; "warning": it runs, but not as described; "note"
  std::string code;   // as in docs/reference/findings.md: "crossed-cable"; "refused" where the file could not be read
  std::string place;  // "cable 'node0-node1'", "pair.toml:7:9"
  std::string cause;
  std::string fix;  // empty: nothing to do
};

/// A scenario that cannot be read or run. what() has a line for each error.
class MESHBED_API InvalidScenario : public std::runtime_error {
 public:
  InvalidScenario(const std::string& text, std::vector<Finding> findings);
  ~InvalidScenario() override;
  const std::vector<Finding>& findings() const { return *findings_; }

 private:
  std::shared_ptr<const std::vector<Finding>> findings_;  // so that copying it cannot throw
};

class MESHBED_API Scenario {
 public:
  /// Reads a scenario file. Files that it names (recordings, programs, tuning tables) are looked for beside it. Throws
  /// InvalidScenario.
  static Scenario load(const std::string& path);
  /// The same from memory; `path` stands for the file in errors, and its folder is where files that the text names lie.
  static Scenario parse(const std::string& text, const std::string& path = "scenario.toml");

  Scenario(const Scenario& other);
  Scenario& operator=(const Scenario& other);
  Scenario(Scenario&& other) noexcept;
  Scenario& operator=(Scenario&& other) noexcept;
  ~Scenario();

  /// As `--set KEY=VALUE`: set("workload.bytes", "64M"). VALUE is TOML; what is not is taken as text. Throws
  /// InvalidScenario, and then leaves the scenario as it was.
  Scenario& set(const std::string& key, const std::string& value);
  /// Several keys at once, for those that only fit together.
  Scenario& set(const std::vector<std::pair<std::string, std::string>>& values);
  /// As `--fault KIND,target=TARGET,at=TIME,...`: one fault more.
  Scenario& fault(const std::string& text);
  /// `target` is out of order from the start of the run: a cable ("node0-node1"), a NIC ("node0/rocep1s0f0") or a node
  /// ("node2", which loses its power).
  Scenario& fail(const std::string& target);

  /// The value of a key that the file or set() gives, as TOML text. Throws std::out_of_range where neither does: its
  /// default is in scenarios/README.md.
  std::string get(const std::string& key) const;

  const std::string& path() const;
  std::string name() const;
  std::uint64_t seed() const;
  int ranks() const;
  /// What was set, as the command's --set would take it.
  const std::vector<std::string>& overrides() const;
  /// What `meshbed lint` prints of it: errors first, then warnings, then notes.
  std::vector<Finding> check() const;

  struct State;
  const State& state() const { return *state_; }  // for the library itself

 private:
  explicit Scenario(std::unique_ptr<State> state);
  Scenario& with(const std::vector<std::string>& overrides);
  std::unique_ptr<State> state_;
};

}  // namespace meshbed
