#pragma once
// The twin test of the PTX interpreter: every form that it implements, on the same operands on a GPU, by the
// libcuda.so.1 that the process finds, and in the interpreter in this process. Results are compared bit by bit.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "testbed/verify/ptx/form.h"
#include "testbed/verify/ptx/operands.h"

namespace meshbed::testbed::ptx_twin {

/// One side's results of a form: an element an operand, or the reason why there are none.
struct Results {
  std::vector<std::byte> bytes;
  std::string refusal;
};

/// A side that runs forms. Throws std::runtime_error on unexpected failures: no memory, no response of the device.
class Side {
 public:
  virtual ~Side() = default;
  /// In the forms' order.
  virtual std::vector<Results> run(const std::vector<const Form*>& forms, Operands& operands) = 0;
};

/// The GPU on the other side.
struct Gpu {
  std::string name, driver_version;
  int target = 90;  // sm_90: the newest that the forms need, or the device's
  bool is_simulated = false;
};

/// The GPU, or the simulated one, through plugin/cuda. Without driver or device: the error contains the reason.
class GpuSide : public Side {
 public:
  static Result<std::unique_ptr<GpuSide>> open(int device);
  const Gpu& gpu() const { return gpu_; }
  std::vector<Results> run(const std::vector<const Form*>& forms, Operands& operands) override;
  ~GpuSide() override;

 private:
  struct Parts;
  explicit GpuSide(std::unique_ptr<Parts> parts);
  void run_module(const std::vector<const Form*>& forms, std::size_t first, std::size_t count, Operands& operands,
                  std::vector<Results>& all);

  Gpu gpu_;
  std::unique_ptr<Parts> parts_;
};

class InterpreterSide : public Side {
 public:
  explicit InterpreterSide(int target) : target_(target) {}
  std::vector<Results> run(const std::vector<const Form*>& forms, Operands& operands) override;

 private:
  int target_;
};

/// One operand on which the sides differ.
struct Difference {
  std::size_t index = 0;
  std::vector<std::uint64_t> operands;
  std::uint64_t gpu = 0, interpreter = 0;
};

/// The distance of an approximate result from the exact one, relative to the bound: allowed up to 1.
struct Nearness {
  double worst = 0;
  std::size_t beyond = 0;  // results outside the bound
  std::optional<Difference> first;
};

struct Judgement {
  std::string name, family, what;  // `what`: in one word, as the CSV has it
  std::size_t count = 0;
  std::size_t same = 0;
  std::size_t payloads = 0;  // both are NaNs, with other bits
  std::size_t others = 0;    // all other differences
  std::optional<Difference> first, first_payload;
  std::vector<Difference> examples;  // a few of all kinds, no two of which differ in the same bits
  // Approximate forms:
  bool is_approximate = false;
  std::uint64_t most_apart = 0;  // steps of the result's format between the two
  Nearness gpu_nearness, interpreter_nearness;
  std::string gpu_refusal, interpreter_refusal;

  bool is_refused() const { return !gpu_refusal.empty() || !interpreter_refusal.empty(); }
  /// Differences that the ISA does not allow.
  bool differs() const;
};

Judgement judge(const Form& form, Operands& operands, const Results& gpu, const Results& interpreter);

/// The distance from the exact result relative to the ISA's bound; nullopt if the ISA has none for these operands.
std::optional<double> share_of_bound(const Form& form, const std::vector<std::uint64_t>& operands,
                                     std::uint64_t result);

/// Whether the bits are a NaN of that kind; of a pair, one half.
bool is_nan(Kind kind, std::uint64_t bits);

/// Runs all forms on both sides, in groups; calls `report` for each judgement.
std::vector<Judgement> compare(const std::vector<const Form*>& forms, Side& gpu, Side& interpreter, Operands& operands,
                               const std::function<void(const Judgement&)>& report);

/// A line of text: the differences and the first operand that shows one; empty if there are none.
std::string difference_line(const Judgement& judgement);
/// The examples, a line each.
std::string example_lines(const Judgement& judgement);
std::string summary_line(const std::vector<Judgement>& judgements);
/// With the origin in lines that begin with '#'.
std::string csv_text(const std::vector<Judgement>& judgements, const Gpu& gpu, const Operands& operands,
                     const std::string& date);

}  // namespace meshbed::testbed::ptx_twin
