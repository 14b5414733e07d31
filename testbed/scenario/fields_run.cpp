// The field tables, second half: workload, faults, expectations and run; and the table of the whole file.

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "models/algorithm.h"
#include "models/topology_generate.h"
#include "plugin/nccl/net_abi.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

constexpr IntegerRange kAnyCount{0, std::numeric_limits<std::int64_t>::max()};

const Section<FabricSpec> kFabric{
    "[fabric]",
    "How bytes on links are simulated.",
    {
        {"kind", "text", "'auto'", "auto, fluid (SimGrid flows) or chunk (own event core, FIFO links)",
         [](const Value& v, FabricSpec& s) {
           v.choice(s.kind, {"auto", "fluid", "chunk"});
         }},
        {"fold", "boolean", "true",
         "a replay simulates one rank for all where links and shares make them provably alike; the answer is the same "
         "to the picosecond",
         [](const Value& v, FabricSpec& s) { v.boolean(s.fold); }},
    }};

const Section<ReplaySpec> kReplay{
    "[replay]",
    "What `meshbed run --mode replay` simulates: a collective's schedule, without plugin code. Other runs ignore it.",
    {
        {"detail", "text", "'data'",
         "data: data messages alone, payload bytes at a link's rate and latency; plugin: also what the net plugin adds",
         [](const Value& v, ReplaySpec& s) {
           v.choice(s.detail, {"data", "plugin"});
         }},
        {"schedule", "text", "''",
         "a schedule that `meshbed record` wrote, beside the scenario or in the current folder: replayed on this "
         "scenario's links instead of its workload",
         [](const Value& v, ReplaySpec& s) { v.text(s.schedule); }},
    }};

const Section<ModelsSpec> kModels{"[models]",
                                  "What software costs in virtual time, in the simulated world.",
                                  {
                                      {"profile", "text", "'ideal'",
                                       "ideal: nothing, wires alone take time; or a class of machines, whose launches, "
                                       "hops and rates calls then cost: "
                                       "a name that `meshbed models` lists, a file beside the scenario, or dgx-spark: "
                                       "the class of DGX Sparks that are cabled so (pair, ring, switch)",
                                       [](const Value& v, ModelsSpec& s) { v.text(s.profile); }},
                                  }};

const std::string kCollectiveNames = list_names(models::collective_names());

/// Of the dictionary, from the list of the kinds.
std::string workload_kinds_table() {
  std::string table = "| kind | meaning |\n|---|---|\n";
  for (const WorkloadInfo& each : kWorkloadKinds) table += fmt::format("| `{}` | {} |\n", each.name, each.meaning);
  return table;
}

