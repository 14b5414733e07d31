// meshbed._meshbed: libmeshbed's public headers as Python classes. The part written in Python is in python/meshbed.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshbed/compare.h"
#include "meshbed/predict.h"
#include "meshbed/run.h"

namespace py = pybind11;

namespace {

/// A Python value as the TOML text that set() accepts.
std::string toml_text(const py::handle& value, bool quoted = false) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "true" : "false";
  if (py::isinstance<py::str>(value)) {
    return quoted ? py::module_::import("json").attr("dumps")(value).cast<std::string>() : value.cast<std::string>();
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    std::string text = "[";
    for (const py::handle& each : value) text += (text.size() > 1 ? ", " : "") + toml_text(each, true);
    return text + "]";
  }
  if (py::isinstance<py::int_>(value) || py::isinstance<py::float_>(value)) return py::repr(value).cast<std::string>();
  throw py::type_error("a value of a scenario is a str, bool, int, float, or a list of them, not " +
                       py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>());
}

using Values = std::vector<std::pair<std::string, std::string>>;

Values values_of(const py::dict& given) {
  Values values;
  for (const auto& [key, value] : given) values.emplace_back(key.cast<std::string>(), toml_text(value));
  return values;
}

/// A column as an array over the run's own memory, which `result` keeps alive.
py::array array_of(const meshbed::MessageColumn& column, const py::object& result) {
  py::array array(py::dtype(column.type), {column.count}, {}, column.data, result);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

py::dict messages_of(const py::object& self) {
  py::dict columns;
  for (const auto& column : self.cast<const meshbed::RunResult&>().messages()) {
    columns[py::str(column.name)] = array_of(column, self);
  }
  return columns;
}

meshbed::RunResult run(const meshbed::Scenario& scenario, bool messages, std::optional<double> time_limit,
                       const std::function<bool(int, int)>& progress) {
  const meshbed::Scenario copy = scenario;  // another thread may change it meanwhile
  meshbed::RunOptions options;
  options.messages = messages;
  options.time_limit_s = time_limit.value_or(0);
  options.on_progress = [&](const meshbed::RunProgress& now) {
    const py::gil_scoped_acquire python;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return !progress || progress(now.done, now.total);
  };
  const py::gil_scoped_release others;
  return meshbed::run(copy, options);
}

/// Raises the class of that name in meshbed._errors.
template <typename... Arguments>
void raise(const char* name, const Arguments&... arguments) {
  const py::object type = py::module_::import("meshbed._errors").attr(name);
  const py::object error = type(arguments...);
  PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(std::move(thrown));
  } catch (const meshbed::InvalidScenario& error) {
    raise("InvalidScenario", error.what(), error.findings());
  } catch (const meshbed::RunCancelled& error) {
    raise("RunCancelled", error.what());
  } catch (const meshbed::RunError& error) {
    raise("RunError", error.what());
  } catch (const std::out_of_range& error) {
    PyErr_SetString(PyExc_KeyError, error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_meshbed, module) {
  using meshbed::Finding;
  using meshbed::RunResult;
  using meshbed::Scenario;
  py::register_exception_translator(&translate);

  py::class_<Finding>(module, "Finding")
      .def_readonly("severity", &Finding::severity)
      .def_readonly("code", &Finding::code)
      .def_readonly("place", &Finding::place)
      .def_readonly("cause", &Finding::cause)
      .def_readonly("fix", &Finding::fix)
      .def("__repr__", [](const Finding& self) {
        return self.severity + ": " + self.place + ": " + self.cause + " [" + self.code + "]";
      });
  py::class_<meshbed::Proof>(module, "Proof")
      .def_readonly("name", &meshbed::Proof::name)
      .def_readonly("ok", &meshbed::Proof::ok)
      .def_readonly("detail", &meshbed::Proof::detail)
      .def("__repr__",
           [](const meshbed::Proof& self) { return (self.ok ? "ok: " : "BROKEN: ") + self.name + ": " + self.detail; });
  py::class_<meshbed::FailedRank>(module, "FailedRank")
      .def_readonly("rank", &meshbed::FailedRank::rank)
      .def_readonly("text", &meshbed::FailedRank::text)
      .def("__repr__",
           [](const meshbed::FailedRank& self) { return "rank " + std::to_string(self.rank) + ": " + self.text; });

  py::class_<Scenario>(module, "Scenario")
      .def("copy", [](const Scenario& self) { return Scenario(self); })
      .def("__copy__", [](const Scenario& self) { return Scenario(self); })
      .def("__deepcopy__", [](const Scenario& self, const py::dict& /*seen*/) { return Scenario(self); })
      .def("__setitem__",
           [](Scenario& self, const std::string& key, const py::object& value) { self.set(key, toml_text(value)); })
      .def("__getitem__", &Scenario::get)
      .def(
          "set", [](Scenario& self, const py::dict& values) -> Scenario& { return self.set(values_of(values)); },
          py::return_value_policy::reference)
      .def("fault", &Scenario::fault, py::return_value_policy::reference)
      .def("fail", &Scenario::fail, py::return_value_policy::reference)
      .def_property_readonly("name", &Scenario::name)
      .def_property_readonly("path", &Scenario::path)
      .def_property_readonly("seed", &Scenario::seed)
      .def_property_readonly("ranks", &Scenario::ranks)
      .def_property_readonly("overrides", &Scenario::overrides)
      .def("check", &Scenario::check)
      .def("run", &run, py::kw_only(), py::arg("messages") = true, py::arg("time_limit") = py::none(),
           py::arg("progress") = py::none())
      .def("__repr__", [](const Scenario& self) { return "<meshbed.Scenario " + self.name() + ">"; });

  py::class_<RunResult>(module, "RunResult")
      .def_property_readonly("passed", &RunResult::passed)
      .def_property_readonly("failure", &RunResult::failure)
      .def_property_readonly("digest", &RunResult::digest)
      .def_property_readonly("time_s", &RunResult::time_s)
      .def_property_readonly("algbw", &RunResult::algbw_GBps)
      .def_property_readonly("busbw", &RunResult::busbw_GBps)
      .def_property_readonly("bound_s", &RunResult::bound_s)
      .def_property_readonly("over_bound", &RunResult::over_bound)
      .def_property_readonly("wrong", &RunResult::wrong)
      .def_property_readonly("checked", &RunResult::checked)
      .def_property_readonly("message_count", &RunResult::message_count)
      .def_property_readonly("proofs", &RunResult::proofs)
      .def_property_readonly("expectations", &RunResult::expectations)
      .def_property_readonly("errors", &RunResult::errors)
      .def_property_readonly("output", &RunResult::output)
      .def_property_readonly("json", &RunResult::json)
      .def_property_readonly(
          "summary", [](const RunResult& self) { return py::module_::import("json").attr("loads")(self.json()); })
      .def_property_readonly("messages", &messages_of)
      .def("frame",
           [](const py::object& self) {
             return py::module_::import("pandas").attr("DataFrame")(messages_of(self), py::arg("copy") = false);
           })
      .def("__repr__", [](const RunResult& self) {
        return "<meshbed.RunResult " + std::string(self.passed() ? "passed" : self.failure()) + ", digest " +
               self.digest() + ">";
      });

  py::class_<meshbed::Comparison>(module, "Comparison")
      .def_readonly("identical", &meshbed::Comparison::identical)
      .def_readonly("same_data", &meshbed::Comparison::same_data)
      .def_readonly("time_ratio", &meshbed::Comparison::time_ratio)
      .def_readonly("busbw_ratio", &meshbed::Comparison::busbw_ratio)
      .def_readonly("differences", &meshbed::Comparison::differences);
  py::class_<meshbed::Prediction>(module, "Prediction")
      .def_readonly("time_s", &meshbed::Prediction::time_s)
      .def_readonly("algorithm", &meshbed::Prediction::algorithm)
      .def_readonly("protocol", &meshbed::Prediction::protocol)
      .def_readonly("ranks", &meshbed::Prediction::ranks)
      .def_readonly("nodes", &meshbed::Prediction::nodes)
      .def_property_readonly("parts",
                             [](const meshbed::Prediction& self) {
                               py::dict parts;
                               for (const auto& part : self.parts) parts[py::str(part.name)] = part.time_s;
                               return parts;
                             })
      .def_readonly("error_p90", &meshbed::Prediction::error_p90)
      .def_readonly("low_s", &meshbed::Prediction::low_s)
      .def_readonly("high_s", &meshbed::Prediction::high_s)
      .def_readonly("basis", &meshbed::Prediction::basis);
  module.def("compare", &meshbed::compare, py::arg("left"), py::arg("right"));
  module.def("profiles", &meshbed::profiles);
  module.def("predict", &meshbed::predict, py::arg("profile"), py::arg("collective"), py::arg("bytes"),
             py::arg("ranks") = py::none());
  module.def("load", &Scenario::load, py::arg("path"));
  module.def("parse", &Scenario::parse, py::arg("text"), py::arg("path") = "scenario.toml");
}
