// The extension module runtime.python._native: what the Python classes of this folder are made of.
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/interface.h"
#include "runtime/executor/method.h"
#include "runtime/executor/program.h"
#include "runtime/executor/session.h"
#include "runtime/kernel/registry.h"
#include "runtime/python/export_tensor.h"
#include "runtime/python/py_method.h"
#include "runtime/python/python_error.h"

namespace py = pybind11;

namespace pteron::python {
namespace {

using ProgramPtr = std::shared_ptr<const Program>;
using PyOptions = std::map<std::string, std::map<std::string, py::object>>;

LoadOptions load_options(int verification, std::vector<std::string> data_paths) {
  LoadOptions options;
  options.verification = static_cast<Verification>(verification);
  options.data_paths = std::move(data_paths);
  return options;
}

ProgramPtr load_path(const std::string& path, int verification,
                     std::vector<std::string> data_paths) {
  const LoadOptions options = load_options(verification, std::move(data_paths));
  Result<ProgramPtr> program = [&] {
    const py::gil_scoped_release release;
    return Program::load(path, options);
  }();
  return value_or_throw(std::move(program));
}

// The bytes object is kept as long as the program.
ProgramPtr load_bytes(const py::bytes& bytes, int verification,
                      std::vector<std::string> data_paths) {
  const LoadOptions options = load_options(verification, std::move(data_paths));
  const Span<const uint8_t> span(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.ptr())),
                                 static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
  const std::shared_ptr<const void> owner(
      py::object(bytes).release().ptr(), [](const void* object) {
        if (!Py_IsInitialized()) return;
        const py::gil_scoped_acquire acquire;
        Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
      });
  Result<ProgramPtr> program = [&] {
    const py::gil_scoped_release release;
    return Program::load(span, owner, options);
  }();
  return value_or_throw(std::move(program));
}

BackendOption backend_option(const std::string& backend, const std::string& key,
                             const py::object& value) {
  if (py::isinstance<py::bool_>(value)) return {key, py::cast<bool>(value)};
  if (py::isinstance<py::int_>(value)) return {key, py::cast<int64_t>(value)};
  if (py::isinstance<py::str>(value)) return {key, py::cast<std::string>(value)};
  throw_error(make_error(Error::InvalidArgument,
                         "option \"%s\" of backend \"%s\" is a %s, expected bool, int or str",
                         key.c_str(), backend.c_str(), Py_TYPE(value.ptr())->tp_name));
}

std::unique_ptr<PyMethod> load_method(const ProgramPtr& program, const std::string& name,
                                      std::shared_ptr<PySession> session,
                                      const PyOptions& backend_options,
                                      const std::map<std::string, std::string>& devices) {
  LoadMethodOptions options;
  for (const auto& [named, used] : devices) {
    if (Error error = options.devices.add(named + "=" + used); !error.ok()) throw_error(error);
  }
  for (const auto& [backend, choices] : backend_options) {
    std::vector<BackendOption>& list = options.backend_options[backend];
    for (const auto& [key, value] : choices) list.push_back(backend_option(backend, key, value));
  }
  if (!session) session = std::make_shared<PySession>(program->new_session());
  options.session = session->session();
  Result<std::unique_ptr<Method>> method = [&] {
    const py::gil_scoped_release release;
    return program->load_method(name, options);
  }();
  return std::make_unique<PyMethod>(value_or_throw(std::move(method)), std::move(session));
}

void open_library(const std::string& path) {
  const char* problem = nullptr;
  {
    const py::gil_scoped_release release;
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) problem = dlerror();
  }
  if (problem) {
    throw_error(
        make_error(Error::AccessFailed, "cannot open the library of a backend: %s", problem));
  }
}

py::tuple is_backend_available(const std::string& id) {
  const BackendInterface* backend = find_backend(id);
  std::string reason = backend ? "" : "not registered in this process";
  const bool available = backend && backend->is_available(&reason);
  return py::make_tuple(available, reason);
}