const Section<WorkloadSpec> kWorkload{
    "[workload]",
    "What the ranks do.",
    {
        {"kind", "text", "'collective'", "one of the kinds below",
         [](const Value& v, WorkloadSpec& s) { v.kind(s.value.kind, kWorkloadKinds); }},
        {"collective", "text", "'all_reduce'", kCollectiveNames.c_str(),
         [](const Value& v, WorkloadSpec& s) { v.choice(s.value.collective, models::collective_names()); }},
        {"bytes", "size", "'64M'",
         "as nccl-tests counts it: all_reduce the buffer, all_gather the whole output; whole elements",
         [](const Value& v, WorkloadSpec& s) { v.size(s.value.bytes); }},
        {"dtype", "text", "'float'",
         "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16; f8e4m3 and f8e5m2, which are "
         "moved, "
         "never reduced",
         [](const Value& v, WorkloadSpec& s) { v.choice(s.value.dtype, data_type_names()); }},
        {"op", "text", "'sum'", "of a reduction: sum, prod, max, min or avg",
         [](const Value& v, WorkloadSpec& s) { v.choice(s.value.op, reduction_names()); }},
        {"algorithm", "text", "'auto'",
         "auto: the one that should take least in this network; ring, tree, halving-doubling, direct, mesh or torus: "
         "that one "
         "where the collective has it, and the ring elsewhere; not for a matrix, which draws its own",
         [](const Value& v, WorkloadSpec& s) { v.choice(s.value.algorithm, algorithm_names()); }},
        {"protocol", "text", "'simple'",
         "how messages travel: simple, or in NCCL's lines of data and flags: ll, ll128; auto: the one that should take "
         "least",
         [](const Value& v, WorkloadSpec& s) { v.choice(s.value.protocol, protocol_names()); }},
        {"tuning", "text", "",
         "file of a table for what is auto, relative to the scenario file, as meshbed tune writes it and NCCL's "
         "example "
         "tuner reads it",
         [](const Value& v, WorkloadSpec& s) { v.text(s.value.tuning); }},
        {"iterations", "integer", "1", "timed and checked, every one",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.iterations, {1, 1'000'000});
         }},
        {"warmup", "integer", "(1 of a collective)",
         "iterations of a collective before those that are timed; 0: the first timed one makes the connections, too",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.warmup, {0, 1'000'000});
         }},
        {"in_place", "boolean", "true", "the result overwrites the input",
         [](const Value& v, WorkloadSpec& s) { v.boolean(s.value.in_place); }},
        {"channels", "integer", "1", "connections to each neighbour",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.channels, {1, 64});
         }},
        {"channel_devices", "list of integers", "(channel c opens device c % devices)",
         "device index that each channel opens",
         [](const Value& v, WorkloadSpec& s) {
           v.integers(s.value.channel_devices, {0, models::kNicsPerNodeMax - 1});
         }},
        {"slice_bytes", "size", "0", "largest single message, whole elements; 0: the engine's default",
         [](const Value& v, WorkloadSpec& s) { v.size(s.value.slice_bytes); }},
        {"root", "integer", "0",
         "broadcast and scatter: the rank that has the data; reduce and gather: the one that gets them",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.root, {0, models::kNodesMax});
         }},
        {"shift", "integer", "1", "sendrecv: rank r sends to (r + shift) % ranks",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.shift, {0, models::kNodesMax});
         }},
        {"senders", "list of integers", "(all)", "sendrecv: only these ranks send",
         [](const Value& v, WorkloadSpec& s) {
           v.integers(s.value.senders, {0, models::kNodesMax - 1});
         }},
        {"late_by", "time", "'0s'",
         "the late rank does something else for so long, as one that loads a model, while the others wait in the "
         "collective",
         [](const Value& v, WorkloadSpec& s) { v.time(s.value.late_by_ps); }},
        {"late_rank", "integer", "0", "with late_by",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.late_rank, {0, models::kNodesMax});
         }},
        {"late_iteration", "integer", "0", "with late_by; the first that is timed is 0",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.late_iteration, {0, 1'000'000});
         }},
        {"differing_rank", "integer", "-1",
         "this rank requests half of `bytes` while the others request all of it, in the iterations that are timed: the "
         "ranks do not call the same operation; -1: none",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.differing_rank, {-1, models::kNodesMax});
         }},
        {"cases", "integer", "200",
         "matrix: as many of each collective, no two alike, over element types, reductions, algorithms, protocols, "
         "sizes, in and out of place",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.cases, {1, 100'000});
         }},
        {"receives", "integer", "1", "reconnect: on each connection",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.receives, {1, 1024});
         }},
        {"parts", "integer", "1", "reconnect: messages of each receive, distinguished by their tags",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.parts, {1, nccl::kMaxGroupedReceives});
         }},
        {"data", "text", "'own'",
         "own: each rank has buffers of its own, and all data are checked; shared: all ranks have the same ones, for "
         "many ranks; their contents are checked, not whose they are. Of collective in the simulated world; a "
         "reduction "
         "must be max or min, which equal data leave as they are",
         [](const Value& v, WorkloadSpec& s) {
           std::string data = "own";
           v.choice(data, {"own", "shared"});
           s.value.shared_data = data == "shared";
         }},
        {"memory", "text", "'host'",
         "where messages lie: host, or gpu: of reconnect, whose adapters must have gpu_direct dma-buf or both, or of "
         "collective and matrix, whose engine copies them where adapters do not reach them (gpu_direct), or of "
         "megakernel, which then runs on the GPU; simulated",
         [](const Value& v, WorkloadSpec& s) {
           std::string memory = "host";
           v.choice(memory, {"host", "gpu"});
           s.value.gpu_memory = memory == "gpu";
         }},
        {"recording", "text", "", "nccl-calls: file of recorded calls, relative to the scenario file",
         [](const Value& v, WorkloadSpec& s) { v.text(s.value.recording); }},
        {"other_devices", "boolean", "false",
         "nccl-calls: nodes may have more or fewer devices than were recorded; device d is then d % devices",
         [](const Value& v, WorkloadSpec& s) { v.boolean(s.value.other_devices); }},
        {"program", "text", "",
         "program: the file that every rank runs, a program or a shared object with a main(), relative to the scenario "
         "file",
         [](const Value& v, WorkloadSpec& s) { v.text(s.value.program); }},
        {"arguments", "list of texts", "[]", "program: what its main() gets",
         [](const Value& v, WorkloadSpec& s) {
           std::vector<Located<std::string>> arguments;
           v.texts(arguments);
           s.value.arguments.clear();
           for (const auto& argument : arguments) s.value.arguments.push_back(argument.value);
         }},
        {"nccl", "text", "'drop-in'",
         "program: which libnccl.so.2 it finds: drop-in, Meshbed's over its engine; system, the one that the program "
         "would find on this machine; or a file, relative to the scenario file",
         [](const Value& v, WorkloadSpec& s) { v.text(s.value.nccl); }},
        {"busy_limit_s", "integer", "60",
         "program: seconds of wall-clock time that a rank may run without a call that waits (a busy loop); then it "
         "fails; 0: any",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.busy_limit_s, {0, 1'000'000});
         }},
        {"output_limit_mib", "integer", "256",
         "program: MiB that all ranks together may write to standard output and standard error; then the rank that "
         "writes fails",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.output_limit_mib, {1, 1'000'000});
         }},
        {"megakernel", "[workload.megakernel]", "{}", "of kind = 'megakernel'",
         [](const Value& v, WorkloadSpec& s) { v.table(s.megakernel); }},
        {"nodes", "integer", "(all)", "so many run ranks, from the first on; the others only hang on their cables",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.nodes, {1, models::kNodesMax});
         }},
        {"ranks_per_node", "integer, or list of them", "(one a GPU where `gpus` is given, or 1)",
         "of every node, or of each in its order, as in [7, 8]",
         [](const Value& v, WorkloadSpec& s) {
           v.counts(s.ranks_each_node, s.value.ranks_per_node, {1, 1024});
         }},
        {"placement", "text, or list of names", "(contiguous)",
         "contiguous: a node's ranks follow one another; round-robin: the next rank is on the next node that has room; "
         "or each rank's node, which says how many there are, too",
         [](const Value& v, WorkloadSpec& s) { v.placement(s); }},
        {"net_plugin", "text", "''",
         "path of another net plugin, or local: Meshbed's for the processes of one machine; empty: Meshbed's mesh",
         [](const Value& v, WorkloadSpec& s) { v.text(s.value.net_plugin); }},
        {"net_version", "integer", "0", "ncclNet table version, 8 to 12; 0: the newest that the plugin has",
         [](const Value& v, WorkloadSpec& s) {
           v.integer(s.value.net_version, {0, 12});
         }},
    },
    workload_kinds_table()};

