#include "testbed/world/fault_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "testbed/base/environment.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/workload/outcome.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kErrorsPrefix = "errors-of-rank-";

nlohmann::json errors_json(const std::vector<RankError>& errors) {
  auto list = nlohmann::json::array();
  for (const RankError& error : errors) {
    list.push_back({{"rank", error.rank}, {"at_ps", error.at_ps}, {"class", error.error_class}, {"text", error.text}});
  }
  return list;
}

std::vector<RankError> errors_from_json(const nlohmann::json& list) {
  std::vector<RankError> errors;
  for (const auto& error : list)
    errors.push_back({error.at("rank"), error.at("at_ps"), error.at("text"), error.at("class")});
  return errors;
}

}  // namespace

std::optional<std::string> fault_folder() { return from_environment(kFaultFolderVariable); }

std::string point_file(const std::string& folder, const std::string& point) {
  std::string name = "point-" + point;
  std::replace(name.begin(), name.end(), ' ', '-');
  return folder + "/" + name;
}

std::string answer_file(const std::string& folder, const std::string& point) {
  return point_file(folder, point) + ".done";
}

void leave_errors(const std::string& folder, int rank, const std::vector<RankError>& errors) {
  write_text_file(fmt::format("{}/{}{}.json", folder, kErrorsPrefix, rank), json_text(errors_json(errors)));
}

std::vector<RankError> errors_left(const std::string& folder) {
  std::vector<RankError> errors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind(kErrorsPrefix, 0) != 0) continue;
    const auto found = errors_from_json(nlohmann::json::parse(read_text_file(entry.path().string())));
    errors.insert(errors.end(), found.begin(), found.end());
  }
  return errors;
}

}  // namespace meshbed::testbed
