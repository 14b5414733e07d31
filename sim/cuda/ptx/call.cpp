// Calls: arguments and results go from the caller's registers and local memory to the callee's and back. PTX
// ISA 9.7.12.
#include <algorithm>
#include <cstring>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

std::byte* local_of(Warp& warp, std::uint32_t lane, std::uint64_t offset) {
  return warp.local.data() + std::size_t{lane} * warp.local_stride + offset;
}

/// Between a value of the call (in the caller's frame) and a formal of the callee.
void carry(Warp& warp, const CallValue& value, const Frame& caller, const Symbol& formal, const Frame& callee,
           std::uint32_t lane, bool back) {
  std::byte* outside = call_value_at(warp, caller, value, lane);
  std::byte* inside = formal.reg >= 0
                          ? callee.at(callee.function->register_place[static_cast<std::size_t>(formal.reg)]) +
                                std::size_t{lane} * formal.bytes
                          : local_of(warp, lane, callee.local_base + formal.offset);
  const std::size_t bytes = std::min<std::uint64_t>(value.bytes, formal.bytes);
  if (back)
    std::memcpy(outside, inside, bytes);
  else
    std::memcpy(inside, outside, bytes);
}

bool enter_call(Warp& warp, const Instruction& in, const Call& call, std::size_t index, std::uint32_t lanes) {
  const Function& function = warp.grid->program->functions[index];
  const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
  if (function.builtin >= 0) {
    call_builtin(warp, in, call, function, lanes);
    return true;
  }
  if (function.text->entry) {  // its parameters are not in its frame
    fail(warp, in, first, Fault::Kind::kUnsupported, "the call of kernel " + function.name + " is not implemented");
    return false;
  }
  if (!function.text->defined) {
    fail(warp, in, first, Fault::Kind::kUnsupported, "function " + function.name + " is declared and not defined");
    return false;
  }
  if (call.arguments.size() != function.text->formals.size() || call.results.size() > function.text->returns.size()) {
    fail(warp, in, first, Fault::Kind::kTrap,
         "the call of " + function.name + " has other parameters than the function");
    return false;
  }
  if (ready_function(*warp.grid->program, index) == nullptr) {
    fail(warp, in, first, Fault::Kind::kUnsupported, "function " + function.name + " cannot be read");
    return false;
  }
  Frame* caller = warp.frame;
  Frame* callee = enter_frame(warp, function, caller, lanes);
  if (callee == nullptr) {
    fail(warp, in, first, Fault::Kind::kStackOverflow, "no stack is left for the call of " + function.name);
    return false;
  }
  each_active(lanes, [&](std::uint32_t lane) {
    for (std::size_t at = 0; at < call.arguments.size(); ++at) {
      carry(warp, call.arguments[at], *caller, *function.text->formals[at], *callee, lane, false);
    }
    callee->return_position[lane] = warp.position;
    callee->call[lane] = &call;
    warp.lane_frame[lane] = callee;
    warp.lane_position[lane] = 0;
  });
  return true;
}

