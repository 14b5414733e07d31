// meshbed models: the existing profiles, and the contents of one.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/command/commands.h"
#include "cli/command/tools/decode_options.h"
#include "cli/command/tools/prediction_sections.h"
#include "cli/common/document_output.h"
#include "models/queue.h"
#include "models/time/collective_time.h"
#include "models/time/interval.h"
#include "models/time/message_time.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/units.h"
#include "testbed/fidelity/decode_step.h"
#include "testbed/fidelity/expert_rows.h"
#include "testbed/fidelity/nearest_expert.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

std::string range_text(const models::Value& value, const models::ParameterInfo& info) {
  if (value.range) return fmt::format("{:g} to {:g}", value.range->first, value.range->second);
  return fmt::format("({:g} to {:g})", info.low, info.high);
}

document::Table machine_values() {
  using document::in_text, document::text;
  return {.key = "values",
          .meaning = "of the profile's parameters",
          .columns = {text("name", "of the parameter").shown("value", 22, "  ").left(),
                      document::number("value", "", "in the unit that its meaning names"), in_text(" ", 11),
                      text("basis", "where it comes from").shown("basis", 13, "  ").left(),
                      text("range", "possible, or (plausible)").shown("range (plausible)", 20).left(),
                      text("source", "what it is; source").shown("what it is; source", 0).left()}};
}

void explain_values(const models::Machine& machine, bool with_defaults, document::Document& document) {
  using document::text, document::texts;
  const auto list = [](const std::vector<std::string>& texts) {
    return texts.empty() ? std::string("-") : fmt::format("{}", fmt::join(texts, "; "));
  };
  document::Section section{.title = "Values"};
  section.with({text("profile", "its name"), text("description", "of its class of machines"),
                text("cabling", "switch, ring or mesh"), document::integer("ranks_per_node", "", "of its class"),
                text("transport", "between nodes, or within one"), texts("classes", "of measured files that it is of"),
                texts("fitted_on", "files that its calibrated values come from")});
  section.set("profile", machine.name);
  section.set("description", machine.description);
  section.set("cabling", name_of(machine.cabling));
  section.set("ranks_per_node", machine.ranks_per_node);
  section.set("transport", name_of(machine.transport));
  section.set("classes", machine.classes);
  section.set("fitted_on", machine.fitted_on);
  section.with(machine_values());
  section.line("{}: {}", machine.name, machine.description);
  section.line("  cabling     {}, {} ranks a node, transport {}", name_of(machine.cabling), machine.ranks_per_node,
               name_of(machine.transport));
  section.line("  classes     {}", list(machine.classes));
  section.line("  fitted on   {}", list(machine.fitted_on));
  section.blank();
  section.show("values");
  const std::string fitted_on = fmt::format("{}", fmt::join(machine.fitted_on, ", "));
  std::size_t silent = 0;
  for (std::size_t index = 0; index < models::kParameters; ++index) {
    const bool is_default = !machine.values.at(index);
    if (is_default && !with_defaults) {
      ++silent;
      continue;
    }
    const auto parameter = static_cast<models::MachineParameter>(index);
    const models::ParameterInfo& info = models::info_of(parameter);
    const models::Value value = machine.value_of(parameter);
    const bool is_fitted = value.basis == models::Basis::kCalibrated && value.source == fitted_on;
    section.table("values").add(
        {info.name, value.value, fmt::format("{:g}", value.value), name_of(value.basis), range_text(value, info),
         fmt::format("{}; {}{}", info.meaning, is_fitted ? "the files it was fitted on" : value.source,
                     is_default ? " (default)" : "")});
  }
  if (silent > 0) section.line("  and {} defaults; --all shows them", silent);
  document.sections.push_back(std::move(section));
}

