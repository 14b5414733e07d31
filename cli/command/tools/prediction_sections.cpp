#include "cli/command/tools/prediction_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <system_error>

#include "models/gpu.h"
#include "testbed/base/checked_text.h"
#include "testbed/base/units.h"
#include "testbed/fidelity/exchange_file.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

constexpr double kPercentOfOne = 100;

models::ExchangeFabric fabric_of(const models::Machine& machine, const std::string& topology, int nodes) {
  if (topology.empty()) return models::exchange_fabric(machine, machine.cabling, nodes);
  if (const auto cabling = models::parse_cabling(topology)) return models::exchange_fabric(machine, *cabling, nodes);
  if (topology.find(".toml") == std::string::npos && topology.find('/') == std::string::npos) {
    throw std::runtime_error(
        fmt::format("--topology {}: it is switch, ring or mesh, or the path of a scenario file", topology));
  }
  const Result<models::ExchangeFabric> fabric =
      models::exchange_fabric(machine, read_scenario(topology, {}).cluster, nodes);
  if (!fabric) throw std::runtime_error(fmt::format("--topology {}: {}", topology, fabric.error().text));
  return *fabric;
}

/// What of a collective's time and interval is known of calls at once.
std::string at_once_basis(const models::ConcurrentTime& time) {
  const auto widest = std::max_element(
      time.calls.begin(), time.calls.end(), [](const models::ConcurrentCall& one, const models::ConcurrentCall& other) {
        return one.of_alone.high_us / one.alone.us < other.of_alone.high_us / other.alone.us;
      });
  const std::string own = models::basis_text(widest->of_alone);
  if (time.calls.size() == 1) return own;
  return fmt::format(
      "no file has calls at once: from perfect sharing ({:.2f} us) to one behind the other ({:.2f} us), "
      "with the calls' own intervals; {}",
      time.sharing_us, time.serial_us, own);
}

}  // namespace

document::Table part_table() {
  return {.key = "parts",
          .meaning = "what the time is made of",
          .columns = {document::text("name", "of the part"), document::number("us", "us", "that it takes")}};
}

void add_part(document::Section& section, const models::TimePart& part, double whole_us) {
  section.table("parts").add({part.name, part.us});
  constexpr double kShownLeast_us = 0.005;
  if (part.us < kShownLeast_us) return;
  section.line("    {:<20} {:>12.2f} us  {:>5.1f} %", part.name, part.us, kPercentOfOne * part.us / whole_us);
}

std::vector<document::Field> interval_fields() {
  using document::number;
  return {number("us", "us", "the prediction"), number("low_us", "us", "9 of 10 measurements lie from here"),
          number("high_us", "us", "to here"), document::text("basis", "of the interval")};
}

void explain_interval(document::Section& section, const models::Interval& interval, double us) {
  section.set("us", us);
  section.set("low_us", interval.low_us);
  section.set("high_us", interval.high_us);
  section.set("basis", models::basis_text(interval));
  section.line("  9 of 10 measurements lie between {:.2f} and {:.2f} us ({}), half within {:.1f} %", interval.low_us,
               interval.high_us, models::range_text(interval, us), kPercentOfOne * interval.half);
  section.line("  {} ({} points of {} files that were left out)", models::basis_text(interval), interval.left_out,
               interval.left_from);
}

