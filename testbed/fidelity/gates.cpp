#include "testbed/fidelity/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "models/time/interval_table.h"

namespace meshbed::testbed {
namespace {

using Transport = models::MachineTransport;

/// Letters, digits and points of a text, in lower case; "gb/s" stays one word.
std::vector<std::string> header_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char letter : lower_case(text) + " ") {
    const bool is_part = std::isalnum(static_cast<unsigned char>(letter)) != 0 || (letter == '.' && !word.empty()) ||
                         (letter == '/' && word.size() >= 2 && word.compare(word.size() - 2, 2, "gb") == 0);
    if (is_part) {
      word += letter;
      continue;
    }
    while (!word.empty() && word.back() == '.') word.pop_back();
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  }
  return words;
}

bool has_any(const std::vector<std::string>& words, std::initializer_list<const char*> wanted) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const char* each) { return word == each; });
  });
}

bool has_text(const std::string& text, std::initializer_list<const char*> wanted) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const char* each) { return text.find(each) != std::string::npos; });
}

/// 8 of "8gpu" and "8gpus".
std::optional<int> gpus_of(const std::string& word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string unit(end, word.data() + word.size());
  constexpr int kMost = 1024;
  if (error != std::errc() || value < 1 || value > kMost || (unit != "gpu" && unit != "gpus")) return std::nullopt;
  return value;
}

struct Named {
  const char* word;
  double value;
};
/// One GPU's links to the others of its node, one direction, GB/s. Data sheets: NVLink 2 to 5, Infinity Fabric; AWS's
/// instances have eight H100 or H200.
constexpr std::array<Named, 19> kLinks{{{"gb300", 900},
                                        {"b300", 900},
                                        {"gb200", 900},
                                        {"b200", 900},
                                        {"gh200", 450},
                                        {"h200", 450},
                                        {"h100", 450},
                                        {"h800", 200},
                                        {"h20", 450},
                                        {"a100", 300},
                                        {"a800", 200},
                                        {"v100", 150},
                                        {"mi355x", 537.6},
                                        {"mi350x", 537.6},
                                        {"mi325x", 448},
                                        {"mi308x", 448},
                                        {"mi300x", 448},
                                        {"p5en", 450},
                                        {"p5.48xlarge", 450}}};

/// Generations of PCIe by GPU, payload of x16 in GB/s as NCCL and the profiles have it.
constexpr double kPcie3GBps = 13.1, kPcie4GBps = 26.2, kPcie5GBps = 52.4;
constexpr std::array<Named, 26> kPcieGpus{
    {{"6000", kPcie5GBps}, {"5090", kPcie5GBps}, {"5080", kPcie5GBps},  {"b40", kPcie5GBps},   {"r9700", kPcie5GBps},
     {"h100", kPcie5GBps}, {"l4", kPcie4GBps},   {"l40", kPcie4GBps},   {"l40s", kPcie4GBps},  {"4090", kPcie4GBps},
     {"4080", kPcie4GBps}, {"3090", kPcie4GBps}, {"a6000", kPcie4GBps}, {"a5000", kPcie4GBps}, {"a4000", kPcie4GBps},
     {"a40", kPcie4GBps},  {"a10", kPcie4GBps},  {"a10g", kPcie4GBps},  {"a30", kPcie4GBps},   {"a100", kPcie4GBps},
     {"t4", kPcie3GBps},   {"p100", kPcie3GBps}, {"v100", kPcie3GBps},  {"2080", kPcie3GBps},  {"1080", kPcie3GBps},
     {"mi50", kPcie3GBps}}};

template <std::size_t N>
const Named* find_named(const std::array<Named, N>& all, const std::vector<std::string>& words) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& each) { return has_any(words, {each.word}); });
  return found == all.end() ? nullptr : &*found;
}

template <std::size_t N>
std::optional<double> named(const std::array<Named, N>& all, const std::vector<std::string>& words) {
  const Named* const found = find_named(all, words);
  return found == nullptr ? std::nullopt : std::optional(found->value);
}