/// Of a profile that is no class of machines: its values, which other models read.
void list_values(const models::Profile& profile, document::Document& document) {
  using document::in_text, document::text;
  document::Section section{.title = "Values"};
  section.with({text("profile", "its name"), text("description", "its own")});
  section.set("profile", profile.name());
  section.set("description", profile.description());
  section.with(document::Table{
      .key = "values",
      .meaning = "of the profile",
      .columns = {text("name", "of the value").shown(" ", 22, "  ").left(), document::number("value", "", "in `unit`"),
                  in_text(" ", 11), text("unit", "of the value").shown(" ", 5).left(),
                  text("basis", "where it comes from").shown(" ", 13).left(),
                  text("range", "that is possible; empty: none is known").shown(" ", 20).left(),
                  text("source", "of the value").shown(" ", 0).left()}});
  section.line("{}: {}", profile.name(), profile.description());
  section.blank();
  section.show_rows("values");
  for (const auto& [name, value] : profile.parameters()) {
    const bool has_range = value.range.first != value.range.second;
    section.table("values").add({name, value.value, fmt::format("{:g}", value.value), value.unit, name_of(value.basis),
                                 has_range ? fmt::format("{:g} to {:g}", value.range.first, value.range.second) : "",
                                 value.source});
  }
  document.sections.push_back(std::move(section));
}

void list_profiles(document::Document& document) {
  using document::text;
  document::Section section{.title = "Profiles"};
  section.with(document::Table{.key = "profiles",
                               .meaning = "that are shipped",
                               .columns = {text("name", "of the profile").shown(" ", 24, "").left(),
                                           text("description", "its own").shown(" ", 0).left()}});
  section.show_rows("profiles");
  for (const models::Profile& profile : shipped_profiles()) {
    section.table("profiles").add({profile.name(), profile.description()});
  }
  document.sections.push_back(std::move(section));
}

double us_of(Picoseconds time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerMicrosecond);
}

document::Section collective_section(const models::Machine& machine, const models::CollectiveCall& call);

/// Of a profile of device rings: a slot's and a message's way, and a one-shot exchange as the class of such exchanges
/// has it. Nothing where it is of something else.
void explain_rings(const models::Profile& profile, models::Collective collective, std::uint64_t bytes, int ranks,
                   document::Document& document) {
  const auto queue = models::queue_model(profile);
  const auto nic_GBps = profile.value("nic_rate", "GB/s");
  if (!queue || !nic_GBps) return;
  constexpr std::uint64_t kDepth = 64;
  const models::Wire wire{.bytes_per_second = *nic_GBps * 1e9};
  using document::number;
  const double slot_us = us_of(queue->publish_ps + models::slot_ps(*queue));
  const double message_us = us_of(models::message_ps(*queue, wire, bytes));
  const double slots_per_s = models::slots_per_second(*queue, wire, bytes, kDepth);
  document::Section section{.key = "rings", .title = "Rings"};
  section.with({number("slot_us", "us", "from a slot's publication to its first instruction"),
                number("message_us", "us", "from SIGNAL to WAIT, without the wire's latency"),
                number("slots_per_s", "1/s", "at most, of a ring of 64 slots with such a message each")});
  section.set("slot_us", slot_us);
  section.set("message_us", message_us);
  section.set("slots_per_s", slots_per_s);
  section.blank();
  section.line(
      "  a slot, from its publication to its first instruction: {:.2f} us; a message of {} bytes, from SIGNAL to WAIT: "
      "{:.2f} us without the wire's latency",
      slot_us, bytes, message_us);
  section.line("  a ring of {} slots, each with such a message: {:.0f} slots/s at most", kDepth, slots_per_s);
  if (collective != models::Collective::kAllReduce && collective != models::Collective::kAllGather) {
    throw std::runtime_error(
        fmt::format("--collective {}: a one-shot exchange is all_reduce or all_gather", name_of(collective)));
  }
  if (ranks != 2 && ranks != 4) {
    throw std::runtime_error(
        fmt::format("--ranks {}: one-shot exchanges are known of a pair and of a ring of 4", ranks));
  }
  // One mechanism: whole exchanges are predicted from the class that was fitted to them.
  for (const models::Machine& machine : shipped_machines()) {
    const auto cabling = ranks == 2 ? models::Cabling::kMesh : models::Cabling::kRing;
    if (!is_one_shot(machine) || machine.cabling != cabling) continue;
    section.blank();
    section.line("  one-shot, by profile {}:", machine.name);
    document.sections.push_back(std::move(section));
    document::Section exchange = collective_section(machine, {.collective = collective,
                                                              .ranks = ranks,
                                                              .nodes = ranks,
                                                              .bytes = bytes,
                                                              .algorithm = models::CollectiveAlgorithm::kDirect});
    exchange.blocks.erase(exchange.blocks.begin());  // the blank line
    document.sections.push_back(std::move(exchange));
    return;
  }
  document.sections.push_back(std::move(section));
}

