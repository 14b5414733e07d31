// The field tables: megakernels.

#include "models/cluster.h"
#include "models/topology_generate.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

constexpr int kRingSlotsMost = 1 << 20;  // the limit of the ancestor's encoders
constexpr int kRingLanesMost = 4096;
constexpr int kProgramPartsMost = 16;
constexpr int kQueueDepthMost = 1 << 16;
constexpr int kRingsMost = 16, kProxiesMost = 16;
constexpr int kSplitsMost = 256, kExpertsMost = 4096, kHiddenMost = 1 << 20;
constexpr int kTokensMost = 1 << 16, kExtraBytesMost = 1 << 20;
constexpr int kLayersMost = 4096, kSmsMost = 4096, kBlocksPerSmMost = 64;

const Section<MegakernelSpec> kMegakernel{
    "[workload.megakernel]",
    "A persistent kernel on each rank and what is published into its ring; times are parameters, see "
    "testbed/workload/megakernel/times.h. Simulated world only.",
    {
        {"program", "text", "'all_reduce'",
         "all_reduce, all_gather, fused_all_reduce, pipeline or moe: steps of a collective, over the net plugin, "
         "`bytes` "
         "as the collective has them; decode: a token's `layers`, each `compute` and an all_reduce of `bytes`; "
         "task_graph: "
         "`layers` steps of `parts` tasks a rank, which need tasks of the step before, their own and the next rank's "
         "(whose result has `bytes`; 0: a flag alone); queue: "
         "`items` that arrive, without a network; or a file relative to this one, FILE.toml or FILE.jsonl: a slot "
         "graph "
         "(docs/megakernel.md; `meshbed ring program` prints the others as such)",
         [](const Value& v, MegakernelSpec& s) {
           std::string name;
           v.text(name);
           if (is_slot_graph_file(name)) {
             s.value.program = name;
           } else {
             v.choice(s.value.program, ring_program_names());
           }
         }},
        {"mode", "text", "'safe'", "strict: with the quirks of vyre's megakernel; safe: without",
         [](const Value& v, MegakernelSpec& s) {
           std::string mode = "safe";
           v.choice(mode, {"strict", "safe"});
           s.value.strict = mode == "strict";
         }},
        {"kernel", "text", "'plain'", "plain, or priority (with program = 'queue' or a file)",
         [](const Value& v, MegakernelSpec& s) {
           std::string kernel = "plain";
           v.choice(kernel, {"plain", "priority"});
           s.value.by_priority = kernel == "priority";
         }},
        {"initiation", "text", "(host; of queue = 'ibgda' device)",
         "who hands messages to the NIC: host (a proxy) or device (which has `device_doorbell` and no `post`; the same "
         "net plugin carries both); of all_reduce, all_gather and decode also launch (a kernel for each operation, its "
         "messages by the proxy); of decode all: the three one after the other, for comparison",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.initiation, {"host", "device", "launch", "all"});
         }},
        {"exchange", "text", "'ring'",
         "all_reduce, all_gather and decode: ring, the engine's plan; one-shot: each rank puts all of its input to "
         "each "
         "other, and adds up in rank order",
         [](const Value& v, MegakernelSpec& s) {
           std::string exchange = "ring";
           v.choice(exchange, {"ring", "one-shot"});
           s.value.one_shot = exchange == "one-shot";
         }},
        {"forward", "text", "(ranks where each has a cable to the one before and the one after it alone, else plugin)",
         "one-shot, how bytes come to a rank without a cable: ranks, neighbours pass on what they got, half of it from "
         "each side; plugin, messages of their own over the plugin's relays",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.forward, {"plugin", "ranks"});
         }},
        {"layers", "integer", "60", "decode: of a token; task_graph: its steps",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.layers, {1, kLayersMost});
         }},
        {"queue", "text", "'direct'",
         "how a program's PUT and SIGNAL reach the proxy: direct: at once, without end; gin: as descriptors of NCCL's "
         "GIN proxy, in a queue for each peer, whose places are given back as they complete in order; fifo: as "
         "triggers "
         "of MSCCL++, in one queue, whose places are given back as they are posted; ibgda: as WQEs in each queue "
         "pair's "
         "own send queue, for the NIC, which looks at a doorbell",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.queue, {"direct", "gin", "fifo", "ibgda"});
         }},
        {"doorbell_every", "integer", "1",
         "of ibgda: a doorbell for so many WQEs of a queue pair, and for the last one of an iteration; DeepEP: 4",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.doorbell_every, {1, kQueueDepthMost});
         }},
        {"proxies", "integer", "1",
         "threads of each rank that carry its messages, each for its share of the peers: the distance from the rank, "
         "modulo proxies; UCCL: 4",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.proxies, {1, kProxiesMost});
         }},
        {"queue_depth", "integer", "0",
         "places of each such queue, a power of two; a lane that finds none waits; 0: 256 of gin, 512 of fifo, 128 "
         "of ibgda",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.queue_depth, {0, kQueueDepthMost});
         }},
        {"reserve", "text", "'if-free'",
         "of gin, fifo and ibgda, how a lane takes a place: if-free: once there is one; fetch-add: as NCCL's GIN and "
         "MSCCL++, "
         "by "
         "an addition to the head at once, and then it waits for that place, so that the head may run ahead of the "
         "queue",
         [](const Value& v, MegakernelSpec& s) {
           std::string how = "if-free";
           v.choice(how, {"if-free", "fetch-add"});
           s.value.reserves = how == "fetch-add";
         }},
        {"put_and_signal", "text", "(fused; of ibgda apart)",
         "of gin, fifo and ibgda: fused, one descriptor and one message, as NCCL's GIN (ops 9 and 17) and MSCCL++ "
         "(TriggerData "
         "with TriggerFlag) have them; apart, one of each for the PUT and one for its SIGNAL",
         [](const Value& v, MegakernelSpec& s) {
           std::string fused = "fused";
           v.choice(fused, {"fused", "apart"});
           s.value.fuses = fused == "fused";
         }},
        {"flag_qp", "text", "'same'",
         "same: a message's data and its flag go over one queue pair, in this order; other: the flag is a message of 8 "
         "bytes on a queue pair of its own, and may overtake the data, as on hardware: flag-before-data",
         [](const Value& v, MegakernelSpec& s) {
           std::string which = "same";
           v.choice(which, {"same", "other"});
           s.value.other_flag_qp = which == "other";
         }},
        {"rings", "integer", "1",
         "of each rank: each with slots, lanes and connections of its own and its share of `bytes` or of the items; "
         "one host and one proxy have them all; decode has one ring",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.rings, {1, kRingsMost});
         }},
        {"slots", "integer", "0",
         "of the ring; 0: one for each of the program's, 64 of a queue; of fewer than the program has each is used "
         "again "
         "once it is done",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.slots, {0, kRingSlotsMost});
         }},
        {"lanes", "integer", "0", "each is a block of its own; 0: 8, or one a slot in the plain kernel's strict mode",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.lanes, {0, kRingLanesMost});
         }},
        {"splits", "integer", "1", "decode: slots that share a layer's `compute`, so that lanes do it side by side",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.splits, {1, kSplitsMost});
         }},
        {"speed", "list of numbers", "(1 of each rank)",
         "programs that compute, but no file: of each rank; its computes take time / speed, as in [1, 1, 0.8, 1]",
         [](const Value& v, MegakernelSpec& s) {
           v.numbers(s.value.speed, {0.001, 1000});
         }},
        {"routing", "text", "''",
         "moe: a matrix, relative to this file: a line a token, a score for each expert; or random, drawn from the "
         "seed; "
         "ranks share tokens and experts evenly, in their order, and messages are as large as their tokens",
         [](const Value& v, MegakernelSpec& s) { v.text(s.value.routing); }},
        {"tokens", "integer", "128", "routing = 'random': of each rank",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.tokens, {1, kTokensMost});
         }},
        {"experts", "integer", "256", "routing = 'random': of all ranks; a token's are as likely as any others",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.experts, {1, kExpertsMost});
         }},
        {"top_k", "integer", "0",
         "of the routing: experts of a token; 0: all with a score above 0, and 8 of a random one",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.top_k, {0, kExpertsMost});
         }},
        {"hidden", "integer", "7168", "likewise: elements of a token",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.hidden, {1, kHiddenMost});
         }},
        {"dispatch_extra", "integer", "0",
         "likewise: bytes beside a token's elements on its way to an expert, as DeepEP's scales and header: 240",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.dispatch_extra, {0, kExtraBytesMost});
         }},
        {"message_tokens", "integer", "0",
         "likewise: tokens of each message; 1 as DeepEP's low-latency kernels; 0: all that a rank has for an expert",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.message_tokens, {0, kTokensMost});
         }},
        {"phase", "text", "'both'", "likewise: dispatch or combine alone, as benchmarks time them, or both",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.phase, {"both", "dispatch", "combine"});
         }},
        {"dispatch_dtype", "text", "'f8e4m3'", "likewise: of tokens on their way to experts",
         [](const Value& v, MegakernelSpec& s) { v.choice(s.value.dispatch_dtype, data_type_names()); }},
        {"combine_dtype", "text", "'bfloat16'", "likewise: of tokens on their way back",
         [](const Value& v, MegakernelSpec& s) { v.choice(s.value.combine_dtype, data_type_names()); }},
        {"parts", "integer", "4",
         "tiles of fused_all_reduce, micro-batches of pipeline, tasks of task_graph (each step)",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.parts, {1, kProgramPartsMost});
         }},
        {"compute", "time", "'0s'",
         "of each tile, stage, expert's block, layer, or task; of moe with `routing` of each token at an expert; whole "
         "nanoseconds",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.compute_ps); }},
        {"items", "integer", "1000", "queue: so many arrive at each rank",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.items, {1, 10'000'000});
         }},
        {"arrivals", "text", "'all'", "queue: all at once, or constant or poisson with arrival_gap between them",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.arrivals, {"all", "constant", "poisson"});
         }},
        {"arrival_gap", "time", "'0s'", "queue: on average",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.arrival_gap_ps); }},
        {"tenants", "integer", "1", "queue: items are of one of them, each as likely as the others",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.tenants, {1, 29});
         }},
        {"priorities", "list of integers", "(all NORMAL)",
         "queue, priority kernel: weights of CRITICAL, HIGH, NORMAL, LOW and IDLE",
         [](const Value& v, MegakernelSpec& s) {
           v.integers(s.value.priorities, {0, 1'000'000});
         }},
        {"mix", "list of texts", "(adds)",
         "queue: kinds of slots with their weights, as in ['add:3', 'nop']: nop, add, packed, printf, load_miss, "
         "compute, "
         "yield, requeue, fault",
         [](const Value& v, MegakernelSpec& s) { v.texts(s.mix); }},
        {"quota", "integer", "0", "queue, safe mode: claims that each tenant has; 0: as many as it likes",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.quota, {0, 0xffff'ffff});
         }},
        {"recording", "text", "''",
         "queue: a ring's recording (plugin/ring/queue/recording.h), relative to the scenario file; what it shows is "
         "published at its times in the place of items that are drawn, into as many slots",
         [](const Value& v, MegakernelSpec& s) { v.text(s.value.recording); }},
        {"faulty_item", "integer", "-1", "queue: this one ends in a fault; -1: none",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.faulty_item, {-1, 10'000'000});
         }},
        {"masked_tenant", "integer", "-1", "its mask is removed at masked_at; -1: none",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.masked_tenant, {-1, 28});
         }},
        {"masked_at", "time", "'0s'", "simulated",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.masked_at_ps); }},
        {"stopped_rank", "integer", "-1", "its kernel stops after stopped_after slots; -1: none",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.stopped_rank, {-1, models::kNodesMax - 1});
         }},
        {"stopped_after", "integer", "0", "slots",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.stopped_after, {0, 1'000'000'000});
         }},
        {"ordering", "text", "'ordered'",
         "what the transport promises of a message: ordered, its flag is seen after its data; unordered, the flag may "
         "come up to unordered_delay before the data; counted, as unordered, and flags count what has landed",
         [](const Value& v, MegakernelSpec& s) {
           v.choice(s.value.ordering, {"ordered", "unordered", "counted"});
         }},
        {"unordered_delay", "time", "'0s'", "unordered, counted: data land so long after a message's arrival, at most",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.unordered_delay_ps); }},
        {"slot_order", "text", "'needs'",
         "a program's slots are published so that each needs only earlier ones, or (waits-first) its WAITs before all "
         "others: lanes that are few wait for what is behind them; ready: each once the slots of its rank that it "
         "needs "
         "are done, so that it holds no lane meanwhile; a WAIT needs nothing of its own rank, and holds one until its "
         "message "
         "comes",
         [](const Value& v, MegakernelSpec& s) {
           std::string order = "needs";
           v.choice(order, {"needs", "waits-first", "ready"});
           s.value.waits_first = order == "waits-first";
           s.value.when_ready = order == "ready";
         }},
        {"watchdog", "time", "'10ms'",
         "the host looks so often; nothing done twice in a row ends the ring with a verdict",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.watchdog_ps); }},
        {"sms", "integer", "0", "of the GPU; blocks beyond its places never run; 0: as many places as lanes",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.sms, {0, kSmsMost});
         }},
        {"held_sms", "integer", "0", "of these: held by other grids that stay",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.held_sms, {0, kSmsMost});
         }},
        {"blocks_per_sm", "integer", "1", "that one SM holds at once, by what a block needs",
         [](const Value& v, MegakernelSpec& s) {
           v.integer(s.value.blocks_per_sm, {1, kBlocksPerSmMost});
         }},
        {"profile", "text", "''",
         "times, rates and places for all fields below, `sms` and `blocks_per_sm`, where this file says nothing: a "
         "shipped profile's name (models/profiles) or a file relative to this one",
         [](const Value& v, MegakernelSpec& s) { v.text(s.value.profile); }},
        {"launch", "time", "'50us'", "of the kernel, once (RFC target of vyre's, no measurement)",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.launch_ps); }},
        {"publish", "time", "'200ns'", "the host writes a slot (RFC target of vyre's, no measurement)",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.publish_ps); }},
        {"claim", "time", "'0s'", "a lane claims a slot; no published figure",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.claim_ps); }},
        {"poll", "time", "'0s'", "until a lane sees a published slot or a raised flag; likewise",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.poll_ps); }},
        {"doorbell", "time", "'0s'", "from SIGNAL until the proxy (or, device-initiated, the NIC) acts on it; likewise",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.doorbell_ps); }},
        {"flag", "time", "'0s'", "from a message's arrival until its flag is raised in the kernel's memory; likewise",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.flag_ps); }},
        {"visibility", "time", "'0s'", "from a slot's publication until a lane can see it",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.visibility_ps); }},
        {"post", "time", "'0s'",
         "the proxy hands one message to the NIC; of ibgda a lane, or with initiation = 'host' a proxy, rings a "
         "doorbell",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.post_ps); }},
        {"device_doorbell", "time", "(doorbell)", "in its place where the device initiates: work request and doorbell",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.device_doorbell_ps); }},
        {"credit", "time", "'0s'",
         "from a message's completion until FENCE sees it, and from the end of a descriptor (gin: completed, fifo: "
         "posted) "
         "until a lane sees its place free",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.credit_ps); }},
        {"proxy_pass", "time", "'0s'", "of the proxy: one look at all its queues and connections, found or not",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.pass_ps); }},
        {"operation_launch", "time", "(launch)", "initiation = 'launch': of each operation's kernel",
         [](const Value& v, MegakernelSpec& s) { v.time(s.value.operation_launch_ps); }},
        {"memory_rate", "rate", "(REDUCE and COPY cost nothing)", "of a lane: bytes that it reads and writes",
         [](const Value& v, MegakernelSpec& s) { v.rate(s.memory_rate_bps); }},
    }};

}  // namespace

template <>
const Section<MegakernelSpec>& section_of<MegakernelSpec>() {
  return kMegakernel;
}

}  // namespace meshbed::testbed
