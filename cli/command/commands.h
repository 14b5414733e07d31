#pragma once
// All subcommands of meshbed, each in a file of the same name in this folder or, for meshbed-tools, in tools/.
// commands.def has the table of them.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

/// meshbed run SCENARIO: runs the scenario's workload, proves the result, and leaves it under results/.
int run_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed perf OP: a sweep over sizes with nccl-tests' flags and columns, in virtual time.
///
/// Every iteration is checked, not only one a size. Virtual time repeats exactly, so few iterations say all.
int perf_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed compare: two runs of one scenario in two worlds, joined message by message.
///
/// Same files, same NICs and routes, same messages in the same order on each connection (or, where a connection broke,
/// the same messages arrived: compare_messages.h), same result bytes, same errors: a difference is a failure, and the
/// first diverging message is named. Times are shown and never compared.
int compare_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed record: runs a scenario, writes which messages it had and what each waited for, and replays that at once
/// beside the run.
int record_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed topo: looks at a scenario's cluster without running anything.
///
/// meshbed topo check FILE [--all] [--set KEY=VALUE]..., meshbed topo draw FILE [-o FILE.svg].
/// check and rules print the findings (testbed/scenario/findings) as well. 0: done; 1: a finding is an error; 2: usage.
/// Throws ScenarioError for a file that cannot be read.
int topo_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed lint: the findings (testbed/scenario/findings) of scenario files, and what is refused when they are read.
///
/// meshbed lint [--set KEY=VALUE]... [--json] FILE..., --checks or --dictionary. 0: no errors; 1: errors; 2: a file
/// does not exist or cannot be read. Throws on options that do not exist.
int lint_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed env: every variable that the net plugin reads, with the value in force and where it comes from.
int env_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed doctor: which worlds this machine can run, and what is missing. Looks, and changes nothing.
int doctor_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// `meshbed conformance PLUGIN.so`: does a net plugin keep the rules that NCCL relies on? For every version of the
/// table that the file has, in virtual time, in virtual machines or over real devices.
int conformance_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed conformance ptx: does the PTX interpreter compute what the GPU that the process finds computes. Status 1
/// where a form differs, 2 where there is no CUDA.
int conformance_ptx_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed fuzz --faults: runs random fault schedules (fault_schedule.h) in the simulated world, each in a process of
/// its own, and says which of them end with wrong data, a broken proof, an error, or not at all.
int fuzz_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// `meshbed fuzz --explore`: every order in which two ranks can make the calls of small programs, and the wire deliver
/// between them, on a net plugin in virtual time. No order may end in a deadlock, lose a request, leave anything
/// behind, or give an error where the program is right.
int explore_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed tune: which algorithm and protocol is the fastest on a scenario's cabling, size by size, as a table that the
/// engine and NCCL's example tuner read (plugin/coll/plan/tuning.h).
int tune_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed sweep: a scenario's variants, run side by side, as one table. 0: every point has a row; 1: with --strict,
/// a point failed; 2: usage.
int sweep_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed plan: every cabling of so many nodes, the best of them run, ranked by time, price and the loss of a cable.
/// 0: a plan was made; 2: usage, or no cabling meets the request.
int plan_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed diagnose: what went wrong with a job: facts and causes with their lines, from logs, results and scenarios.
/// 0: read, with causes or without; 2: usage, or a file that is none of the formats.
int diagnose_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed collect: one archive with what this node knows of its NICs, network and GPUs; --script prints the shell
/// script that does it. 0: the archive was written, also where parts are missing in it.
int collect_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed init [PATH...]: a scenario of what files of machines contain, each value with its source. 0: it can be run;
/// 1: a finding is an error; 2: usage, or nothing could be read.
int init_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed export SCENARIO --to FORMAT: the scenario's cluster as files of other tools (testbed/export).
int export_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed report RESULTS... [-o FILE.html]: results of runs and sweeps as one HTML file that needs nothing beside it.
int report_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// `meshbed serve RESULTS|--live`: over HTTP and WebSocket what zernel serves, the streams of records, and the report.
/// Ends with 130 at SIGINT. Writes nothing.
int serve_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed models: which profiles of machines there are (models/profiles), and what one is made of: every value with
/// its source, and a prediction in parts.
int models_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed validate: what the profiles predict of measured files, point by point, beside three naive models.
int validate_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed calibrate: the few unknown values of a class of machines, fitted to measured files, as a profile.
int calibrate_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed calibrate gpu: what the GPU that the process finds takes for launches, waits, copies, atomics and words of
/// memory, as a model of that GPU. Throws where there is no CUDA.
int calibrate_gpu_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed fidelity: how good the models are over all measured files, as a page and plots (results/fidelity).
int fidelity_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed bench: what a simulated message, a rank and a library copy cost on this machine.
///
/// Speed is CPU time (never wall time) and comes with its provenance; nothing here is a test.
int bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed ring dump|check|replay|bench|policy|quirks: a megakernel's work ring. dump, check and replay read buffers
/// and recordings from files; bench measures; policy says how a launch would be made; quirks lists what strict mode
/// does as the ancestor did.
int ring_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed emu up|down|status: a scenario's cluster in this host's own kernel, until it is taken down.
///
/// 0: done, or nothing to do; 1 (status): a set-up was broken off and is to be taken down.
int emu_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed shell: a scenario's cluster in virtual machines, and a shell in one of its nodes.
///
/// Boots all nodes of the scenario; standard input and output are those of a shell in NODE, as root of that machine, on
/// the real rdma-core. When the shell ends (or standard input does), so do the machines, and the status is the shell's;
/// 1 where a machine was in trouble.
int shell_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed exec: any program, once a rank, in the nodes of a scenario's emulated cluster, over the real rdma-core.
///
/// The status is that of the first rank, in their order, that did not end with 0; 1 where a machine was in trouble, 3
/// where the time limit came first.
int exec_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed cuda run PROGRAM: an unmodified CUDA program, linked with nvcc -cudart shared, on a simulated GPU.
///
/// The program takes this process's place: its exit status is the program's. Throws where it cannot meet the simulated
/// CUDA (a statically linked runtime, another version).
int cuda_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed nccl check LIBRARY: what a libnccl.so that its user has built holds, and on which simulated GPUs it runs.
/// 0: on one at least; 1: on none; throws where the file is no NCCL.
int nccl_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed nccl compare: a sweep on that NCCL and on the drop-in, beside the bound, in virtual time. 1: a run did not
/// end well, or a result was wrong.
int nccl_compare_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed state: the operations of running jobs' mesh plugins on this machine, and the peers that they wait for.
int state_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// meshbed zernel: reads streams of zernel's records back, and prints what zernel would say of them.
int zernel_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