std::string library_of(const MeasuredFile& file, const MeasuredRow& row) {
  const std::string test = lower_case(row.collective), variant = lower_case(row.variant);
  if (row.point.is_message) {
    if (test.rfind("ib_", 0) == 0 || test.rfind("raw_", 0) == 0) return "perftest";
    if (test.rfind("osu_", 0) == 0) return "osu";
    if (test.rfind("ucp_", 0) == 0 || test.rfind("uct_", 0) == 0) return "ucx";
    return "rdma";
  }
  if (test.rfind("osu_", 0) == 0 || test.rfind("mpi_", 0) == 0) return "mpi";
  if (has_text(variant, {"oneshot", "one_shot", "one-shot", "twoshot", "lsa"})) return "oneshot";
  if (has_text(variant, {"mscclpp", "msccl++"})) return "mscclpp";
  if (has_text(variant, {"sircl"})) return "sircl";
  if (has_text(variant, {"nccl", "rccl"})) return "nccl";
  if (has_text(variant, {"mpi"})) return "mpi";
  const std::string set_up = lower_case(file.set_up);
  if (has_text(set_up, {"sircl"})) return "sircl";
  if (has_text(set_up, {"msccl++", "mscclpp"})) return "mscclpp";
  if (has_text(set_up, {"nccl", "rccl", "_perf"})) return "nccl";
  if (has_text(set_up, {"one-shot", "oneshot"})) return "oneshot";
  if (has_text(set_up, {"osu_", "open mpi", "mpich", "mvapich"})) return "mpi";
  return "nccl";
}

/// The interconnect of the GPUs within one node. Empty: not stated.
std::string link_of(const std::string& text) {
  if (has_text(text, {"xgmi", "infinity fabric"})) return "xGMI";
  if (has_text(text, {"no nvlink"}) || !has_text(text, {"nvlink", "nvswitch", "nvl72", "nvl4"})) {
    if (!has_text(text, {"pcie"})) return "";
    return has_text(text, {"no p2p", "no peer-to-peer", "p2p off", "p2p_disable=1"}) ? "PCIe without peer-to-peer"
                                                                                     : "PCIe";
  }
  return "NVLink";
}

std::string plugin_of(const std::string& text) { return has_text(text, {"tcpxo"}) ? "TCPXO" : "TCPX"; }

Transport transport_of(const std::string& own_class, const std::vector<std::string>& words, bool is_class) {
  if (has_any(words, {"slingshot", "cxi"})) return Transport::kSlingshot;
  if (has_any(words, {"efa"}) || has_text(own_class, {"aws-ofi-nccl"})) return Transport::kEfa;
  if (has_any(words, {"tcpx", "tcpxo"})) return Transport::kTcpx;
  // A set-up may also state the sockets of a host: "two sockets".
  if (has_any(words, {"tcp"}) || has_text(own_class, {"net/socket", "ib_disable=1"}) ||
      (is_class && has_any(words, {"socket", "sockets"}))) {
    return Transport::kTcp;
  }
  if (has_any(words, {"gb10", "spark", "strix"})) return Transport::kUnified;
  if (has_any(words, {"roce", "rocev2", "ib", "infiniband", "rdma", "mlx5", "bnxt", "thor2", "direct", "switchless",
                      "mesh", "triangle", "xdr", "ndr", "hdr", "edr"})) {
    return Transport::kVerbs;
  }
  return Transport::kNone;
}

bool is_staged(const std::string& text) {
  return has_text(text, {"host-staged", "host staging", "staged in host", "no gpudirect", "without gpudirect", "nogdr",
                         "gdr_level=0", "gdr_level 0", "gpudirect rdma disabled", "gpudirect disabled"});
}

bool is_replayed(const std::string& text) { return has_text(text, {"cuda graph", "hip graph", "graph replay"}); }

bool is_listed(const std::string& text) { return has_text(text, {"post list", "post_list", "in lists"}); }

models::Cabling cabling_of(const std::vector<std::string>& words, int nodes) {
  if (has_any(words, {"triangle", "mesh"})) return models::Cabling::kMesh;
  if (has_any(words, {"switchless", "ring"})) return nodes > 2 ? models::Cabling::kRing : models::Cabling::kMesh;
  if (has_any(words, {"direct"}) && nodes == 2) return models::Cabling::kMesh;
  return models::Cabling::kSwitch;
}

bool is_one_node(const MeasuredFile& file, const MeasuredRow& row, const std::string& own_class) {
  if (row.point.is_message) return false;
  if (has_text(own_class, {"no nic", "nvl72", "one node", "single node"})) return true;
  if (!row.nodes_are_known) return has_text(own_class, {"1 node,"}) || own_class == "1 node";
  return row.point.call.nodes == 1 && !file.rows.empty();
}

}  // namespace

std::optional<GpuLinks> links_of_gpu(const std::string& text) {
  const Named* const found = find_named(kLinks, header_words(text));
  return found == nullptr ? std::nullopt : std::optional(GpuLinks{.gpu = found->word, .GBps = found->value});
}