document::Section matrix_section(const models::Machine& machine, const std::string& path, const std::string& topology) {
  using document::integer, document::number, document::text;
  const models::ExchangeMatrix matrix = read_exchange(path);
  const bool is_within = machine.transport == models::MachineTransport::kWithin;
  const int nodes = is_within ? 1 : models::nodes_of(machine, matrix.ranks);
  const models::ExchangeFabric fabric = fabric_of(machine, topology, nodes);
  const Result<models::ExchangeTime> predicted = models::exchange_time(machine, matrix, fabric);
  if (!predicted) throw std::runtime_error(fmt::format("--matrix {}: {}", path, predicted.error().text));
  const models::ExchangeTime& time = *predicted;
  document::Section section{.key = "exchange", .title = "Exchange"};
  section.with({text("matrix", "its file"), text("profile", "of the class"), text("topology", "what joins the nodes"),
                integer("ranks", "", "in all"), integer("nodes", "", "in all"),
                integer("bytes", "B", "of all messages to other ranks"),
                integer("between_nodes_bytes", "B", "of them, to other nodes"),
                text("as", "the call whose mechanisms hold"), integer("peers", "", "of the rank that has most"),
                integer("relays", "", "of the longest way"),
                document::flag("split", "over equal trunks, of which a hash of flows may use fewer"),
                text("busiest", "what carries its bytes the longest"), integer("busiest_bytes", "B", "that cross it"),
                integer("forwarded_bytes", "B", "of them, of other nodes' messages"),
                number("bound_us", "us", "no library takes less; null: none is known").or_null()});
  section.with(interval_fields());
  section.with(part_table());
  section.set("matrix", path);
  section.set("profile", machine.name);
  section.set("topology", topology.empty() ? fabric.name : topology);
  section.set("ranks", matrix.ranks);
  section.set("nodes", nodes);
  section.set("bytes", time.bytes);
  section.set("between_nodes_bytes", time.between_nodes);
  section.set("as", name_of(time.as.collective));
  section.set("peers", time.most_peers);
  section.set("relays", time.relays);
  section.set("split", time.split);
  section.set("busiest", time.busiest.what);
  section.set("busiest_bytes", time.busiest.bytes);
  section.set("forwarded_bytes", time.busiest.forwarded);
  section.set("bound_us", document::known_value(time.bound_us > 0, time.bound_us));
  section.line("{}: {} ranks on {}, {} bytes, {} of them to other nodes; profile {}, {}: {:.2f} us", path, matrix.ranks,
               nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes), time.bytes, time.between_nodes, machine.name,
               topology.empty() ? fabric.name : topology, time.us);
  for (const models::TimePart& part : time.parts) add_part(section, part, time.us);
  section.line("  bottleneck: {}, {} bytes{}", time.busiest.what, time.busiest.bytes,
               time.busiest.forwarded > 0 ? fmt::format(", {} of them forwarded", time.busiest.forwarded) : "");
  if (time.split)
    section.line("  assumed: bytes split evenly over equal trunks; a hash of flows may use fewer of them");
  if (time.bound_us > 0) section.line("  lower bound: {:.2f} us, by the adapters' line rates alone", time.bound_us);
  const bool is_own = topology.empty() || topology == name_of(machine.cabling);
  const auto standing = is_own ? models::Standing::kOwnClass : models::Standing::kNearClass;
  explain_interval(section, models::interval_of(machine, time, standing), time.us);
  return section;
}

std::vector<models::CollectiveCall> calls_at_once(const models::Machine& machine, const std::string& list,
                                                  std::uint64_t bytes, std::optional<int> ranks, int times) {
  std::vector<models::CollectiveCall> calls;
  constexpr std::size_t kMostCalls = 1024;
  for (int time = 0; time < times; ++time) {
    for (std::size_t begin = 0; begin != std::string::npos;) {
      const std::size_t end = list.find(',', begin);
      const std::string word = list.substr(begin, end == std::string::npos ? end : end - begin);
      const std::size_t mark = word.find(':');
      const std::string name = word.substr(0, mark);
      require_choice("--collective", "collective", name, models::collective_names());
      std::uint64_t size = bytes;
      if (mark != std::string::npos) {
        const Result<std::uint64_t> parsed = parse_size_bytes(word.substr(mark + 1));
        if (!parsed) {
          throw std::runtime_error(
              fmt::format("--collective {}: {}; give NAME:SIZE as all_reduce:48K", word, parsed.error().text));
        }
        size = *parsed;
      }
      calls.push_back(call_on(machine, *models::parse_collective(name), size, ranks));
      if (calls.size() > kMostCalls) {
        throw std::runtime_error(fmt::format("--at-once: more than {} calls; give fewer", kMostCalls));
      }
      begin = end == std::string::npos ? end : end + 1;
    }
  }
  return calls;
}

document::Section at_once_section(const models::Machine& machine, const models::ConcurrentTime& time) {
  using document::integer, document::number, document::text;
  document::Section section{.key = "at_once", .title = "At once"};
  section.with({text("profile", "of the class"), integer("ranks", "", "in all"), integer("nodes", "", "in all"),
                number("sharing_us", "us", "if starts overlap and wire and memory never idle"),
                number("serial_us", "us", "one call behind the other")});
  section.with(interval_fields());
  section.with(document::Table{
      .key = "calls",
      .meaning = "that start at once",
      .columns = {text("operation", "the collective").shown("operation", 16, "  ").left(),
                  integer("bytes", "B", "as nccl-tests counts them").shown("bytes", 12),
                  number("alone_us", "us", "without the others").shown("alone us", 12).rounded(2),
                  number("us", "us", "from the start of all to its end").shown("at once us", 12).rounded(2),
                  number("low_us", "us", "9 of 10 measurements lie from here").shown("from", 12).rounded(2),
                  number("high_us", "us", "to here").shown("to", 12).rounded(2)}});
  const models::CollectiveCall& first = time.calls.front().call;
  section.set("profile", machine.name);
  section.set("ranks", first.ranks);
  section.set("nodes", first.nodes);
  section.set("sharing_us", time.sharing_us);
  section.set("serial_us", time.serial_us);
  section.set("us", time.us);
  section.set("low_us", time.low_us);
  section.set("high_us", time.high_us);
  section.set("basis", at_once_basis(time));
  section.blank();
  section.line("  {} calls at once, {} ranks on {} nodes, profile {}: {:.2f} us until the last ends", time.calls.size(),
               first.ranks, first.nodes, machine.name, time.us);
  for (const models::ConcurrentCall& each : time.calls) {
    section.table("calls").add(
        {name_of(each.call.collective), each.call.bytes, each.alone.us, each.us, each.low_us, each.high_us});
  }
  constexpr std::size_t kShownCalls = 20;
  section.show("calls", kShownCalls);
  section.line("  9 of 10 measurements lie between {:.2f} and {:.2f} us", time.low_us, time.high_us);
  section.line("  {}", at_once_basis(time));
  return section;
}

