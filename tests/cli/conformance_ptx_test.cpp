// meshbed conformance ptx on a simulated GPU, whose results are the interpreter's own: nothing differs there, and what
// is planted is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>

#include "models/gpu_fields.h"
#include "sim/cuda/world/world_cuda.h"
#include "sim/host/host.h"
#include "testbed/verify/ptx/twin.h"
#include "tests/support/run_world.h"

namespace conformance_ptx_test {

using namespace meshbed;
using namespace meshbed::test;
using namespace meshbed::testbed::ptx_twin;

namespace {

constexpr int kTarget = 90;

std::vector<const Form*> pointers(const std::vector<Form>& forms) {
  std::vector<const Form*> all;
  for (const Form& form : forms) all.push_back(&form);
  return all;
}

const Form& form_named(const std::vector<Form>& forms, const std::string& name) {
  const auto found = std::find_if(forms.begin(), forms.end(), [&](const Form& form) { return form.name == name; });
  REQUIRE_MESSAGE(found != forms.end(), name);
  return *found;
}

/// What `work` makes of the GPU side in a simulated node with an H100.
std::string on_simulated_gpu(const std::function<std::string(GpuSide&)>& work) {
  models::Cluster cluster = ring_cluster(2);
  cluster.nodes[0].gpus = {{models::gpu_word(*models::find_gpu("H100"))}};
  const WorldResult result = run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {});
    static std::unique_ptr<sim::WorldCuda> gpus;
    gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(MESHBED_BINARY_DIR "/cuda-lib"));
    world.spawn(world.add_process(0, 0, "rank0"), "main", [&work] {
      auto gpu = GpuSide::open(0);
      report(gpu ? work(**gpu) : gpu.error().text);
    });
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
  return result.value;
}

/// The interpreter's results, one of them altered.
class Altered : public Side {
 public:
  Altered(std::size_t index, std::uint64_t mask) : index_(index), mask_(mask) {}
  std::vector<Results> run(const std::vector<const Form*>& forms, Operands& operands) override {
    std::vector<Results> all = InterpreterSide(kTarget).run(forms, operands);
    for (std::size_t form = 0; form < forms.size(); ++form) {
      const std::size_t size = bytes_of(forms[form]->result);
      for (std::size_t byte = 0; byte < size; ++byte) {
        all[form].bytes.at(index_ * size + byte) ^= static_cast<std::byte>(mask_ >> (8 * byte));
      }
    }
    return all;
  }

 private:
  std::size_t index_;
  std::uint64_t mask_;
};

Judgement judged(const std::string& name, Side& gpu, Operands& operands) {
  const std::vector<Form> forms = all_forms();
  InterpreterSide interpreter(kTarget);
  return compare({&form_named(forms, name)}, gpu, interpreter, operands, [](const Judgement&) {}).at(0);
}

}  // namespace

TEST_CASE("on a simulated GPU every form is the same bit for bit, by its driver and in this process") {
  static const std::vector<Form> forms = all_forms();
  const std::string said = on_simulated_gpu([](GpuSide& gpu) {
    CHECK(gpu.gpu().is_simulated);
    CHECK(gpu.gpu().target == kTarget);
    Operands operands(7, kBlockThreads);
    InterpreterSide interpreter(kTarget);
    std::string lines;
    const auto all = compare(pointers(forms), gpu, interpreter, operands, [&](const Judgement& one) {
      CHECK_FALSE(one.differs());
      lines += difference_line(one);
    });
    const std::string csv = csv_text(all, gpu.gpu(), operands, "2026-11-26");
    CHECK(csv.find("Meshbed's simulation, no GPU") != std::string::npos);
    CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) == forms.size() + 4);
    return lines + summary_line(all);
  });
  CHECK(said == std::to_string(forms.size()) + " forms, 256 operands each: " + std::to_string(forms.size()) +
                    " the same bit for bit, 0 approximate within the ISA's bounds, 0 the same but for the payloads of "
                    "NaNs, 0 that differ, 0 refused");
}

TEST_CASE("a form that the driver refuses is named, and those beside it in the module are tried all the same") {
  static std::vector<Form> forms{
      plain_form("integer", "add.u32", Kind::kInteger32, {Kind::kInteger32, Kind::kInteger32}),
      plain_form("integer", "guess.u32", Kind::kInteger32, {Kind::kInteger32}),
      plain_form("integer", "sub.u32", Kind::kInteger32, {Kind::kInteger32, Kind::kInteger32})};
  const std::string said = on_simulated_gpu([](GpuSide& gpu) {
    Operands operands(7, kBlockThreads);
    InterpreterSide interpreter(kTarget);
    std::string lines;
    const auto all = compare(pointers(forms), gpu, interpreter, operands, [&](const Judgement& one) {
      CHECK(one.is_refused() == (one.name == "guess.u32"));
      CHECK(one.differs() == one.is_refused());
      lines += difference_line(one) + "\n";
    });
    return lines + summary_line(all);
  });
  CHECK(said.find("guess.u32 ") != std::string::npos);
  CHECK(said.find("refused by the driver: cuModuleLoadData: CUDA_ERROR_") != std::string::npos);
  CHECK(said.find("refused by the interpreter: text:") != std::string::npos);
  CHECK(said.find("3 forms, 256 operands each: 2 the same bit for bit") != std::string::npos);
  CHECK(said.find("1 refused") != std::string::npos);
}