void define_meta(py::module_& module) {
  py::class_<ValueMeta>(module, "ValueMeta")
      .def_property_readonly("kind", [](const ValueMeta& meta) { return name_of(meta.kind); })
      .def_property_readonly("dtype",
                             [](const ValueMeta& meta) { return static_cast<int>(meta.dtype); })
      .def_readonly("sizes", &ValueMeta::sizes)
      .def_readonly("dim_order", &ValueMeta::dim_order)
      .def_property_readonly(
          "is_static", [](const ValueMeta& meta) { return meta.dynamism == ShapeDynamism::Static; })
      .def_readonly("nbytes", &ValueMeta::nbytes)
      .def_readonly("planned", &ValueMeta::planned)
      .def_readonly("constant", &ValueMeta::constant)
      .def_readonly("value", &ValueMeta::value)
      .def_readonly("symbolic", &ValueMeta::symbolic)
      .def("describe", &ValueMeta::describe);
  py::class_<MutableBufferMeta>(module, "MutableBufferMeta")
      .def_readonly("name", &MutableBufferMeta::name)
      .def_property_readonly(
          "dtype", [](const MutableBufferMeta& meta) { return static_cast<int>(meta.dtype); })
      .def_readonly("sizes", &MutableBufferMeta::sizes)
      .def_readonly("nbytes", &MutableBufferMeta::nbytes);
  py::class_<MethodMeta>(module, "MethodMeta")
      .def_readonly("name", &MethodMeta::name)
      .def_readonly("inputs", &MethodMeta::inputs)
      .def_readonly("outputs", &MethodMeta::outputs)
      .def_readonly("mutable_buffers", &MethodMeta::mutable_buffers)
      .def_property_readonly("backends",
                             [](const MethodMeta& meta) {
                               std::vector<std::string> ids;
                               for (const DelegateMeta& delegate : meta.delegates) {
                                 ids.emplace_back(delegate.backend_id);
                               }
                               return ids;
                             })
      .def_readonly("operators", &MethodMeta::operators)
      .def_readonly("num_instructions", &MethodMeta::num_instructions)
      .def_readonly("constant_nbytes", &MethodMeta::constant_nbytes)
      .def_property_readonly("planned_nbytes", &MethodMeta::planned_nbytes)
      .def_readonly("input_container", &MethodMeta::input_container)
      .def_readonly("output_container", &MethodMeta::output_container);
}

void define_program(py::module_& module) {
  py::class_<Program, std::shared_ptr<Program>>(module, "Program")
      .def("method_names", &Program::method_names)
      .def("method_meta",
           [](const Program& program, const std::string& name) {
             return value_or_throw(program.method_meta(name));
           })
      .def(
          "new_session",
          [](const Program& program) { return std::make_shared<PySession>(program.new_session()); })
      .def("file_nbytes", &Program::file_nbytes)
      .def("has_integrity_table", &Program::has_integrity_table);
  py::class_<PySession, std::shared_ptr<PySession>>(module, "Session")
      .def("reset", &PySession::reset)
      .def("buffer_names", &PySession::buffer_names)
      .def("buffer", &PySession::buffer);
  py::class_<PyMethod>(module, "Method")
      .def("execute", &PyMethod::execute)
      .def("reset_state", &PyMethod::reset_state)
      .def("session", &PyMethod::session)
      .def("meta", &PyMethod::meta, py::return_value_policy::copy);
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  define_dlpack_array(module);
  define_meta(module);
  define_program(module);
  py::dict scalar_types;
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  scalar_types[#name] = number;
#include "runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  module.attr("SCALAR_TYPES") = scalar_types;
  module.def("load_path", &load_path);
  module.def("load_bytes", &load_bytes);
  module.def("load_method", &load_method);
  module.def("open_library", &open_library);
  module.def("registered_backends", &registered_backends);
  module.def("is_backend_available", &is_backend_available);
  module.def("registered_kernels", &registered_kernels);
}

}  // namespace pteron::python
