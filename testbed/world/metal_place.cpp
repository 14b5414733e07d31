#include "testbed/world/metal_place.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <stdexcept>

#include "plugin/coll/store/job_key.h"
#include "testbed/base/environment.h"

namespace meshbed::testbed {
namespace {

struct Names {
  const char* rank;
  const char* ranks;
};
constexpr std::array<Names, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}}};
constexpr const char* kByHand = "by hand: RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 meshbed run --world metal ...";

int number(const char* name, const std::string& text, int lowest, int highest) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest) return value;
  throw std::runtime_error(fmt::format("{}=\"{}\": not a number from {} to {}", name, text, lowest, highest));
}

}  // namespace

MetalPlace metal_place(const Lookup& lookup) {
  constexpr int kRanksMax = 1'000'000;
  MetalPlace place;
  for (const Names& names : kLaunchers) {
    const auto rank = lookup(names.rank), ranks = lookup(names.ranks);
    if (!rank && !ranks) continue;
    if (!rank || !ranks) {
      throw std::runtime_error(fmt::format("--world metal: {} is set, {} is not; {}", rank ? names.rank : names.ranks,
                                           rank ? names.ranks : names.rank, kByHand));
    }
    place.ranks = number(names.ranks, *ranks, 1, kRanksMax);
    place.rank = number(names.rank, *rank, 0, place.ranks - 1);
    place.said_by = fmt::format("{} and {}", names.rank, names.ranks);
    break;
  }
  if (place.said_by.empty()) {
    throw std::runtime_error(fmt::format(
        "--world metal: this process does not know its rank; start one a rank with torchrun, mpirun or srun, or {}",
        kByHand));
  }
  const auto address = lookup("MASTER_ADDR");
  if (!address || address->empty()) {
    throw std::runtime_error(
        "--world metal: MASTER_ADDR is not set: rank 0's address on the management network, the same for all ranks "
        "(mpirun: -x MASTER_ADDR=10.0.0.1)");
  }
  place.address = *address;
  if (const auto port = lookup("MASTER_PORT")) place.port = number("MASTER_PORT", *port, 1, 65'533);
  if (const auto key = lookup(coll::kJobKeyVariable); key && !key->empty()) {
    if (!coll::JobKey::parse(*key)) {
      throw std::runtime_error(
          fmt::format("--world metal: {} is not 32 hexadecimal digits (openssl rand -hex 16)", coll::kJobKeyVariable));
    }
    place.job_key = *key;
  }
  return place;
}

std::string new_job_key() {
  const auto key = coll::JobKey::draw();
  if (!key) throw std::runtime_error("no key for the job: " + key.error().text);
  return key->text();
}

}  // namespace meshbed::testbed
