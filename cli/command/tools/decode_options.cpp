#include "cli/command/tools/decode_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <stdexcept>

#include "cli/command/tools/prediction_sections.h"
#include "models/gpu.h"
#include "models/time/concurrent_time.h"
#include "testbed/fidelity/decode_plan.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kMostDecode = 1'000'000;

int count_of(const char* option, const std::string& text) {
  return static_cast<int>(parse_count(option, text, 1, kMostDecode));
}

/// Of one all_reduce of the step.
std::uint64_t plan_call_bytes(const DecodePlan& plan) {
  constexpr double kBf16Bytes = 2;
  return static_cast<std::uint64_t>(std::max(1.0, plan.batch * plan.hidden * kBf16Bytes));
}

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 1e6) {
    throw std::runtime_error(fmt::format("{} {}: give a number from 0 to 1000000", option, text));
  }
  return value;
}

}  // namespace

std::vector<std::string> DecodeOptions::names() {
  return {"measured", "total", "active", "bits", "batch", "tensor", "pipeline", "expert-ranks"};
}

void DecodeOptions::describe(po::options_description& options) {
  options.add_options()  //
      ("measured", po::value(&measured)->value_name("FILE"),
       "with --decode: measured tokens per second beside the same engine on one node, as ratios (docs/models.md)")  //
      ("profile", po::value(&profile)->value_name("NAME|FILE"),
       "the class of a prediction; with --decode: tokens per second on it")  //
      ("topology", po::value(&topology)->value_name("T"),
       "with --profile: switch, ring or mesh; of --matrix also a scenario's file; default: the class's")
      //
      ("compute", po::value(&compute)->value_name("TIME"),
       "with --profile: computing beside the call, or a step of one rank, as 20ms; default of --decode: the time in "
       "which --gpu reads the weights")  //
      ("overlap", po::value(&overlap)->value_name("SHARE")->default_value(overlap),
       "with --compute or --decode: of computing, what does not wait for communication, 0 to 1")  //
      ("gpu", po::value(&gpu)->value_name("NAME")->default_value(gpu),
       "with --profile: whose memory is read and whose SMs the kernels hold")                                        //
      ("total", po::value(&total)->value_name("B")->default_value(total), "with --profile: parameters in billions")  //
      ("active", po::value(&active)->value_name("B")->default_value(active),
       "with --profile: those of a token, where the model has experts")                                           //
      ("bits", po::value(&bits)->value_name("N")->default_value(bits), "with --profile: of a weight")             //
      ("batch", po::value(&batch)->value_name("N")->default_value(batch), "with --profile: tokens of a step")     //
      ("tensor", po::value(&tensor)->value_name("N"), "with --profile: tensor-parallel ranks; default: --ranks")  //
      ("pipeline", po::value(&pipeline)->value_name("N")->default_value(pipeline), "with --profile: stages")      //
      ("expert-ranks", po::value(&expert_ranks)->value_name("N")->default_value(expert_ranks),
       "with --profile: ranks that share the experts, with a dispatch and a combine in each layer");
}