/// --mode, --tokens, ...: the call of a mixture of experts.
struct ExpertOptions {
  std::string mode = "ll", tokens, hidden = "7168", top_k = "8", experts = "256", format, multiprocessors;

  models::ExpertCall call(const models::Machine& machine, bool combine, std::optional<int> ranks) const {
    constexpr std::uint64_t kMost = 1'000'000;
    const auto count = [](const char* option, const std::string& text) {
      return static_cast<int>(parse_count(option, text, 1, kMost));
    };
    models::ExpertCall call{.combine = combine};
    call.mode = mode == "ll" ? models::ExpertMode::kLowLatency : models::ExpertMode::kNormal;
    const int nodes = machine.transport == models::MachineTransport::kWithin ||
                              !machine.values.at(static_cast<std::size_t>(models::MachineParameter::kNics))
                          ? 1
                          : 2;
    call.ranks = ranks.value_or(std::max(2, nodes * machine.ranks_per_node));
    call.nodes = models::nodes_of(machine, call.ranks);
    call.tokens = tokens.empty() ? (mode == "ll" ? 128 : 4096) : count("--tokens", tokens);
    call.top_k = count("--top-k", top_k);
    call.experts = count("--experts", experts);
    if (call.experts < call.top_k) {
      throw std::runtime_error(fmt::format("--experts {}: fewer than --top-k {}", experts, top_k));
    }
    if (call.experts < call.ranks) {
      throw std::runtime_error(fmt::format("--experts {}: fewer than the {} ranks", experts, call.ranks));
    }
    const double elements = count("--hidden", hidden);
    constexpr double kScaled = 128, kScaleBytes = 4, kHeaderBytes = 16, kBf16Bytes = 2;
    const bool is_fp8 = format.empty() ? !combine : format == "fp8";
    call.token_bytes = is_fp8 ? elements + elements / kScaled * kScaleBytes + kHeaderBytes : kBf16Bytes * elements;
    if (!multiprocessors.empty()) call.multiprocessors = count("--sms", multiprocessors);
    return call;
  }
};

document::Section expert_section(const models::Machine& machine, const models::ExpertCall& call) {
  using document::integer, document::number, document::text;
  const models::ExpertTime time = models::expert_time(machine, call);
  document::Section section{.key = "prediction", .title = "Prediction"};
  section.with({text("operation", "dispatch or combine"), text("mode", "low latency or normal"),
                integer("ranks", "", "in all"), integer("nodes", "", "in all"), number("tokens", "", "of a rank"),
                number("token_bytes", "B", "of a token"), integer("top_k", "", "experts of a token"),
                integer("experts", "", "of all ranks"), number("us", "us", "the prediction"),
                number("error_p90", "", "9 of 10 measured points are within; null: none is known").or_null()});
  section.with(part_table());
  const char* const operation = call.combine ? "combine" : "dispatch";
  section.set("operation", operation);
  section.set("mode", name_of(call.mode));
  section.set("ranks", call.ranks);
  section.set("nodes", call.nodes);
  section.set("tokens", call.tokens);
  section.set("token_bytes", call.token_bytes);
  section.set("top_k", call.top_k);
  section.set("experts", call.experts);
  section.set("us", time.us);
  section.blank();
  section.line(
      "  {} of {:g} tokens of {:g} bytes a rank, top {} of {} experts, {} ranks on {} nodes, {} mode: {:.2f} us",
      operation, call.tokens, call.token_bytes, call.top_k, call.experts, call.ranks, call.nodes, name_of(call.mode),
      time.us);
  section.line("  a token has experts on {:.2f} ranks of {:.2f} nodes", time.ranks_of_token, time.nodes_of_token);
  for (const models::TimePart& part : time.parts) add_part(section, part, time.us);
  const auto bar = models::error_bar(machine, call.combine ? "ep_combine" : "ep_dispatch");
  section.set("error_p90", bar ? document::Value(bar->errors.p90) : document::Value(nullptr));
  if (!bar) {
    section.line("  no class of this kind is known: medians of the other classes, and no measured error");
    return section;
  }
  section.line("  +- {:.1f} %: 9 of 10 measured points of {}; half of them within {:.1f} %", 100 * bar->errors.p90,
               bar->of, 100 * bar->errors.median);
  return section;
}

