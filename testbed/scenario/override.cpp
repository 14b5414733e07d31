#include "testbed/scenario/override.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "models/toml_keys.h"
#include "testbed/scenario/characters.h"

namespace meshbed::testbed {
namespace {

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> keys{""};
  for (const char letter : path) {
    if (letter == '.') {
      keys.emplace_back();
    } else {
      keys.back() += letter;
    }
  }
  return keys;
}

std::optional<std::size_t> index_of(const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return index;
}

/// Parses "value = TEXT"; a table with exactly that key, or nothing where TEXT is not a TOML value.
std::optional<toml::table> parse_value(const std::string& text, const std::string& source) {
  if (text.find_first_of("\r\n") != std::string::npos || misplaced_character(text)) return std::nullopt;
  if (models::overlong_key(text)) return std::nullopt;
  try {
    return toml::parse("value = " + text, std::string(source));
  } catch (const toml::parse_error&) {
    return std::nullopt;  // not an error: a bare word such as 64M
  }
}

/// `text` as TOML, or where it is none as text.
void insert_value(toml::table& table, const std::string& key, const std::string& text, const std::string& source) {
  if (auto parsed = parse_value(text, source); parsed && parsed->size() == 1 && parsed->contains("value")) {
    table.insert_or_assign(key, std::move(*parsed->get("value")));
    return;
  }
  // It takes its place from an empty text that the parser made.
  auto parsed = parse_value("''", source);
  parsed->get("value")->as_string()->get() = text;
  table.insert_or_assign(key, std::move(*parsed->get("value")));
}

/// What identifies an entry of a list of tables; nullptr where only its index does.
const char* identity_key(const std::string& list) {
  if (list == "nic") return "device";
  return list == "node" || list == "pcie" || list == "bond" || list == "cable" || list == "switch" || list == "router"
             ? "name"
             : nullptr;
}

std::string index_hint(const std::string& list, std::size_t entries) {
  const std::string count =
      fmt::format("'{}' has {} {} in the file; count from 0", list, entries, entries == 1 ? "entry" : "entries");
  return identity_key(list) == nullptr ? count : count + ", or use an entry's name";
}

/// The entry of a list at an index or, of tables, with a name; nullptr: there is none.
toml::node* find_entry(toml::array& list, const std::string& list_name, const std::string& key) {
  if (const auto index = index_of(key)) return list.get(*index);
  const char* identity = identity_key(list_name);
  for (auto& element : list) {
    const toml::table* entry = identity == nullptr ? nullptr : element.as_table();
    const toml::node* name = entry == nullptr ? nullptr : entry->get(identity);
    if (name != nullptr && name->is_string() && name->as_string()->get() == key) return &element;
  }
  return nullptr;
}

/// One step into a list of tables, by index or name; `is_new`: the list had no entry of that name, and has one now.
/// nullptr: refused, with the reason in `problem`.
toml::table* enter(toml::array& list, const std::string& list_name, const std::string& key, const Place& place,
                   bool& is_new, std::string& problem) {
  is_new = false;
  if (toml::node* entry = find_entry(list, list_name, key); entry != nullptr && entry->is_table()) {
    return entry->as_table();
  }
  const char* identity = identity_key(list_name);
  if (index_of(key) || identity == nullptr) {
    problem = index_hint(list_name, list.size());
    return nullptr;
  }
  // Through the parser, so that the new entry and its name carry the --set as their place.
  auto added = parse_value(fmt::format("{{ {} = '{}' }}", identity, key), *place.path);
  if (!added || key.find('\'') != std::string::npos) {
    problem = fmt::format("'{}' cannot be a name", key);
    return nullptr;
  }
  is_new = true;
  list.push_back(std::move(*added->get("value")));
  return list.get(list.size() - 1)->as_table();
}

/// The name of the table that a list lies in, as of [[node]] around its NICs.
std::string name_of(const toml::table& table) {
  const toml::node* name = table.get("name");
  return name != nullptr && name->is_string() ? name->as_string()->get() : "";
}

/// Sections that are lists of tables even where the file has none.
bool is_list(const std::string& key) {
  return key == "node" || key == "nic" || key == "pcie" || key == "bond" || key == "cable" || key == "switch" ||
         key == "router" || key == "fault";
}

constexpr std::string_view kFaultKey = "fault.+=";

/// `text`: "cable_down,target=node0-node1,at=2ms".
void append_fault(toml::table& root, const std::string& text, Diagnostics& diagnostics) {
  const std::string source = kFaultPrefix + text;
  const Place place{{}, {}, std::make_shared<const std::string>(source)};
  if (!root.contains("fault")) root.insert("fault", std::move(*parse_value("[]", source)->get("value")));
  toml::array* const list = root.get("fault")->as_array();
  if (list == nullptr) return;  // refused when the file is read
  auto parsed = parse_value("{}", source);
  toml::table& fault = *parsed->get("value")->as_table();
  std::size_t begin = 0;
  for (bool first = true; begin <= text.size(); first = false) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    begin = comma + 1;
    const std::size_t equals = item.find('=');
    if (first && equals == std::string::npos && !item.empty()) {
      insert_value(fault, "kind", item, source);
      continue;
    }
    if (first || equals == std::string::npos || equals == 0) {
      return diagnostics.add(place, fmt::format("'{}': write KIND,KEY=VALUE,..., as in {}", item.substr(0, 40),
                                                "cable_down,target=node0-node1,at=2ms"));
    }
    const std::string key = item.substr(0, equals);
    if (fault.contains(key)) return diagnostics.add(place, fmt::format("'{}' is given twice", key.substr(0, 40)));
    insert_value(fault, key, item.substr(equals + 1), source);
  }
  list->push_back(std::move(fault));
}

}  // namespace