double parse_overlap(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1)) {
    throw std::runtime_error(
        fmt::format("--overlap {}: give the share of computing that can run beside communication, 0 to 1", text));
  }
  return value;
}

int sms_of_gpu(const std::string& gpu) {
  const models::GpuModel* const model = models::find_gpu(gpu);
  if (model == nullptr) {
    throw std::runtime_error(
        fmt::format("--gpu {}: there is no such model; there are {}", gpu, fmt::join(models::gpu_names(), ", ")));
  }
  return model->sms;
}

document::Section overlap_section(const models::Machine& machine, const models::ConcurrentTime& time,
                                  const OverlapOptions& options) {
  using document::integer, document::number, document::text;
  const double compute_us = duration_us("--compute", options.compute);
  const double share = parse_overlap(options.share);
  const int sms = sms_of_gpu(options.gpu);
  models::HeldSms held{.expected = 0, .least = 0, .most = 0};
  for (const models::ConcurrentCall& each : time.calls) {
    const models::HeldSms its = models::held_sms(machine, each.call);
    held = {held.expected + its.expected, held.least + its.least, held.most + its.most};
  }
  if (!options.sms.empty()) {
    held.expected = held.least = held.most =
        static_cast<double>(parse_count("--sms", options.sms, 1, static_cast<std::uint64_t>(sms)));
  }
  for (double* count : {&held.expected, &held.least, &held.most}) *count = std::min<double>(*count, sms);
  const auto exposed = [&](double us, double count) {
    return models::exposed_us(us, {.compute_us = compute_us, .share = share, .held = count / sms});
  };
  const double us = exposed(time.us, held.expected);
  const double low_us = exposed(time.low_us, held.least), high_us = exposed(time.high_us, held.most);
  document::Section section{.key = "overlap", .title = "Overlap"};
  section.with({number("compute_us", "us", "without communication"),
                number("share", "", "of it, that can run beside communication"), text("gpu", "whose SMs are shared"),
                integer("sms", "", "of the GPU"), number("held_sms", "", "by the communication's kernels"),
                number("held_sms_least", "", "at least"), number("held_sms_most", "", "at most"),
                number("exposed_us", "us", "what communication adds to the computing"),
                number("exposed_low_us", "us", "from here"), number("exposed_high_us", "us", "to here"),
                number("step_us", "us", "computing and communication"), number("step_low_us", "us", "from here"),
                number("step_high_us", "us", "to here")});
  section.set("compute_us", compute_us);
  section.set("share", share);
  section.set("gpu", options.gpu);
  section.set("sms", sms);
  section.set("held_sms", held.expected);
  section.set("held_sms_least", held.least);
  section.set("held_sms_most", held.most);
  section.set("exposed_us", us);
  section.set("exposed_low_us", low_us);
  section.set("exposed_high_us", high_us);
  section.set("step_us", compute_us + us);
  section.set("step_low_us", compute_us + low_us);
  section.set("step_high_us", compute_us + high_us);
  section.blank();
  section.line(
      "  beside {:.2f} us of computing, of which {:g} % can overlap: {:.2f} us exposed ({:.2f} to {:.2f}), a "
      "step {:.2f} us ({:.2f} to {:.2f})",
      compute_us, kPercentOfOne * share, us, low_us, high_us, compute_us + us, compute_us + low_us,
      compute_us + high_us);
  section.line(
      "  assumed: the kernels hold {:g} of {} SMs of {} ({:g} to {:g}) while they communicate; memory is not "
      "slower",
      held.expected, sms, options.gpu, held.least, held.most);
  return section;
}

double duration_us(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit == "us" ? 1 : unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 0;
  if (error != std::errc() || scale == 0 || value <= 0 || value > 1e9) {
    throw std::runtime_error(fmt::format("{} {}: give a time as 20ms, 900us or 0.1s", option, text));
  }
  return value * scale;
}

}  // namespace meshbed::testbed
