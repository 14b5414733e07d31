#pragma once
// Scenario: one file that describes the cabling, the workload, the faults and the expected results.
//
// TOML, read by read.cpp through one table of fields (fields.cpp) from which scenarios/README.md is
// generated as well. Unknown keys are refused with the accepted names; every error carries file, line and column.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "testbed/base/diagnostics.h"
#include "testbed/scenario/kinds/fault_kind.h"
#include "testbed/scenario/kinds/workload_kind.h"

namespace meshbed::ring {
struct RecordedWork;
}  // namespace meshbed::ring
namespace meshbed::models {
struct Machine;
}  // namespace meshbed::models

namespace meshbed::testbed {

struct SlotGraph;

/// Megakernels, one a rank: their slots, their scheduling, their faults, and the times of operations.
struct Megakernel {
  std::string program = "all_reduce";      // one of ring_program_names(), or a slot graph file
  std::shared_ptr<const SlotGraph> graph;  // of that file, or of a generator; nullptr: another program
  bool strict = false;                     // the ancestor's quirks (plugin/ring/kernel/kernel.h)
  bool by_priority = false;                // the priority kernel; queue alone
  std::string initiation = "host";         // host device; of decode also launch, and all: one after the other
  bool one_shot = false;                   // how all_reduce, all_gather and decode exchange: else round the ring
  std::string forward;                     // of one-shot: plugin ranks; empty in the file: derived from the cabling
  int layers = 60;                         // of decode
  int proxies = 1;                         // threads of the host that serve a rank's peers, each its share of them
  std::string queue = "direct";            // direct gin fifo ibgda: the path between lanes and proxy, or NIC
  int queue_depth = 0;                     // of the others; 0: their own default
  int doorbell_every = 1;                  // of ibgda: WQEs of a queue pair
  bool reserves = false;                   // likewise: a place is reserved by fetch-and-add, then waited for
  bool fuses = true;                       // likewise: a PUT and its SIGNAL are one descriptor and one message
  bool other_flag_qp = false;              // a message's flag goes over another queue pair than its data
  int rings = 1;                           // a rank has
  int slots = 0;                           // of the ring; 0: the program's, or 64 of a queue
  int lanes = 0;                           // 0: one a slot in strict mode, else 8
  int parts = 4;                           // of fused_all_reduce, pipeline and task_graph
  int splits = 1;                          // of decode: slots that share a layer's compute
  Picoseconds compute_ps = 0;
  std::vector<double> speed;  // by rank: its computes take time / speed; empty: 1 of all
  // moe with a routing
  std::string routing;          // a matrix' file, or "random"; empty: none
  int tokens = 0, experts = 0;  // of a random routing: of each rank, of all ranks
  int top_k = 0;                // experts of a token; 0: all that the matrix names, or one
  int hidden = 0;               // elements of a token
  int dispatch_extra = 0;       // bytes beside them on the way to experts: scales, the token's number
  int message_tokens = 0;       // of each message; 0: all that a rank has for an expert
  std::string phase = "both";   // dispatch combine both
  std::string dispatch_dtype = "f8e4m3", combine_dtype = "bfloat16";
  // queue
  int items = 1000;
  std::string arrivals = "all";  // all constant poisson
  Picoseconds arrival_gap_ps = 0;
  int tenants = 1;
  std::vector<int> priorities;                         // weights of CRITICAL to IDLE; empty: NORMAL alone
  std::vector<std::string> mix;                        // "add:3", weights by kind; empty: adds
  std::uint64_t quota = 0;                             // claims of each tenant; 0: no limit
  std::string recording;                               // of a ring, whose items replace generated ones; empty: none
  std::shared_ptr<const ring::RecordedWork> recorded;  // what it shows
  // faults
  int faulty_item = -1;
  int masked_tenant = -1;
  Picoseconds masked_at_ps = 0;
  int stopped_rank = -1;
  int stopped_after = 0;               // slots that its kernel has done
  std::string ordering = "ordered";    // ordered unordered counted: see testbed/workload/megakernel/landings.h
  Picoseconds unordered_delay_ps = 0;  // data land so long after their arrival, at most
  bool waits_first = false;            // the host publishes a program's WAITs before its other slots
  bool when_ready = false;             // the host publishes a slot once those of its rank that it needs are done
  // modelled times; testbed/workload/megakernel/times.h states the sources of the figures
  Picoseconds watchdog_ps = 0, launch_ps = 0, publish_ps = 0, claim_ps = 0, poll_ps = 0, doorbell_ps = 0, flag_ps = 0;
  std::uint64_t memory_bps = 0;  // of REDUCE and COPY; 0: they cost nothing
  Picoseconds visibility_ps = 0, post_ps = 0, credit_ps = 0, pass_ps = 0;
  Picoseconds device_doorbell_ps = 0;   // instead of doorbell if the device initiates
  Picoseconds operation_launch_ps = 0;  // initiation = launch: of each operation's kernel
  // places for blocks, which lanes are; 0 SMs: as many as there are lanes
  int sms = 0, held_sms = 0, blocks_per_sm = 1;
  std::string profile;                         // its name; empty: none
  std::map<std::string, std::string> sources;  // by field: its source in the profile
};

struct Workload {
  WorkloadKind kind = WorkloadKind::kCollective;
  // kCollective
  std::string collective = "all_reduce";  // one of models::collective_names()
  std::uint64_t bytes = 0;                // as nccl-tests counts it: all_reduce S, all_gather the whole output ...
  std::string dtype = "float";
  std::string op = "sum";
  std::string algorithm = "auto";   // one of algorithm_names()
  std::string protocol = "simple";  // one of protocol_names()
  std::string tuning;               // file of a tuning table; relative to the scenario file
  int iterations = 1;
  int warmup = 0;
  bool in_place = true;
  int channels = 1;
  std::vector<int> channel_devices;  // empty: channel c opens device c % devices
  std::uint64_t slice_bytes = 0;     // 0: the engine's default
  int root = 0;
  int shift = 1;             // sendrecv: rank r sends to (r + shift) % ranks
  std::vector<int> senders;  // sendrecv: the ranks that send; empty: all
  int late_rank = 0;
  int late_iteration = 0;
  Picoseconds late_by_ps = 0;   // 0: no rank is late
  int differing_rank = -1;      // calls with half of the bytes; -1: none does
  bool start_and_wait = false;  // calls that do not block; not a key of the file: run --zernel-duration enqueue
  bool tell_calls =
      false;  // ranks of other processes report the times of their calls; not a key either: for run's telemetry
  // kMatrix
  int cases = 200;
  // kReconnect
  int receives = 1;  // on each connection
  int parts = 1;     // of each: more than one make it a grouped receive
  bool gpu_memory = false;
  bool shared_data = false;  // all ranks have the same buffers
  // kNcclCalls
  std::string recording;       // file of recorded calls (JSON lines); relative to the scenario file
  bool other_devices = false;  // nodes may have more or fewer devices than were recorded: d is d % devices
  Megakernel megakernel;       // kMegakernel
  // kProgram
  std::string program;                 // a file with a main(); relative to the scenario file
  std::vector<std::string> arguments;  // argv[1] and on
  std::string nccl = "drop-in";        // its libnccl.so.2: "drop-in", "system", or a file: nccl_library.h
  int busy_limit_s = 60;               // of wall-clock time; 0: none
  int output_limit_mib = 256;          // of all ranks together, on standard output and standard error
  // all
  int nodes = 0;                    // that run ranks, from the first on; 0: all
  std::vector<int> ranks_per_node;  // of each node; empty: equal on all, or one a GPU, or one if GPUs are not given.
                                    // Their placement is Scenario::rank_nodes
  bool is_round_robin = false;      // rank by rank another node, rather than one node after the other
  std::string net_plugin;           // empty: the project's own
  int net_version = 0;              // 0: the newest that the plugin has
};

/// A fault: what happens, when and where. Carried out by testbed/scenario/fault_board.h in the simulated and in the
/// emulated world.
struct Fault {
  FaultKind kind = FaultKind::kLoss;
  std::string point = "start";  // start iteration: the origin of at_ps
  int iteration = 0;            // of that point
  Picoseconds at_ps = 0;        // in the world's own time
  Picoseconds duration_ps = 0;  // 0: for ever
  std::string target;           // name of a cable, switch or node, or "node/device"
  double amount = 0;            // in its unit: a fraction, ps, bits/s
  AmountUnit unit = AmountUnit::kFraction;
  models::IpPrefix address = {};  // address_change: the new one
  std::string status = "access";  // refuse: a name of kRefusals
  // strangers
  std::string from;               // the node that they come from
  int connections = 0;            // to each port at one time
  Picoseconds byte_every_ps = 0;  // of each; 0: they send nothing
};

/// The status with which a peer's requests end at a port that refuses them.
inline constexpr const char* kRefusals[] = {"access", "not-ready"};  // IBV_WC_REM_ACCESS_ERR, IBV_WC_RNR_RETRY_EXC_ERR

/// The scenario's expectations; empty members are not checked.
struct Expect {
  std::optional<std::uint64_t> wrong;
  std::optional<double> max_over_bound;  // time / closed-form lower bound
  std::optional<double> min_busbw_GBps;
  std::optional<double> rail_balance;  // largest relative difference of bytes between a node's cabled NICs
  std::optional<std::uint64_t> connections;
  // Payload over the ranks' sockets, bootstrap and data alike.
  std::optional<std::uint64_t> min_socket_bytes{}, max_socket_bytes{};
  std::optional<std::uint64_t> max_strangers;  // connections of strangers that the ranks held at one time
  std::optional<Picoseconds> max_run_time_ps;  // simulated, from the start to the end of the last rank
  std::vector<std::pair<std::string, std::string>> unreachable;  // node pairs that must have no direct path
  std::optional<std::string> lost;      // the node that loses its power: see check_expectations()
  std::optional<std::string> watchdog;  // how a rank's ring must end: a name of ring::Cause
  std::optional<std::string> error;     // the run must fail, and its error must contain this text
};

/// The cost of the ranks' software in virtual time.
inline constexpr const char* kIdealProfile = "ideal";  // nothing
struct Software {
  std::string profile = kIdealProfile;
  std::shared_ptr<const models::Machine> machine;  // nullptr: ideal
  bool own_protocol = false;                       // the protocol is the class's own choice, as its library makes it
};

struct Scenario {
  std::string name;  // the file's stem unless `name` is given
  std::string path;
  std::string description;
  std::vector<std::string> assumed = {};  // values that no file contained (testbed/import): "WHAT: VALUE; QUESTION"
  std::uint64_t seed = 1;
  models::Cluster cluster;
  Workload workload;
  std::vector<int> rank_nodes;  // [rank] the node that it runs on; empty: one rank a node
  Software software;
  std::string fabric = "auto";         // auto fluid chunk
  bool fold = true;                    // a replay: one rank represents all that are provably alike
  std::string replay_detail = "data";  // data plugin
  std::string replay_schedule;         // a file beside the scenario, or in the current folder; empty: none
  double time_limit_s = 3600;          // simulated
  std::vector<Fault> faults;
  Expect expect;
  std::vector<std::string> overrides;  // the --set arguments, as given
};

/// The override "cabling=FILE" takes topology, nodes, cables, switches, routers and the management network of another
/// scenario file, instead of those of this one. FILE is relative to the working folder.
inline constexpr const char* kCablingKey = "cabling";

/// Reads `path`, applies `overrides` ("section.key=value", TOML values; bare words are taken as strings), generates the
/// topology where [topology] asks for one, derives GID tables and rates, validates all. Throws ScenarioError.
Scenario read_scenario(const std::string& path, const std::vector<std::string>& overrides);
/// The same from memory; `name_for_errors` stands for the file. Never crashes, whatever the text (it is fuzzed).
Scenario parse_scenario(const std::string& text, const std::string& name_for_errors,
                        const std::vector<std::string>& overrides);

/// The text of the file that read_scenario() would read; throws UnreadableScenario.
std::string read_scenario_text(const std::string& path);
/// What the text, with those overrides, gives for a key as --set takes it ("workload.bytes", "node.node1.gpus");
/// nullopt: none. A string is returned without its quotes, any other value as TOML.
std::optional<std::string> value_of_key(const std::string& text, const std::vector<std::string>& overrides,
                                        const std::string& key);

/// The path of a file that the scenario file names (recording, tuning), relative to that file's folder.
std::string path_beside(const Scenario& scenario, const std::string& name);

/// The field dictionary as Markdown: the contents of scenarios/README.md.
std::string scenario_dictionary();

}  // namespace meshbed::testbed