void DecodeOptions::print(std::ostream& out) const {
  const std::vector<models::Machine> profiles = shipped_machines();
  if (!measured.empty()) {
    if (!profile.empty()) throw std::runtime_error("--measured has no effect with --profile; remove one of them");
    out << decode_ratio_table(measured, profiles);
    return;
  }
  models::Machine machine = machine_of_profile(find_profile(profile));
  if (machine.transport == models::MachineTransport::kMessage ||
      machine.transport == models::MachineTransport::kExpert) {
    throw std::runtime_error(
        fmt::format("--profile {}: it has no collectives; a decode step needs a class of machines "
                    "with all_reduce",
                    profile));
  }
  if (!topology.empty()) {
    const auto cabling = models::parse_cabling(topology);
    if (!cabling) throw std::runtime_error(fmt::format("--topology {}: it is switch, ring or mesh", topology));
    machine.cabling = *cabling;
  }
  DecodePlan plan;
  plan.layers = count_of("--layers", layers);
  plan.calls_per_layer = count_of("--calls", calls);
  plan.hidden = hidden.empty() ? plan.hidden : count_of("--hidden", hidden);
  plan.batch = count_of("--batch", batch);
  plan.pipeline = count_of("--pipeline", pipeline);
  plan.expert = count_of("--expert-ranks", expert_ranks);
  plan.tensor = tensor.empty() ? (ranks.empty() ? 2 : count_of("--ranks", ranks)) : count_of("--tensor", tensor);
  const models::GpuModel* const model = models::find_gpu(gpu);
  if (model == nullptr) {
    throw std::runtime_error(
        fmt::format("--gpu {}: there is no such model; there are {}", gpu, fmt::join(models::gpu_names(), ", ")));
  }
  plan.weights_us = weights_us(number_of("--total", total), number_of("--active", active), number_of("--bits", bits),
                               plan.batch, static_cast<double>(model->memory_bytes_per_second));
  plan.compute_us = compute.empty() ? plan.weights_us : duration_us("--compute", compute);
  if (plan.compute_us <= 0) {
    throw std::runtime_error(
        "--decode --profile: give a step of one rank (--compute 20ms), or the model's weights (--total 120 --active "
        "5.1 "
        "--bits 4)");
  }
  if (plan.weights_us <= 0) plan.weights_us = plan.compute_us;
  plan.overlap = parse_overlap(overlap);
  const models::HeldSms held = models::held_sms(
      machine, call_on(machine, models::Collective::kAllReduce, plan_call_bytes(plan), std::max(plan.tensor, 2)));
  plan.held = std::min(1.0, held.expected / model->sms);
  const DecodeTime time = decode_time(plan, machine, profiles);
  constexpr double kUsPerMs = 1e3, kUsPerS = 1e6;
  const auto bar = models::error_bar(machine, fmt::format("all_reduce, {} ranks", plan.tensor));
  const double rate = plan.batch / time.step_us() * kUsPerS;
  // The communication's error, and that of the split of the computing (models --decode --measured).
  constexpr double kOfSplit = 0.15;
  constexpr double kUnknown = 0.5;  // of a class without measured errors
  const double longer = time.communication_us() * (1 + (bar ? bar->errors.p90 : kUnknown));
  const double exposed_more =
      models::exposed_us(longer, {.compute_us = time.compute_us, .share = plan.overlap, .held = plan.held}) -
      time.exposed_us;
  const double off = (kOfSplit * time.compute_us + exposed_more) / time.step_us();
  out << fmt::format(
      "decode: {} layers, hidden {:g}, batch {:g}; {} tensor, {} pipeline, {} expert ranks; profile {}\n", plan.layers,
      plan.hidden, plan.batch, plan.tensor, plan.pipeline, plan.expert, machine.name);
  // Without overlap the parts are the step; with it the communication that computing hides is a line of its own.
  const double hidden_us = time.exposed_us - time.communication_us();
  for (const auto& [name, us] :
       {std::pair{"computing", time.compute_us}, std::pair{"all_reduces", time.reduces_us},
        std::pair{"between stages", time.pipeline_us}, std::pair{"dispatch and combine", time.experts_us}}) {
    if (us > 0) out << fmt::format("  {:<22} {:>9.2f} ms {:>6.1f} %\n", name, us / kUsPerMs, 100 * us / time.step_us());
  }
  if (plan.overlap > 0) {
    out << fmt::format("  {:<22} {:>9.2f} ms {:>6.1f} %\n", "hidden by computing", hidden_us / kUsPerMs,
                       100 * hidden_us / time.step_us());
    out << fmt::format(
        "  assumed: {:g} % of computing waits for no communication; kernels hold {:g} of {} SMs of {} ({:g} to {:g})\n",
        100 * plan.overlap, held.expected, model->sms, model->name, held.least, held.most);
  }
  out << fmt::format("  a step {:.2f} ms; {:.1f} tokens/s ± {:.0f} %; {:.2f} times one rank ({:.1f} tokens/s)\n",
                     time.step_us() / kUsPerMs, rate, 100 * off, plan.compute_us / time.step_us(),
                     plan.batch / plan.compute_us * kUsPerS);
  if (compute.empty()) {
    out << fmt::format(
        "  computing is the reading of the weights by {}, a lower bound; --compute gives a measured time\n",
        model->name);
  }
  out << fmt::format("  not modelled: speculative decoding, prefill, queueing{}\n",
                     plan.overlap > 0 ? ", memory rate shared by computing and communication"
                                      : "; --overlap gives the computing that hides communication");
}

}  // namespace meshbed::testbed