std::string Gates::text() const {
  const bool within = transport == Transport::kWithin;
  std::string all = within ? link + ", one node"
                           : std::string(transport == Transport::kMessage ? "single messages" : name_of(transport)) +
                                 (transport == Transport::kMessage ? "" : ", several nodes");
  if (!plugin.empty()) all += ", " + plugin;
  if (!within && cabling != models::Cabling::kSwitch) all += std::string(", ") + name_of(cabling);
  all += ", " + library;
  if (within && link_GBps) all += fmt::format(", {:g} GB/s a GPU", *link_GBps);
  if (!within) all += gbits ? fmt::format(", {:g} Gb/s a node", *gbits) : ", rate not stated";
  return all;
}

Gates gates_of(const MeasuredFile& file, const MeasuredRow& row) {
  Gates gates;
  const std::string own_class = lower_case(file.topology_class), set_up = lower_case(file.set_up);
  const std::vector<std::string> class_words = header_words(file.topology_class),
                                 set_up_words = header_words(file.set_up);
  gates.library = library_of(file, row);
  for (const std::string& word : class_words) {
    if (const auto gpus = gpus_of(word); gpus && gates.ranks_per_node == 1) gates.ranks_per_node = *gpus;
  }
  const bool states_gpus = std::any_of(class_words.begin(), class_words.end(),
                                       [](const std::string& word) { return gpus_of(word).has_value(); });
  for (const MeasuredRow& each : file.rows) {
    if (states_gpus || each.point.is_message) break;
    gates.ranks_per_node =
        std::max(gates.ranks_per_node, (each.point.call.ranks + each.point.call.nodes - 1) / each.point.call.nodes);
  }
  if (file.rate) {
    const bool each_gpu = file.rate->one_per_gpu && gates.ranks_per_node > 1;
    const double adapters = each_gpu ? gates.ranks_per_node : file.rate->adapters;
    gates.gbits = adapters * file.rate->each_GBps * kGbitsOfGByte;
    if (adapters > 1 || file.rate->counted) gates.adapters = adapters;
  }
  gates.is_infiniband = has_any(class_words, {"ib", "infiniband"}) ||
                        (has_any(set_up_words, {"ib", "infiniband"}) && !has_any(set_up_words, {"roce", "rocev2"}));
  if (row.point.is_message) {
    gates.transport = Transport::kMessage;
    gates.is_listed = is_listed(set_up);
    return gates;
  }
  if (is_one_node(file, row, own_class)) {
    gates.transport = Transport::kWithin;
    gates.is_replayed = is_replayed(set_up + " " + lower_case(row.variant));
    gates.link = link_of(own_class);
    if (gates.link.empty() || gates.link == "PCIe") {
      const std::string more = link_of(own_class + " " + set_up);
      if (gates.link.empty() || more == "PCIe without peer-to-peer") gates.link = more;
    }
    const bool is_pcie = gates.link.rfind("PCIe", 0) == 0;
    const std::string all = own_class + " " + set_up;
    if (is_pcie && has_text(all, {"pcie 5", "pcie gen5", "gen5", "pcie5"})) gates.link_GBps = kPcie5GBps;
    if (is_pcie && !gates.link_GBps && has_text(all, {"pcie 4", "pcie gen4", "gen4", "pcie4"}))
      gates.link_GBps = kPcie4GBps;
    if (is_pcie && !gates.link_GBps && has_text(all, {"pcie 3", "pcie gen3", "gen3", "pcie3"}))
      gates.link_GBps = kPcie3GBps;
    std::vector<std::string> all_words = class_words;
    all_words.insert(all_words.end(), set_up_words.begin(), set_up_words.end());
    if (!gates.link_GBps) gates.link_GBps = is_pcie ? named(kPcieGpus, all_words) : named(kLinks, all_words);
    return gates;
  }
  const bool is_slingshot = has_any(set_up_words, {"slingshot", "cxi"});
  gates.transport = is_slingshot ? Transport::kSlingshot : transport_of(own_class, class_words, true);
  const Transport by_set_up = transport_of(set_up, set_up_words, false);
  if (gates.transport == Transport::kNone) gates.transport = by_set_up;
  if (gates.transport == Transport::kTcpx) gates.plugin = plugin_of(own_class + " " + set_up);
  if (gates.transport == Transport::kNone && gates.gbits) gates.transport = Transport::kVerbs;
  if (gates.transport == Transport::kVerbs && by_set_up == Transport::kUnified) gates.transport = Transport::kUnified;
  if (gates.transport == Transport::kVerbs && is_staged(own_class + " " + set_up)) gates.transport = Transport::kStaged;
  gates.is_copied = gates.transport == Transport::kEfa && is_staged(own_class + " " + set_up);
  gates.cabling = cabling_of(class_words, row.point.call.nodes);
  // Kernels that post work requests themselves, or through a thread.
  if (gates.library == "oneshot" || gates.library == "sircl" || gates.library == "mscclpp") {
    gates.transport = Transport::kKernel;
  }
  std::vector<std::string> all_words = class_words;
  all_words.insert(all_words.end(), set_up_words.begin(), set_up_words.end());
  if (gates.ranks_per_node > 1) gates.link = link_of(own_class + " " + set_up);
  gates.link_GBps = gates.link.rfind("PCIe", 0) == 0 ? named(kPcieGpus, all_words) : named(kLinks, all_words);
  return gates;
}

