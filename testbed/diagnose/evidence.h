#pragma once
// Evidence: what files say about a job: facts, signs of causes, and what the readers found for the reasoning that needs
// several lines. A Case is filled by the readers (testbed/diagnose/read) and judged by reason(). Values; one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "testbed/diagnose/causes/causes.h"
#include "testbed/result/document.h"

namespace meshbed::testbed::diagnose {

/// A limit of locked memory below this is a sign of kMemlock: connections of one job lock gigabytes.
inline constexpr std::uint64_t kEnoughMemlockBytes = std::uint64_t{4} << 30U;

/// Where something was read.
struct Line {
  std::string file;
  std::size_t number = 0;  // from 1; 0: the file as a whole
  std::string text;        // as it stands there, cut at kLineShown bytes
};
inline constexpr std::size_t kLineShown = 1000;

struct Fact {
  std::string name;  // "nccl_version", "environment.NCCL_IB_HCA"
  document::Value value;
  Line at;
};

/// A reason to think of a cause.
struct Sign {
  CauseCode cause;
  double weight = 0;  // as Symptom's
  std::string key;    // signs with one key count once, however often they were seen
  std::string says;
  Line at;
};

/// A failed ibv_modify_qp, as NCCL prints it.
struct QueuePairFailure {
  int error = 0;  // errno; 0: not printed
  std::string device, local_gid, remote_gid;
  int gid_index = -1;
  Line at;
};

/// A port as a log describes it.
struct Adapter {
  std::string owner;  // "rank 0", or "host:pid"
  std::string device, netdev;
  double rate_Gbps = 0;                // 0: not said
  std::vector<std::string> addresses;  // with their prefix lengths
  Line at;
};

/// A connection that broke, in the words of Meshbed's plugin.
struct LinkFailure {
  std::string owner;  // who reports it
  std::string peer;   // its address
  bool port_is_down = false;
  Line at;
};

/// What one rank of one communicator has launched.
struct RankProgress {
  std::string communicator;
  int rank = -1;
  std::string operation;      // the last one, with its sizes where known
  std::int64_t launched = 0;  // operations of that kind, or the sequence number
  std::string kind;           // RAS counts each kind by itself
  Line at;
};

class Case {
 public:
  /// Of facts with one name and value the first is kept.
  void add_fact(const std::string& name, document::Value value, const Line& at);
  void add_sign(CauseCode cause, double weight, const std::string& key, const std::string& says, const Line& at);
  /// All symptoms that the line's words match.
  void match(const Line& line);

  const std::vector<Fact>& facts() const { return facts_; }
  const std::vector<Sign>& signs() const { return signs_; }
  bool has_sign(CauseCode cause) const;
  /// Of all signs of the cause together.
  double weight_of(CauseCode cause) const;
  /// The value of a fact; nullptr: none has the name.
  const Fact* find_fact(const std::string& name) const;

  std::vector<QueuePairFailure> queue_pairs;
  std::vector<Adapter> adapters;
  std::vector<LinkFailure> link_failures;
  std::vector<RankProgress> progress;
  std::map<std::string, Line> owners;                 // "rank 0" to its first line
  std::set<std::string> ended;                        // those that closed their connections
  std::map<std::string, Line> failed;                 // the owners that report an error of their own
  std::map<std::string, std::set<std::string>> mtus;  // by communicator or file: MTU fields of queue pairs
  std::map<std::string, Line> mtu_lines;
  std::map<std::string, std::string> environment;
  std::map<std::string, Line> environment_lines;
  std::set<std::string> networks;  // "IB", "Socket", "Mesh": what carries data
  std::map<std::string, Line> network_lines;
  std::vector<std::string> devices;  // of NET/IB : Using
  std::string out_of_band;           // the netdev of the bootstrap
  Line out_of_band_line;
  int nodes = 0;                  // 0: not said
  bool is_spark = false;          // a GB10: no GPU Direct RDMA, and two functions of x4 a port, are normal
  bool late_operation = false;    // a receive that waited for long was done later
  std::set<std::string> formats;  // what was recognised
  std::vector<std::pair<const Symptom*, Line>> to_be_judged;  // of weight 0

 private:
  std::vector<Fact> facts_;
  std::set<std::string> known_facts_;
  std::vector<Sign> signs_;
  std::map<std::string, std::size_t> sign_counts_;
};

/// Signs that need several lines, or a line's addresses. To be called once, when all files are read.
void reason(Case& all);

}  // namespace meshbed::testbed::diagnose
