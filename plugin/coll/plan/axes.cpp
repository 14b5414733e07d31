#include "plugin/coll/plan/axes.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "plugin/base/counted.h"

namespace meshbed::coll {
namespace {

Error invalid_axes(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kRequest, std::move(text)}; }

/// What stands before the next comma, which goes as well.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(','), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

Result<Grid> Grid::parse(std::string_view text, int world) {
  Grid grid;
  const std::string quoted = "mesh \"" + std::string(text) + "\"";
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid_axes(quoted + ": \"" + std::string(word) + "\" is not of the form name=size, as in \"dp=2,tp=4\"");
    }
    Axis axis{.name = std::string(word.substr(0, equals)), .size = 0};
    const std::string_view size = word.substr(equals + 1);
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), axis.size);
    if (error != std::errc() || end != size.data() + size.size() || axis.size < 1) {
      return invalid_axes(quoted + ": the size of " + axis.name + " is \"" + std::string(size) + "\", not 1 or more");
    }
    const auto is_same = [&](const Axis& other) { return other.name == axis.name; };
    if (std::any_of(grid.axes_.begin(), grid.axes_.end(), is_same)) {
      return invalid_axes(quoted + " has two axes called " + axis.name);
    }
    if (axis.size > world / grid.ranks_) {
      return invalid_axes(quoted + " has more ranks than the world's " + std::to_string(world));
    }
    grid.ranks_ *= axis.size;
    grid.axes_.push_back(std::move(axis));
  }
  if (world % grid.ranks_ != 0) {
    return invalid_axes(quoted + " has " + counted(grid.ranks_, "rank") + ", of which the world's " +
                        std::to_string(world) + " are no multiple");
  }
  return grid;
}

Result<std::vector<int>> Grid::group_of(int rank, std::string_view axes) const {
  std::vector<bool> along(axes_.size(), false);
  while (!axes.empty()) {
    const std::string_view name = take_word(axes);
    const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& axis) { return axis.name == name; });
    if (found == axes_.end()) {
      std::string known;
      for (const Axis& axis : axes_) known += (known.empty() ? "" : ", ") + axis.name;
      return invalid_axes("there is no axis \"" + std::string(name) + "\"; the mesh has " +
                          (known.empty() ? "none" : known));
    }
    const auto index = static_cast<std::size_t>(found - axes_.begin());
    if (along[index]) return invalid_axes("axis " + found->name + " is given twice");
    along[index] = true;
  }
  if (is_spare(rank)) return std::vector<int>{};
  // From the slowest axis on: each one that the group is over multiplies its members.
  std::vector<int> members{0};
  int stride = ranks_;
  for (std::size_t index = 0; index < axes_.size(); ++index) {
    const int size = axes_[index].size;
    stride /= size;
    const int own = rank / stride % size;
    std::vector<int> next;
    for (const int member : members) {
      for (int at = 0; at < size; ++at) {
        if (along[index] || at == own) next.push_back(member + at * stride);
      }
    }
    members = std::move(next);
  }
  return members;
}

}  // namespace meshbed::coll