document::Section collective_section(const models::Machine& machine, const models::CollectiveCall& call) {
  using document::integer, document::text;
  const models::CollectiveTime time = models::collective_time(machine, call);
  document::Section section{.key = "prediction", .title = "Prediction"};
  section.with({text("operation", "the collective"), integer("bytes", "B", "as nccl-tests counts them"),
                integer("ranks", "", "in all"), integer("nodes", "", "in all"),
                text("algorithm", "ring, tree, direct or two-shot"), text("protocol", "LL, LL128 or Simple")});
  section.with(interval_fields());
  section.with(part_table());
  section.set("operation", name_of(call.collective));
  section.set("bytes", call.bytes);
  section.set("ranks", call.ranks);
  section.set("nodes", call.nodes);
  section.set("algorithm", name_of(time.algorithm));
  section.set("protocol", name_of(time.protocol));
  section.blank();
  section.line("  {} of {} bytes, {} ranks on {} nodes: {:.2f} us, {} {}", name_of(call.collective), call.bytes,
               call.ranks, call.nodes, time.us, name_of(time.algorithm), name_of(time.protocol));
  for (const models::TimePart& part : time.parts) add_part(section, part, time.us);
  explain_interval(section, models::interval_of(machine, call, time.us), time.us);
  const auto bar = models::error_bar(machine, fmt::format("{}, {} ranks", name_of(call.collective), call.ranks));
  if (!bar) return section;
  section.line("  the class's own points: 9 of 10 of {} within {:.1f} %, half within {:.1f} %", bar->of,
               100 * bar->errors.p90, 100 * bar->errors.median);
  return section;
}

/// One way, and in a stream.
void explain_message(const models::Machine& machine, std::uint64_t bytes, document::Document& document) {
  for (const bool latency : {true, false}) {
    const models::MessageTest test{.latency = latency};
    const double us = models::message_us(machine, test, bytes);
    document::Section section{.key = latency ? "one_way" : "stream", .title = latency ? "One way" : "Stream"};
    section.with({document::integer("bytes", "B", "of the message")});
    section.with(interval_fields());
    section.set("bytes", bytes);
    if (latency) {
      section.blank();
      section.line("  one message of {} bytes: {:.2f} us one way; in a stream, {:.3f} us from one to the next", bytes,
                   us, models::message_us(machine, {}, bytes));
    }
    section.line("  {}:", latency ? "one way" : "in a stream");
    explain_interval(section, models::interval_of(machine, models::measured_kind(test), bytes, us), us);
    document.sections.push_back(std::move(section));
  }
}

}  // namespace

