#include "plugin/coll/api/launcher.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "plugin/coll/store/job_key.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {
namespace {

using Variables = std::function<std::optional<std::string>(const char* name)>;

constexpr char kAddress[] = "MASTER_ADDR", kPort[] = "MASTER_PORT";
constexpr int kDefaultPort = 29500, kPortMost = 65535;

struct LauncherNames {
  const char* rank;
  const char* world;
};
constexpr std::array<LauncherNames, 3> kLaunchers{
    {{"RANK", "WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}}};
constexpr LauncherNames kTorch = kLaunchers[0], kMpi = kLaunchers[1];

Error wrong(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

Result<int> number_of(const Variables& variable, const char* name, int least, int most) {
  const std::string text = variable(name).value_or("");
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && stop == text.data() + text.size() && number >= least && number <= most) return number;
  return wrong(std::string(name) + " is \"" + text + "\"; set a number from " + std::to_string(least) + " to " +
               std::to_string(most));
}

Result<Launch> read_ranks(const Variables& variable, const LauncherNames& names) {
  constexpr int kWorldMost = 1 << 20;
  Launch launch;
  const auto world = number_of(variable, names.world, 1, kWorldMost);
  if (!world) return world.error();
  const auto rank = number_of(variable, names.rank, 0, *world - 1);
  if (!rank)
    return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                 rank.error().text + " (" + names.world + " is " + std::to_string(*world) + ")"};
  launch.world = *world;
  launch.rank = *rank;
  return launch;
}

/// "rack[1-2]gpu[03-04,07],login" begins with "rack1gpu03". Empty: a bracket is not closed.
std::string first_node(const std::string& list) {
  std::string node;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      node += list[at];
      continue;
    }
    const std::size_t close = list.find(']', at), end = list.find_first_of("-,]", at);
    if (close == std::string::npos) return "";
    node += list.substr(at + 1, end - at - 1);
    at = close;
  }
  return node;
}

struct RankPlace {
  const char* variable;
  std::string name;
};

Result<RankPlace> place_of(const Variables& variable, const Launch& launch) {
  if (const auto address = variable(kAddress)) return RankPlace{kAddress, *address};
  if (variable(kMpi.rank)) {
    const auto local = variable("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (local && *local == std::to_string(launch.world)) return RankPlace{kMpi.world, "127.0.0.1"};
    return wrong(std::string(kAddress) + " is not set, and mpirun does not say where rank 0 is: mpirun -x " + kAddress +
                 "=ADDRESS");
  }
  constexpr char kNodes[] = "SLURM_STEP_NODELIST";
  if (const auto nodes = variable(kNodes)) {
    const std::string node = first_node(*nodes);
    if (node.empty()) return wrong(std::string(kNodes) + " is \"" + *nodes + "\"; set " + kAddress);
    return RankPlace{kNodes, node};
  }
  return wrong(std::string(kAddress) + " is not set: set it to rank 0's address on the management network");
}

Result<SocketAddress> resolve(const RankPlace& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int code = getaddrinfo(place.name.c_str(), nullptr, &hints, &first);
  const std::string what = std::string(place.variable) + ": \"" + place.name + "\" ";
  if (code != 0) return wrong(what + "is no address and no name that is known here: " + gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(first, &freeaddrinfo);
  const auto address = from_sockaddr(first->ai_addr);
  if (!address) return wrong(what + "is neither an IPv4 nor an IPv6 address");
  // Debian gives a machine's own name an address of the loopback; the other machines would look for it on themselves.
  const bool is_name = !parse_ip_address(place.name) && place.name != "localhost";
  const bool loopback = address->address.family == Family::kIpv4 && address->address.bytes[0] == IN_LOOPBACKNET;
  if (is_name && loopback) {
    return wrong(what + "is " + to_text(*address) + " here, which no other machine reaches: set " + kAddress +
                 " to an address");
  }
  return *address;
}

/// A RANK that was exported for all of mpirun's ranks is no rank's number.
Result<void> check_agreement(const Variables& variable) {
  const auto ours = variable(kTorch.rank), mpi = variable(kMpi.rank);
  if (!ours || !mpi || *ours == *mpi || variable("TORCHELASTIC_RUN_ID")) return ok();
  return wrong(std::string(kTorch.rank) + " is \"" + *ours + "\", but " + kMpi.rank + " is \"" + *mpi + "\": unset " +
               kTorch.rank + " and " + kTorch.world);
}

}  // namespace

bool has_launcher(const Variables& variable) {
  return std::any_of(kLaunchers.begin(), kLaunchers.end(),
                     [&](const LauncherNames& names) { return variable(names.rank).has_value(); });
}

Result<Launch> read_launcher(const Variables& variable) {
  const LauncherNames* names = nullptr;
  for (const LauncherNames& one : kLaunchers) {
    if (names == nullptr && (variable(one.rank) || variable(one.world))) names = &one;
  }
  if (names == nullptr) {
    return wrong("no launcher has set a rank: start with torchrun, mpirun or srun, or set RANK and WORLD_SIZE");
  }
  const auto agreed = check_agreement(variable);
  if (!agreed) return agreed.error();
  auto launch = read_ranks(variable, *names);
  if (!launch || launch->world == 1) return launch;
  const auto place = place_of(variable, *launch);
  if (!place) return place.error();
  const bool taken = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  int port = kDefaultPort;
  if (variable(kPort)) {
    const auto given = number_of(variable, kPort, 1, taken ? kPortMost - 1 : kPortMost);
    if (!given) return given.error();
    port = *given;
  }
  auto address = resolve(*place);
  if (!address) return address.error();
  address->port = static_cast<std::uint16_t>(taken ? port + 1 : port);
  auto bootstrap = with_job_key(to_text(*address), variable(kJobKeyVariable));
  if (!bootstrap) return bootstrap.error();
  launch->bootstrap = std::move(*bootstrap);
  return launch;
}

}  // namespace meshbed::coll