const Section<LimitsSpec> kLimits{
    "[limits]",
    "When a run is given up.",
    {
        {"time", "time", "'3600s'", "simulated", [](const Value& v, LimitsSpec& s) { v.time(s.time_ps); }},
    }};

/// Of the dictionary, from the list of the kinds.
std::string fault_kinds_table() {
  constexpr const char* kUnits[] = {"", " (a fraction)", " (a time)", " (a rate)"};
  std::string table = "| kind | target | takes | meaning |\n|---|---|---|---|\n";
  for (const FaultInfo& each : kFaultKinds) {
    std::vector<std::string> takes;
    for (const std::string_view key : keys_of(each.kind)) {
      takes.push_back(fmt::format("`{}`{}", key, key == "amount" ? kUnits[static_cast<std::size_t>(each.amount)] : ""));
    }
    if (each.lasts) takes.emplace_back("`duration`");
    table += fmt::format("| `{}` | {} | {} | {}{} |\n", each.name, text_of(each.target), list_names(takes),
                         each.meaning, each.simulated_only[0] == '\0' ? "" : "; in the simulated world alone");
  }
  return table;
}

const Section<FaultSpec> kFault{
    "[[fault]]",
    "Something that goes wrong, in the simulated and in the emulated world. Several may hold at one time and add up.",
    {
        {"kind", "text", "", "one of the kinds below; required",
         [](const Value& v, FaultSpec& s) { s.is_known = v.kind(s.value.kind, kFaultKinds); }},
        {"point", "text", "'start'",
         "what `at` counts from: start, or iteration (of a collective or of reconnect: all ranks stand before it)",
         [](const Value& v, FaultSpec& s) {
           v.choice(s.value.point, {"start", "iteration"});
         }},
        {"iteration", "integer", "0", "of point = 'iteration'; the first that is timed is 0",
         [](const Value& v, FaultSpec& s) {
           v.integer(s.value.iteration, {0, 1'000'000});
         }},
        {"at", "time", "'0s'",
         "after the point, in the world's own time: simulated, or what a clock on the wall says; 0: before the ranks "
         "go "
         "on",
         [](const Value& v, FaultSpec& s) { v.time(s.value.at_ps); }},
        {"duration", "time", "'0s'", "0: for ever", [](const Value& v, FaultSpec& s) { v.time(s.value.duration_ps); }},
        {"target", "text", "", "name of a cable, switch or node, or NODE/DEVICE; required",
         [](const Value& v, FaultSpec& s) { v.text(s.value.target); }},
        {"amount", "number, percentage, time or rate", "0",
         "loss, reorder: fraction of the packets, 0.01 or '1%'; delay: time; rate: rate. Of a cable or switch in each "
         "direction; of NODE/DEVICE what it sends, and a rate in each direction",
         [](const Value& v, FaultSpec& s) { v.amount(s.value.amount, s.value.unit); }},
        {"address", "prefix", "",
         "address_change: what NODE/DEVICE's interface has from then on instead of its address in the same subnet, as "
         "DHCP might give it; its GIDs follow; with a duration the old one comes back",
         [](const Value& v, FaultSpec& s) { v.prefix(s.value.address); }},
        {"status", "text", "'access'",
         "refuse: access, status 10 as of memory that is not registered; or not-ready, status 13 as of a receiver "
         "without receives when the sender's retries have run out",
         [](const Value& v, FaultSpec& s) { v.text(s.value.status); }},
        {"from", "text", "",
         "strangers: the node that they come from, over the management network; they hold connections open to every "
         "TCP "
         "port that the system chose for a listener on the target, and come again when they are thrown out; required",
         [](const Value& v, FaultSpec& s) { v.text(s.value.from); }},
        {"connections", "integer", "1", "strangers: to each port, at one time",
         [](const Value& v, FaultSpec& s) {
           v.integer(s.value.connections, {1, 4096});
         }},
        {"byte_every", "time", "'0s'", "strangers: each of them sends one byte so often; 0: never",
         [](const Value& v, FaultSpec& s) { v.time(s.value.byte_every_ps); }},
    },
    fault_kinds_table()};

