#include "tests/contract/suite/suite.h"

#include <exception>
#include <stdexcept>
#include <string>

#include "tests/contract/suite/record.h"

namespace meshbed::contract {
namespace {

const Contract* contract_at(int index) {
  for (const auto chapter :
       {device_contracts(), gid_contracts(), object_contracts(), memory_contracts(), state_contracts(),
        attribute_contracts(), address_contracts(), transfer_contracts(), length_contracts(), posting_contracts(),
        order_contracts(), receiver_contracts(), access_contracts(), local_error_contracts(), retry_contracts(),
        flush_contracts(), completion_event_contracts(), port_contracts()}) {
    if (index < 0) return nullptr;
    if (index < static_cast<int>(chapter.size())) return &chapter[static_cast<std::size_t>(index)];
    index -= static_cast<int>(chapter.size());
  }
  return nullptr;
}

}  // namespace
}  // namespace meshbed::contract

using namespace meshbed::contract;

const char* contract_name(int index) {
  const Contract* contract = contract_at(index);
  return contract != nullptr ? contract->name : nullptr;
}

int contract_count() {
  int count = 0;
  while (contract_at(count) != nullptr) ++count;
  return count;
}

int contract_run(int index, const ContractPlace* place) {
  const auto record = [place](char kind, const std::string& text) {
    place->record(place->host, (std::string(1, kind) + "\t" + text).c_str());
  };
  try {
    const Contract* contract = contract_at(index);
    if (contract == nullptr) throw std::runtime_error("there is no test of that number");
    record(kSourceLine, contract->source);
    End end(*place);
    contract->body(end);
    end.meet();  // neither end destroys what the other may still need
    return 0;
  } catch (const std::exception& problem) {
    record(kBrokenLine, problem.what());
    return 1;
  }
}