/// extra: which call of the function; a: the address of an indirect one.
void call_function(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Call& call = warp.frame->function->calls[in.extra];
  const std::uint32_t all = warp.active;
  if (call.function >= 0) {
    const Function& function = warp.grid->program->functions[static_cast<std::size_t>(call.function)];
    if (function.builtin >= 0) {
      call_builtin(warp, in, call, function, lanes);
      return;
    }
  }
  each_active(all, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  warp.active = 0;
  warp.event = true;
  if (call.function >= 0) {
    enter_call(warp, in, call, static_cast<std::size_t>(call.function), lanes);
    return;
  }
  std::uint64_t addresses[kLanes];
  std::memcpy(addresses, lanes_at<std::uint64_t>(warp, in.a), sizeof addresses);
  for (std::uint32_t rest = lanes; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t together = 0;
    each_active(rest, [&](std::uint32_t other) { together |= addresses[other] == addresses[lane] ? 1U << other : 0U; });
    rest &= ~together;
    const std::uint64_t index = (addresses[lane] - kFunctionWindow) / 16;
    if (addresses[lane] < kFunctionWindow || index >= warp.grid->program->functions.size()) {
      fail(warp, in, lane, Fault::Kind::kAddress, "a call of an address that is no function");
      return;
    }
    if (!enter_call(warp, in, call, index, together)) return;
  }
}

void return_lanes(Warp& warp, const Instruction&, std::uint32_t lanes) {
  if (lanes == 0) return;
  Frame* callee = warp.frame;
  Frame* caller = callee->parent;
  const auto& returns = callee->function->text->returns;
  each_active(warp.active & ~lanes, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  each_active(lanes, [&](std::uint32_t lane) {
    const Call& call = *callee->call[lane];
    for (std::size_t at = 0; at < call.results.size() && at < returns.size(); ++at) {
      carry(warp, call.results[at], *caller, *returns[at], *callee, lane, true);
    }
    warp.lane_frame[lane] = caller;
    warp.lane_position[lane] = callee->return_position[lane];
  });
  leave_frame(warp, callee, lanes);
  warp.active = 0;
  warp.event = true;
}

CallValue call_value(Decoder& decoder, const Operand& from, const Symbol* formal, bool result) {
  CallValue value;
  if (from.kind == Operand::Kind::kSymbol && from.symbol->function == nullptr && from.symbol->space == Space::kParam &&
      !(from.symbol->formal && decoder.text.entry)) {
    value.local_offset = from.symbol->offset;
    value.bytes = static_cast<std::uint32_t>(from.symbol->bytes);
    return value;
  }
  if (formal == nullptr) decoder.unsupported("an argument that is no .param variable");
  Type type = formal->type;
  if (bytes_of(type) == 1) type = Type::kB16;
  value.place = result ? decoder.destination(from, type) : decoder.source(from, type);
  value.bytes = value.register_bytes = bytes_of(type);
  return value;
}

}  // namespace

std::byte* call_value_at(Warp& warp, const Frame& caller, const CallValue& value, std::uint32_t lane) {
  if (value.place == kNowhere) return local_of(warp, lane, caller.local_base + value.local_offset);
  return caller.at(value.place) + std::size_t{lane} * value.register_bytes;
}

bool decode_call(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  if (opcode == "ret") {
    decoder.take("uni");
    in.run = return_lanes;
    return true;
  }
  if (opcode != "call") return false;
  decoder.take("uni");
  std::size_t at = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (decoder.operand(0).kind == Operand::Kind::kList) results = &decoder.operand(at++);
  const Operand& target = decoder.operand(at++);
  if (at < decoder.operand_count() && decoder.operand(at).kind == Operand::Kind::kList)
    arguments = &decoder.operand(at++);
  Call call;
  std::vector<const Symbol*> formals, returns;
  if (target.kind == Operand::Kind::kSymbol && target.symbol->function != nullptr) {
    const FunctionText& callee = *target.symbol->function;
    if (callee.entry) decoder.unsupported("the call of a kernel");
    call.function = decoder.program.function_index.at(&callee);
    decoder.function.callees.push_back(call.function);
    formals.assign(callee.formals.begin(), callee.formals.end());
    returns.assign(callee.returns.begin(), callee.returns.end());
    if ((arguments == nullptr ? 0 : arguments->parts.size()) != formals.size() ||
        (results == nullptr ? 0 : results->parts.size()) > returns.size()) {
      decoder.refuse("the call of " + callee.name + " has other parameters than the function");
    }
  } else {
    in.a = decoder.source(target, Type::kB64);
    decoder.function.calls_indirectly = true;
    const auto prototype = at < decoder.operand_count() && decoder.operand(at).kind == Operand::Kind::kLabel
                               ? decoder.body.prototypes.find(decoder.target(decoder.operand(at)))
                               : decoder.body.prototypes.end();
    if (prototype != decoder.body.prototypes.end()) {
      for (const Symbol& one : prototype->second.formals) formals.push_back(&one);
      for (const Symbol& one : prototype->second.returns) returns.push_back(&one);
    }
  }
  for (std::size_t index = 0; arguments != nullptr && index < arguments->parts.size(); ++index) {
    call.arguments.push_back(
        call_value(decoder, arguments->parts[index], index < formals.size() ? formals[index] : nullptr, false));
  }
  for (std::size_t index = 0; results != nullptr && index < results->parts.size(); ++index) {
    call.results.push_back(
        call_value(decoder, results->parts[index], index < returns.size() ? returns[index] : nullptr, true));
  }
  in.extra = static_cast<std::uint32_t>(decoder.function.calls.size());
  decoder.function.calls.push_back(std::move(call));
  in.run = call_function;
  return true;
}

}  // namespace meshbed::sim::ptx