const Section<ExpectSpec> kExpect{
    "[expect]",
    "What the run promises; a broken promise is a non-zero exit.",
    {
        {"wrong", "integer", "", "elements that differ from the serial result",
         [](const Value& v, ExpectSpec& s) { v.integer(s.value.wrong, kAnyCount); }},
        {"max_over_bound", "number", "", "time over its closed-form lower bound, at most",
         [](const Value& v, ExpectSpec& s) {
           v.number(s.value.max_over_bound, {1.0, 1e9});
         }},
        {"min_busbw_GBps", "number", "", "bus bandwidth as nccl-tests counts it, at least",
         [](const Value& v, ExpectSpec& s) {
           v.number(s.value.min_busbw_GBps, {0.0, 1e9});
         }},
        {"rail_balance", "number", "", "largest relative difference of bytes between a node's cabled NICs",
         [](const Value& v, ExpectSpec& s) {
           v.number(s.value.rail_balance, {0.0, 1.0});
         }},
        {"connections", "integer", "", "connections made, over all ranks",
         [](const Value& v, ExpectSpec& s) { v.integer(s.value.connections, kAnyCount); }},
        {"min_socket_bytes", "size", "", "payload over the ranks' sockets, bootstrap and data over TCP, at least",
         [](const Value& v, ExpectSpec& s) { v.size(s.value.min_socket_bytes.emplace()); }},
        {"max_socket_bytes", "size", "", "the same, at most",
         [](const Value& v, ExpectSpec& s) { v.size(s.value.max_socket_bytes.emplace()); }},
        {"max_strangers", "integer", "",
         "connections that the ranks had accepted from strangers, at one time and all ranks together, at most",
         [](const Value& v, ExpectSpec& s) { v.integer(s.value.max_strangers, kAnyCount); }},
        {"max_run_time", "time", "", "simulated, from the start to the end of the last rank, at most",
         [](const Value& v, ExpectSpec& s) { v.time(s.value.max_run_time_ps.emplace()); }},
        {"unreachable", "list of pairs", "", "pairs of nodes without a direct path, as in [[\"node0\", \"node2\"]]",
         [](const Value& v, ExpectSpec& s) { v.name_pairs(s.value.unreachable); }},
        {"lost", "name", "",
         "the node that loses its power (node_kill): every rank elsewhere ends, well or with an error that names it, "
         "a rank that ended before or one behind it, and no element is wrong; limits.time is how long they have",
         [](const Value& v, ExpectSpec& s) { v.name(s.value.lost.emplace()); }},
        {"watchdog", "text", "",
         "megakernel: what some rank's ring must come to: drained, livelock, stalled-peer, waiting, abandoned-claim, "
         "tenant-masked, out-of-quota, faulted-slot, flag-before-data, wait-cycle, unclaimed, not-resident or "
         "message-failed; without it every ring must drain",
         [](const Value& v, ExpectSpec& s) { v.choice(s.value.watchdog.emplace(), ring_cause_names()); }},
        {"error", "text", "", "the run must fail with an error that contains this",
         [](const Value& v, ExpectSpec& s) { v.text(s.value.error); }},
    }};