Gates gates_of(const models::Machine& machine) {
  using Parameter = models::MachineParameter;
  Gates gates;
  std::string text = lower_case(machine.description);
  for (const std::string& each : machine.classes) text += " " + lower_case(each);
  gates.transport = machine.transport;
  gates.cabling = machine.cabling;
  const bool is_message = machine.transport == Transport::kMessage;
  gates.library = !machine.library.empty() ? machine.library : is_message ? "perftest" : "nccl";
  gates.ranks_per_node = machine.ranks_per_node;
  gates.is_listed = is_message && is_listed(text);
  if (machine.transport == Transport::kTcpx) gates.plugin = plugin_of(text);
  if (machine.transport == Transport::kWithin || machine.ranks_per_node > 1) gates.link = link_of(text);
  if (machine.transport == Transport::kWithin) {
    gates.is_replayed = is_replayed(text);
    const std::vector<std::string> words = header_words(text);
    gates.link_GBps = gates.link.rfind("PCIe", 0) == 0 ? named(kPcieGpus, words) : named(kLinks, words);
    if (!gates.link_GBps) gates.link_GBps = machine[Parameter::kIntraGBps];
    return gates;
  }
  if (machine.ranks_per_node > 1) gates.link_GBps = named(kLinks, header_words(text));
  gates.adapters = machine[Parameter::kNics];
  gates.gbits = *gates.adapters * machine[Parameter::kNicGBps] * kGbitsOfGByte;
  return gates;
}

bool is_near(const Gates& wanted, const Gates& has) {
  constexpr double kRates = 1.26, kRanks = 2.001;
  const auto far = [](std::optional<double> one, std::optional<double> two, double factor) {
    return one && two && std::max(*one / *two, *two / *one) > factor;
  };
  return !far(wanted.gbits, has.gbits, kRates) && !far(wanted.link_GBps, has.link_GBps, kRates) &&
         !far(wanted.ranks_per_node, has.ranks_per_node, kRanks);
}

std::string gate_failure(const Gates& wanted, const Gates& has) {
  constexpr double kFactor = 2.001;
  const auto far = [&](double one, double two) { return std::max(one / two, two / one) > kFactor; };
  if (wanted.transport != has.transport) {
    const bool within = wanted.transport == Transport::kWithin, its_within = has.transport == Transport::kWithin;
    if (within != its_within) return within ? "of several nodes, not of one" : "of one node, not of several";
    return fmt::format("of transport {}, not {}", name_of(has.transport), name_of(wanted.transport));
  }
  if (wanted.plugin != has.plugin) return fmt::format("of {}, not {}", has.plugin, wanted.plugin);
  if (wanted.library != has.library) return fmt::format("of {}, not {}", has.library, wanted.library);
  if (wanted.transport == Transport::kWithin) {
    if (wanted.link != has.link)
      return fmt::format("of {}, not {}", has.link, wanted.link.empty() ? "an unstated link" : wanted.link);
    if (wanted.is_replayed != has.is_replayed) {
      return has.is_replayed ? "of calls in a CUDA graph" : "of calls that are launched one by one";
    }
    if (wanted.link_GBps && has.link_GBps && far(*wanted.link_GBps, *has.link_GBps)) {
      return fmt::format("of {:g} GB/s a GPU, not {:g}", *has.link_GBps, *wanted.link_GBps);
    }
    return "";
  }
  if (wanted.is_listed != has.is_listed) {
    return has.is_listed ? "of messages posted in lists" : "of messages posted one by one";
  }
  if (wanted.cabling != has.cabling) {
    return fmt::format("of cabling {}, not {}", name_of(has.cabling), name_of(wanted.cabling));
  }
  if ((wanted.ranks_per_node > 1) != (has.ranks_per_node > 1)) {
    return has.ranks_per_node > 1 ? "of several GPUs a node" : "of one GPU a node";
  }
  if (wanted.ranks_per_node > 1 && !wanted.link.empty() && !has.link.empty() && wanted.link != has.link) {
    return fmt::format("of {} within a node, not {}", has.link, wanted.link);
  }
  if (wanted.gbits && has.gbits && far(*wanted.gbits, *has.gbits)) {
    return fmt::format("of {:g} Gb/s a node, not {:g}", *has.gbits, *wanted.gbits);
  }
  return "";
}

}  // namespace meshbed::testbed
