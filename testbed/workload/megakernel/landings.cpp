#include "testbed/workload/megakernel/landings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/ring/kernel/wait_chain.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

constexpr std::uint64_t kLandingSalt = 0x6c61'6e64'696e'6773;  // separates these draws from all others

}  // namespace

RingLandings::RingLandings(const Setting& setting)
    : host_(setting.host),
      program_(setting.program),
      spaces_(setting.spaces),
      kernel_(setting.kernel),
      is_ordered_(setting.settings.ordering == "ordered"),
      counts_(setting.settings.ordering == "counted"),
      has_flag_queues_(setting.settings.other_flag_qp),
      delay_ps_(setting.settings.unordered_delay_ps),
      element_bytes_(setting.element_bytes),
      prng_(mix64(setting.seed ^ kLandingSalt) ^ mix64(static_cast<std::uint64_t>(setting.host.rank()) + 1)),
      connections_(setting.program.receives.size()) {
  kernel_.use(*this);
}

const coll::Landing& RingLandings::landing_of(Word connection, std::uint64_t number) const {
  const std::vector<coll::Landing>& landings = program_.receives[connection].landings;
  return landings[number % landings.size()];
}

std::byte* RingLandings::bytes_of(const coll::Landing& landing) const {
  return spaces_[static_cast<std::size_t>(landing.area.space)].data() + landing.area.offset_bytes;
}

void RingLandings::posted(Word connection) {
  if (is_ordered_) return;
  Connection& one = connections_[connection];
  const coll::Landing& landing = landing_of(connection, one.posted++);
  const std::byte* const bytes = bytes_of(landing);
  one.before.emplace_back(bytes, bytes + landing.size_bytes);
}

void RingLandings::arrived(Word connection) {
  Connection& one = connections_[connection];
  if (has_flag_queues_) {
    const std::uint64_t number = one.flagged++;
    if (number >= one.landed_count) {
      late_.push_back(
          {.connection = connection, .number = number, .landing = landing_of(connection, number), .lands_ps = -1});
    }
    return kernel_.see_arrival(connection);
  }
  if (is_ordered_) return kernel_.see_arrival(connection);
  const Picoseconds delay_ps = static_cast<Picoseconds>(prng_.below(static_cast<std::uint64_t>(delay_ps_) + 1));
  const Late late{.connection = connection,
                  .number = one.arrived,
                  .landing = landing_of(connection, one.arrived),
                  .lands_ps = host_.now_ps() + delay_ps};
  ++one.arrived;
  std::byte* const bytes = bytes_of(late.landing);
  std::vector<std::byte> data(bytes, bytes + late.landing.size_bytes);
  std::copy(one.before.front().begin(), one.before.front().end(), bytes);
  one.before.pop_front();
  late_.push_back(late);
  kernel_.at(late.lands_ps, [this, late, data = std::move(data)] { land(late, data); });
  if (!counts_) kernel_.see_arrival(connection);
}

void RingLandings::landed(Word connection) {
  const std::uint64_t number = connections_[connection].landed_count++;
  std::erase_if(late_, [&](const Late& late) { return late.connection == connection && late.number == number; });
}

void RingLandings::land(const Late& late, const std::vector<std::byte>& data) {
  std::copy(data.begin(), data.end(), bytes_of(late.landing));
  const auto is_it = [&](const Late& one) { return one.connection == late.connection && one.number == late.number; };
  late_.erase(std::find_if(late_.begin(), late_.end(), is_it));
  if (!counts_) return;
  Connection& one = connections_[late.connection];
  one.landed.push_back(late.number);
  for (auto next = one.landed.begin();
       (next = std::find(one.landed.begin(), one.landed.end(), one.flagged)) != one.landed.end();) {
    one.landed.erase(next);
    ++one.flagged;
    kernel_.see_arrival(late.connection);
  }
}

void RingLandings::note(const std::string& reader, const Late& late) {
  if (!stale_.empty()) return;
  const std::size_t messages = program_.receives[late.connection].landings.size();
  stale_ = fmt::format(
      "{} reads message {} of connection {} in epoch {} from rank {} at {} ns; its flag was seen, its data {}", reader,
      late.number % messages, late.connection, late.number / messages + 1, program_.receives[late.connection].peer,
      static_cast<double>(host_.now_ps()) / 1e3,
      late.lands_ps < 0 ? "is under way on another queue pair"
                        : fmt::format("lands at {} ns", static_cast<double>(late.lands_ps) / 1e3));
}

void RingLandings::read(const Reader& reader, coll::Space space, std::uint64_t begin, std::uint64_t size_bytes) {
  for (const Late& late : late_) {
    const std::uint64_t at = late.landing.area.offset_bytes;
    if (late.landing.area.space != space || begin >= at + late.landing.size_bytes || at >= begin + size_bytes) continue;
    return note(fmt::format("slot {} ({})", reader.slot, ring::operation_name(reader.op)), late);
  }
}

void RingLandings::use(Word slot, Word op, const Word* args) {
  if (late_.empty()) return;
  const auto space = [&](unsigned index) { return static_cast<coll::Space>(args[arg::kSpaces] >> 8U * index & 0xffU); };
  // REDUCE counts elements; partial ones are longer than that, and each slice of them has a landing of its own.
  const Reader reader{.slot = slot, .op = op};
  if (op == ring::opcode::kPut || op == ring::opcode::kCopy) {
    read(reader, space(1), args[arg::kFirst], args[arg::kCount]);
  } else if (op == ring::opcode::kReduce) {
    read(reader, space(1), args[arg::kFirst], args[arg::kCount] * element_bytes_);
    read(reader, space(2), args[arg::kSecond], args[arg::kCount] * element_bytes_);
  }
}

void RingLandings::end_epoch() {
  if (!late_.empty()) note("the host", late_.front());
}

}  // namespace meshbed::testbed