// A missing section is read as an empty one, so that its defaults apply.
const Section<ScenarioSpec> kScenario{
    "the file",
    "Keys at the top of the file, and its sections.",
    {
        {"name", "name", "(the file's name)", "names results/NAME/",
         [](const Value& v, ScenarioSpec& s) { v.name(s.name); }},
        {"description", "text", "''", "one line", [](const Value& v, ScenarioSpec& s) { v.text(s.description); }},
        {"assumed", "list of texts", "[]",
         "values of this file that were not known, as `meshbed init` lists them: 'WHAT: VALUE; QUESTION'",
         [](const Value& v, ScenarioSpec& s) { v.texts(s.assumed); }},
        {"seed", "integer", "1", "all randomness descends from it",
         [](const Value& v, ScenarioSpec& s) { v.integer(s.seed, kAnyCount); }},
        {"topology", "[topology]", "{}", "what is generated",
         [](const Value& v, ScenarioSpec& s) { v.table(s.topology); }},
        {"node", "[[node]]", "", "nodes and their NICs", [](const Value& v, ScenarioSpec& s) { v.tables(s.nodes); }},
        {"cable", "[[cable]]", "", "cables", [](const Value& v, ScenarioSpec& s) { v.tables(s.cables); }},
        {"switch", "[[switch]]", "", "switches", [](const Value& v, ScenarioSpec& s) { v.tables(s.switches); }},
        {"router", "[[router]]", "", "routers between switches",
         [](const Value& v, ScenarioSpec& s) { v.tables(s.routers); }},
        {"management", "[management]", "{}", "the management network",
         [](const Value& v, ScenarioSpec& s) { v.table(s.management); }},
        {"environment", "table", "", "variables for every rank, as in NCCL_DEBUG = \"INFO\"",
         [](const Value& v, ScenarioSpec& s) { v.environment(s.environment); }},
        {"fabric", "[fabric]", "{}", "the network model", [](const Value& v, ScenarioSpec& s) { v.table(s.fabric); }},
        {"replay", "[replay]", "{}", "what a replay simulates",
         [](const Value& v, ScenarioSpec& s) { v.table(s.replay); }},
        {"models", "[models]", "{}", "what software costs", [](const Value& v, ScenarioSpec& s) { v.table(s.models); }},
        {"workload", "[workload]", "{}", "what the ranks do",
         [](const Value& v, ScenarioSpec& s) { v.table(s.workload); }},
        {"limits", "[limits]", "{}", "when to give up", [](const Value& v, ScenarioSpec& s) { v.table(s.limits); }},
        {"fault", "[[fault]]", "", "what goes wrong", [](const Value& v, ScenarioSpec& s) { v.tables(s.faults); }},
        {"expect", "[expect]", "{}", "what must come out", [](const Value& v, ScenarioSpec& s) { v.table(s.expect); }},
    }};

}  // namespace

template <>
const Section<FabricSpec>& section_of<FabricSpec>() {
  return kFabric;
}
template <>
const Section<ReplaySpec>& section_of<ReplaySpec>() {
  return kReplay;
}
template <>
const Section<ModelsSpec>& section_of<ModelsSpec>() {
  return kModels;
}
template <>
const Section<WorkloadSpec>& section_of<WorkloadSpec>() {
  return kWorkload;
}
template <>
const Section<LimitsSpec>& section_of<LimitsSpec>() {
  return kLimits;
}
template <>
const Section<FaultSpec>& section_of<FaultSpec>() {
  return kFault;
}
template <>
const Section<ExpectSpec>& section_of<ExpectSpec>() {
  return kExpect;
}
template <>
const Section<ScenarioSpec>& section_of<ScenarioSpec>() {
  return kScenario;
}

}  // namespace meshbed::testbed
