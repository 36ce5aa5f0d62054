// The extension module pteron.runtime.python._native: what the Python classes of this folder are
// made of.
//
// It is written to compile fast: nanobind makes code for each type that crosses, so few types do.
// Paths come as bytes, descriptions go as dicts (method_meta.py reads them).
#define NB_DOMAIN pteron  // settings and types of other packages' modules are not ours
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/kernel/registry.h"
#include "pteron/runtime/python/export_tensor.h"
#include "pteron/runtime/python/gil.h"
#include "pteron/runtime/python/py_method.h"
#include "pteron/runtime/python/python_error.h"

namespace nb = nanobind;

namespace pteron::python {
namespace {

using ProgramPtr = std::shared_ptr<const Program>;

nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }

nb::object to_object(int64_t value) { return nb::int_(value); }
nb::object to_object(std::string_view value) { return to_str(value); }
nb::object to_object(const ValueMeta& meta);
nb::object to_object(const MutableBufferMeta& meta);

template <typename T>
nb::object to_list(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(to_object(value));
  return std::move(list);
}

// Borrowed from `text`; throws TypeError for what is no str.
std::string_view to_view(nb::handle text) {
  Py_ssize_t length = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
  if (!data) throw nb::python_error();
  return {data, static_cast<size_t>(length)};
}

// What os.fsencode made of a path.
std::string to_path(const nb::bytes& path) { return std::string(path.c_str(), path.size()); }

LoadOptions load_options(int verification, const nb::list& data_paths) {
  LoadOptions options;
  options.verification = static_cast<Verification>(verification);
  for (const nb::handle path : data_paths) {
    options.data_paths.push_back(to_path(nb::cast<nb::bytes>(path)));
  }
  return options;
}

ProgramPtr load_path(const nb::bytes& path, int verification, const nb::list& data_paths) {
  const LoadOptions options = load_options(verification, data_paths);
  Result<ProgramPtr> program = [&] {
    const std::string file = to_path(path);
    const WithoutGil without_gil;
    return Program::load(file, options);
  }();
  return value_or_throw(std::move(program));
}

// The bytes object is kept as long as the program.
ProgramPtr load_bytes(const nb::bytes& bytes, int verification, const nb::list& data_paths) {
  const LoadOptions options = load_options(verification, data_paths);
  const Span<const uint8_t> span(static_cast<const uint8_t*>(bytes.data()), bytes.size());
  const std::shared_ptr<const void> owner(bytes.inc_ref().ptr(), [](const void* object) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire acquire;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  Result<ProgramPtr> program = [&] {
    const WithoutGil without_gil;
    return Program::load(span, owner, options);
  }();
  return value_or_throw(std::move(program));
}

BackendOption backend_option(std::string_view backend, std::string_view key, nb::handle value) {
  std::string name(key);
  if (PyBool_Check(value.ptr())) return {std::move(name), value.ptr() == Py_True};
  if (PyUnicode_Check(value.ptr())) return {std::move(name), std::string(to_view(value))};
  const std::string where =
      "option \"" + name + "\" of backend \"" + std::string(backend) + "\" is ";
  if (!PyLong_Check(value.ptr())) {
    throw_error(Error(Error::InvalidArgument, where + "a " + Py_TYPE(value.ptr())->tp_name +
                                                  ", expected bool, int or str"));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) {
    throw_error(Error(Error::InvalidArgument, where + "an int of more than 64 bits"));
  }
  return {std::move(name), static_cast<int64_t>(number)};
}

// `backend_options`: a dict of dicts. `devices`: a dict of strings.
PyMethod* load_method(const Program& program, const nb::str& name,
                      std::shared_ptr<PySession> session, const nb::dict& backend_options,
                      const nb::dict& devices) {
  LoadMethodOptions options;
  for (const auto& [named, used] : devices) {
    const std::string mapping = std::string(to_view(named)) + "=" + std::string(to_view(used));
    if (Error error = options.devices.add(mapping); !error.ok()) throw_error(error);
  }
  for (const auto& [backend, choices] : backend_options) {
    const std::string_view id = to_view(backend);
    std::vector<BackendOption>& list = options.backend_options[std::string(id)];
    for (const auto& [key, value] : nb::cast<nb::dict>(choices)) {
      list.push_back(backend_option(id, to_view(key), value));
    }
  }
  options.session = session->session();
  const std::string_view method_name = to_view(name);
  Result<std::unique_ptr<Method>> method = [&] {
    const WithoutGil without_gil;
    return program.load_method(method_name, options);
  }();
  return new PyMethod(value_or_throw(std::move(method)), std::move(session));
}

void open_library(const nb::bytes& path) {
  const std::string file = to_path(path);
  const char* problem = nullptr;
  {
    const WithoutGil without_gil;
    if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) problem = dlerror();
  }
  if (problem) {
    throw_error(
        make_error(Error::AccessFailed, "cannot open the library of a backend: %s", problem));
  }
}

nb::object is_backend_available(const nb::str& id) {
  const BackendInterface* backend = find_backend(to_view(id));
  std::string reason = backend ? "" : "not registered in this process";
  const bool available = backend && backend->is_available(&reason);
  return nb::make_tuple(available, to_str(reason));
}

nb::object to_object(const ValueMeta& meta) {
  nb::dict result;
  result["kind"] = to_str(name_of(meta.kind));
  result["dtype"] = nb::int_(static_cast<size_t>(meta.dtype));
  result["sizes"] = to_list(meta.sizes);
  result["dim_order"] = to_list(meta.dim_order);
  result["is_static"] = nb::bool_(meta.dynamism == ShapeDynamism::Static);
  result["nbytes"] = nb::int_(meta.nbytes);
  result["planned"] = nb::bool_(meta.planned);
  result["constant"] = nb::bool_(meta.constant);
  nb::object value = nb::none();
  if (const auto* number = std::get_if<int64_t>(&meta.value)) value = nb::int_(*number);
  if (const auto* number = std::get_if<double>(&meta.value)) value = nb::float_(*number);
  if (const auto* truth = std::get_if<bool>(&meta.value)) value = nb::bool_(*truth);
  if (const auto* text = std::get_if<std::string>(&meta.value)) value = to_str(*text);
  result["value"] = value;
  result["symbolic"] = nb::bool_(meta.symbolic);
  result["description"] = to_str(meta.describe());
  return std::move(result);
}

nb::object to_object(const MutableBufferMeta& meta) {
  nb::dict result;
  result["name"] = to_str(meta.name);
  result["dtype"] = nb::int_(static_cast<size_t>(meta.dtype));
  result["sizes"] = to_list(meta.sizes);
  result["nbytes"] = nb::int_(meta.nbytes);
  return std::move(result);
}

nb::object to_object(const MethodMeta& meta) {
  nb::dict result;
  result["name"] = to_str(meta.name);
  result["inputs"] = to_list(meta.inputs);
  result["outputs"] = to_list(meta.outputs);
  result["mutable_buffers"] = to_list(meta.mutable_buffers);
  nb::list backends;
  for (const DelegateMeta& delegate : meta.delegates) backends.append(to_str(delegate.backend_id));
  result["backends"] = backends;
  result["operators"] = to_list(meta.operators);
  result["planned_nbytes"] = nb::int_(meta.planned_nbytes());
  result["input_tree"] = to_str(meta.input_tree);
  result["output_tree"] = to_str(meta.output_tree);
  return std::move(result);
}

void define_program(nb::module_& module) {
  nb::class_<Program>(module, "Program")
      .def("method_names", [](const Program& program) { return to_list(program.method_names()); })
      .def("method_meta",
           [](const Program& program, const nb::str& name) {
             return to_object(value_or_throw(program.method_meta(to_view(name))));
           })
      .def("new_session", [](const Program& program) {
        return std::make_shared<PySession>(program.new_session());
      });
  nb::class_<PySession>(module, "Session")
      .def("reset", &PySession::reset)
      .def("buffer_names", [](const PySession& session) { return to_list(session.buffer_names()); })
      .def("buffer", [](PySession& session, const nb::str& name) {
        return session.buffer(std::string(to_view(name)));
      });
  nb::class_<PyMethod>(module, "Method")
      .def("execute", &PyMethod::execute)
      .def("reset_state", &PyMethod::reset_state)
      .def("session", &PyMethod::session)
      .def("meta", [](const PyMethod& method) { return to_object(method.meta()); });
}

}  // namespace

NB_MODULE(_native, module) {
  // What a daemon thread, or another library, still has when the interpreter is gone is no mistake.
  nb::set_leak_warnings(false);
  define_dlpack_array(module);
  define_program(module);
  nb::dict scalar_types;
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  scalar_types[#name] = nb::int_(static_cast<size_t>(number));
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  module.attr("SCALAR_TYPES") = scalar_types;
  module.def("load_path", &load_path);
  module.def("load_bytes", &load_bytes);
  module.def("load_method", &load_method, nb::rv_policy::take_ownership);
  module.def("open_library", &open_library);
  module.def("registered_backends", [] { return to_list(registered_backends()); });
  module.def("is_backend_available", &is_backend_available);
  module.def("registered_kernels", [] { return to_list(registered_kernels()); });
}

}  // namespace pteron::python