std::string fault_override(const std::string& argument) { return std::string(kFaultKey) + argument; }

void apply_override(toml::table& root, const std::string& argument, std::vector<GeneratedName>& generated,
                    Diagnostics& diagnostics) {
  if (argument.rfind(kFaultKey, 0) == 0) return append_fault(root, argument.substr(kFaultKey.size()), diagnostics);
  const std::string source = kOverridePrefix + argument;
  const Place place{{}, {}, std::make_shared<const std::string>(source)};
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return diagnostics.add(place, "expects SECTION.KEY=VALUE, as in workload.bytes=64M");
  }
  const auto keys = split_path(argument.substr(0, equals));
  if (keys.size() > models::kKeyPartsMax) {
    return diagnostics.add(place,
                           fmt::format("the key has {} parts; no key of a scenario has more than 5", keys.size()));
  }
  for (const auto& key : keys) {
    if (key.empty()) return diagnostics.add(place, "has an empty key; write SECTION.KEY=VALUE");
  }
  toml::table* at = &root;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    if (!at->contains(keys[i])) {
      auto empty = parse_value(is_list(keys[i]) ? "[]" : "{}", source);
      at->insert(keys[i], std::move(*empty->get("value")));
    }
    toml::node* next = at->get(keys[i]);
    if (toml::array* list = next->as_array(); list != nullptr && i + 2 < keys.size()) {
      std::string problem;
      bool is_new = false;
      next = enter(*list, keys[i], keys[i + 1], place, is_new, problem);
      if (next == nullptr) return diagnostics.add(place, problem);
      if (is_new) generated.push_back({keys[i], name_of(*at), keys[i + 1], place});
      ++i;
    }
    at = next->as_table();
    if (at == nullptr) return diagnostics.add(place, fmt::format("'{}' is not a section", keys[i]));
  }
  insert_value(*at, keys.back(), argument.substr(equals + 1), source);
}

const toml::node* find_value(toml::table& root, const std::string& key) {
  toml::node* at = &root;
  std::string list;
  for (const std::string& part : split_path(key)) {
    if (toml::array* entries = at->as_array()) {
      at = find_entry(*entries, list, part);
    } else {
      toml::table* section = at->as_table();
      at = section == nullptr ? nullptr : section->get(part);
      list = part;
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

}  // namespace meshbed::testbed