TEST_CASE("a planted difference is found, with its operands and both results") {
  Operands operands(7, kBlockThreads);
  Altered gpu(77, 1);
  const Judgement found = judged("mul.hi.s64", gpu, operands);
  CHECK(found.differs());
  CHECK(found.others == 1);
  REQUIRE(found.first.has_value());
  CHECK(found.first->index == 77);
  CHECK((found.first->gpu ^ found.first->interpreter) == 1);
  CHECK(found.first->operands.at(0) == operands.value(Kind::kInteger64, 0, 77));
  CHECK(difference_line(found).find("1 of 256 differ, first #77 of 0x") != std::string::npos);
  CHECK(summary_line({found}).find("1 that differ") != std::string::npos);
}

TEST_CASE("payloads of NaNs are compared, and are a difference where the ISA says which NaN it is") {
  // 0 / 0 and its like: where both results are NaNs, and the planted bit leaves one.
  const auto first_nan = [](const std::string& name, Operands& operands) {
    const std::vector<Form> forms = all_forms();
    const Form& form = form_named(forms, name);
    const Results results = InterpreterSide(kTarget).run({&form}, operands).at(0);
    for (std::size_t index = 0; index < operands.count(); ++index) {
      if (is_nan(form.result, element(results.bytes, bytes_of(form.result), index))) return index;
    }
    FAIL("no NaN among them");
    return std::size_t{0};
  };
  Operands operands(7, kBlockThreads);
  Altered of_floats(first_nan("add.rn.f32", operands), 1), of_doubles(first_nan("add.rn.f64", operands), 1);
  const Judgement floats = judged("add.rn.f32", of_floats, operands),
                  doubles = judged("add.rn.f64", of_doubles, operands);
  for (const Judgement& one : {floats, doubles}) {
    CHECK(one.payloads == 1);
    CHECK(one.others == 0);
    CHECK(difference_line(one).find("1 NaNs with other bits, first #") != std::string::npos);
    CHECK(summary_line({one}).find("1 the same but for the payloads of NaNs") != std::string::npos);
  }
  CHECK(floats.differs());
  CHECK_FALSE(doubles.differs());
}

TEST_CASE("approximate functions are judged by the ISA's bounds") {
  const std::vector<Form> forms = all_forms();
  const auto share = [&](const char* name, float operand, float result) {
    return share_of_bound(form_named(forms, name), {std::bit_cast<std::uint32_t>(operand)},
                          std::bit_cast<std::uint32_t>(result));
  };
  CHECK(*share("sin.approx.f32", 1, std::sin(1.0F) + 0x1p-22F) < 1);
  CHECK(*share("sin.approx.f32", 1, std::sin(1.0F) + 0x1p-19F) > 1);
  CHECK(*share("sin.approx.f32", 300, std::sin(300.0F) + 0x1p-16F) < 1);
  CHECK_FALSE(share("sin.approx.f32", 1e6F, 0).has_value());
  CHECK(*share("ex2.approx.ftz.f32", -140, 0) == 0);
  CHECK(std::isinf(*share("lg2.approx.f32", -1, 0)));
  CHECK(*share("rcp.approx.f32", 0, std::numeric_limits<float>::infinity()) == 0);
  CHECK(*share("rcp.approx.f32", 3, std::nextafter(1.0F / 3, 0.0F)) <= 1);
  CHECK(*share("rcp.approx.f32", 3, 1.0F / 3 + 0x1p-23F) > 1);
  // What an H200 gave, results/gpu/2026-11-26-h200-ptx.csv.
  const auto of_bits = [&](const char* name, std::uint64_t operand, std::uint64_t result) {
    return share_of_bound(form_named(forms, name), {operand}, result).value_or(-1);
  };
  CHECK(of_bits("ex2.approx.f16", 0xccf2, 0x12) <= 1);  // among subnormals a step
  CHECK(of_bits("ex2.approx.f16", 0xccf2, 0x11) > 1);
  CHECK(of_bits("tanh.approx.bf16", 0xbf3f, 0xbf21) <= 1);
  CHECK(of_bits("tanh.approx.bf16", 0xbf3f, 0xbf20) > 1);
  CHECK(of_bits("rcp.approx.ftz.f64", 0xfff0000000000001, 0x8000000000000000) < 0);  // no NaN, and no bound
  CHECK(std::isinf(of_bits("rcp.approx.ftz.f64", 0xfff0000100000000, 0x8000000000000000)));
  Operands operands(7, kBlockThreads);
  Altered near(3, 1), far(3, 0x100000);
  CHECK_FALSE(judged("div.full.f32", near, operands).differs());
  CHECK(judged("div.full.f32", far, operands).differs());
}

TEST_CASE("each form has a name of its own, and operands descend from the seed") {
  std::set<std::string> names;
  for (const Form& form : all_forms()) CHECK_MESSAGE(names.insert(form.name).second, form.name);
  Operands one(7, kBlockThreads), again(7, kBlockThreads), another(8, kBlockThreads);
  CHECK(one.of(Kind::kFloat32, 2) == again.of(Kind::kFloat32, 2));
  CHECK(one.of(Kind::kFloat32, 2) != another.of(Kind::kFloat32, 2));
}

}  // namespace conformance_ptx_test