int models_command(const Arguments& arguments, std::ostream& out, std::ostream& /*err*/) {
  std::string name, collective, bytes, ranks, matrix, at_once;
  bool all = false, decode = false;
  DocumentOutput output;
  ExpertOptions expert;
  DecodeOptions decoding;
  std::string layers = "62", calls = "2";
  Syntax syntax("models [options]");
  syntax.options.add_options()  //
      ("explain", po::value(&name)->value_name("PROFILE"),
       "a profile's values, each with its source, and one prediction in parts; without it: which profiles there are")
      //
      ("decode", po::bool_switch(&decode),
       "the communication of a decode step on DGX Sparks around a ring, for each kind of software: --layers, --calls, "
       "--bytes (default 48K), --ranks (4)")                                                                     //
      ("layers", po::value(&layers)->value_name("N")->default_value(layers), "with --decode")                    //
      ("calls", po::value(&calls)->value_name("N")->default_value(calls), "with --decode: all_reduces a layer")  //
      ("all", po::bool_switch(&all), "values on which the profile is silent, too")                               //
      ("collective", po::value(&collective)->value_name("NAME"),
       "that is predicted; default: all_reduce; ep_dispatch and ep_combine are those of a mixture of experts; several "
       "at once as all_reduce:48K,all_gather:4M")
      //
      ("at-once", po::value(&at_once)->value_name("N"), "so many times --collective, all started at once")  //
      ("matrix", po::value(&matrix)->value_name("FILE"),
       "with --profile: the exchange of a point-to-point matrix, a CSV line of bytes for each sending rank")  //
      ("mode", po::value(&expert.mode)->value_name("ll|normal")->default_value(expert.mode),
       "low latency (a message for each token and expert) or normal (a token once to each node)")                  //
      ("tokens", po::value(&expert.tokens)->value_name("N"), "of a rank; default: 128, in normal mode 4096")       //
      ("hidden", po::value(&expert.hidden)->value_name("N")->default_value(expert.hidden), "elements of a token")  //
      ("top-k", po::value(&expert.top_k)->value_name("N")->default_value(expert.top_k), "experts of a token")      //
      ("experts", po::value(&expert.experts)->value_name("N")->default_value(expert.experts), "of all ranks")      //
      ("format", po::value(&expert.format)->value_name("fp8|bf16"), "of a token; default: dispatch fp8, combine bf16")
      //
      ("sms", po::value(&expert.multiprocessors)->value_name("N"), "multiprocessors that the kernels hold")  //
      ("bytes", po::value(&bytes)->value_name("SIZE"), "its size; default: 1M")                              //
      ("ranks", po::value(&ranks)->value_name("N"), "how many; default: two nodes full, four around a ring of nodes");
  syntax.options.add_options()("json", po::bool_switch(&output.json), "print JSON; not with --decode");
  decoding.describe(syntax.options);
  syntax.only_with({"decode"}, {"layers", "calls"});
  syntax.only_with({"decode"}, DecodeOptions::names());
  syntax.only_with({"explain"}, {"all"});
  syntax.only_with({"explain", "profile"}, {"collective", "mode", "tokens", "top-k", "experts", "format", "at-once"});
  syntax.only_with({"explain", "profile", "decode"}, {"bytes", "ranks", "gpu", "sms"});
  // The table of --decode has its own computing and sizes.
  syntax.only_with({"explain", "profile", "measured"},
                   {"compute", "hidden", "total", "active", "bits", "batch", "tensor", "pipeline", "expert-ranks"});
  syntax.only_with({"compute", "decode"}, {"overlap"});
  syntax.only_with({"decode", "matrix"}, {"topology"});
  syntax.only_with({"profile"}, {"matrix"});
  syntax.only_without({"explain"}, {"profile"});
  syntax.only_without({"decode"}, {"collective", "at-once", "matrix", "sms"});
  syntax.only_without({"matrix"}, {"collective", "at-once", "bytes", "ranks", "compute", "overlap", "decode", "gpu",
                                   "sms", "mode", "tokens", "hidden", "top-k", "experts", "format"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const auto entries = std::count(collective.begin(), collective.end(), ',') + 1;
  if (!bytes.empty() && std::count(collective.begin(), collective.end(), ':') == entries) {
    throw std::runtime_error("--bytes says nothing beside --collective " + collective +
                             ", which has the size of each call; leave it out");
  }
  if (bytes.empty()) bytes = decode ? "48K" : "1M";
  const Result<std::uint64_t> size = parse_size_bytes(bytes);
  if (!size) throw std::runtime_error("--bytes " + bytes + ": " + size.error().text);
  if (decode) {
    if (!name.empty()) throw std::runtime_error("--explain has no effect with --decode; remove one of them");
    if (output.json) throw std::runtime_error("--json has no effect with --decode; remove one of them");
    if (decoding.is_plan()) {
      decoding.layers = layers;
      decoding.calls = calls;
      decoding.ranks = ranks;
      decoding.hidden = expert.hidden;
      decoding.print(out);
      return kExitOk;
    }
    constexpr std::uint64_t kMost = 100'000;
    out << decode_table({.layers = static_cast<int>(parse_count("--layers", layers, 1, kMost)),
                         .calls_per_layer = static_cast<int>(parse_count("--calls", calls, 1, kMost)),
                         .bytes = *size,
                         .ranks = ranks.empty() ? 4 : static_cast<int>(parse_count("--ranks", ranks, 2, kMost)),
                         .overlap = parse_overlap(decoding.overlap),
                         .gpu_sms = sms_of_gpu(decoding.gpu)},
                        shipped_machines());
    if (parse_overlap(decoding.overlap) > 0) {
      out << fmt::format(
          "assumed: {} of computing waits for no communication; kernels hold an SM of {} for each "
          "channel, two for each adapter unless the class has a number; memory is not slower\n",
          decoding.overlap, decoding.gpu);
    }
    return kExitOk;
  }
  document::Document document{.title = "models"};
  const bool with_values = !name.empty();
  if (name.empty()) name = decoding.profile;
  if (name.empty()) {
    list_profiles(document);
    output.finish(document, out);
    return kExitOk;
  }
  const models::Profile profile = find_profile(name);
  if (!matrix.empty()) {
    if (!profile.machine_class()) {
      throw std::runtime_error(fmt::format("--profile {}: it is not a class of machines; --matrix needs one", name));
    }
    document.sections.push_back(matrix_section(machine_of_profile(profile), matrix, decoding.topology));
    output.finish(document, out);
    return kExitOk;
  }
  if (collective.empty()) {
    const bool is_expert = profile.machine_class() && profile.machine_class()->transport == "expert";
    collective = is_expert ? "ep_dispatch" : "all_reduce";
  }
  const bool is_list = !at_once.empty() || collective.find_first_of(",:") != std::string::npos;
  const auto combine = expert_operation(collective);
  std::vector<std::string> names = models::collective_names();
  names.insert(names.end(), {"ep_dispatch", "ep_combine"});
  if (!is_list) require_choice("--collective", "collective", collective, names);
  require_choice("--mode", "mode", expert.mode, {"ll", "normal"});
  if (!expert.format.empty()) require_choice("--format", "format", expert.format, {"fp8", "bf16"});
  const std::uint64_t size_bytes = *size;
  constexpr std::uint64_t kRanksMost = 1'000'000;
  std::optional<int> asked_ranks;
  if (!ranks.empty()) asked_ranks = static_cast<int>(parse_count("--ranks", ranks, 2, kRanksMost));
  const bool has_computing = !decoding.compute.empty();
  if ((combine || is_list || has_computing) && !profile.machine_class()) {
    throw std::runtime_error(fmt::format("--collective {}: {} is not a class of machines", collective, name));
  }
  if (!profile.machine_class()) {
    list_values(profile, document);
    explain_rings(profile, *models::parse_collective(collective), size_bytes, asked_ranks.value_or(4), document);
    output.finish(document, out);
    return kExitOk;
  }
  models::Machine machine = machine_of_profile(profile);
  const bool is_of_experts = machine.transport == models::MachineTransport::kExpert;
  if (is_of_experts && !combine) {
    throw std::runtime_error(fmt::format(
        "--collective {}: {} is of dispatch and combine of experts; use ep_dispatch or ep_combine", collective, name));
  }
  if (machine.transport == models::MachineTransport::kMessage && combine) {
    throw std::runtime_error(fmt::format("--collective {}: {} is of single messages", collective, name));
  }
  if ((is_list || has_computing) && (combine || machine.transport == models::MachineTransport::kMessage)) {
    throw std::runtime_error(fmt::format(
        "--collective {}: calls at once and computing beside them are predicted of collectives alone", collective));
  }
  if (combine) machine = as_expert(machine, shipped_machines());
  if (with_values) explain_values(machine, all, document);
  if (is_list || has_computing) {
    constexpr std::uint64_t kMostAtOnce = 1024;
    const int times = at_once.empty() ? 1 : static_cast<int>(parse_count("--at-once", at_once, 1, kMostAtOnce));
    const std::vector<models::CollectiveCall> calls =
        calls_at_once(machine, collective, size_bytes, asked_ranks, times);
    const models::ConcurrentTime time = models::concurrent_time(machine, calls);
    document.sections.push_back(is_list ? at_once_section(machine, time) : collective_section(machine, calls.front()));
    if (has_computing) {
      document.sections.push_back(
          overlap_section(machine, time, {decoding.compute, decoding.overlap, decoding.gpu, expert.multiprocessors}));
    }
  } else if (combine) {
    document.sections.push_back(expert_section(machine, expert.call(machine, *combine, asked_ranks)));
  } else if (machine.transport == models::MachineTransport::kMessage) {
    explain_message(machine, size_bytes, document);
  } else {
    document.sections.push_back(
        collective_section(machine, call_on(machine, *models::parse_collective(collective), size_bytes, asked_ranks)));
  }
  output.finish(document, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
