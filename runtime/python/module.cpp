// The extension module pteron.runtime.python._native, used by the Python classes of this folder.
//
// The only file that includes pybind11, written to compile fast: few types cross the boundary.
// Paths are bytes. Results of the CPython API are Objects.
#include <dlfcn.h>
#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/executor/describe.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/kernel/registry.h"
#include "pteron/runtime/platform/fork_mutex.h"
#include "pteron/runtime/platform/isolation.h"
#include "pteron/runtime/python/dlpack_array.h"
#include "pteron/runtime/python/export_meta.h"
#include "pteron/runtime/python/gil.h"
#include "pteron/runtime/python/py_method.h"
#include "pteron/runtime/python/python_error.h"
#include "pteron/runtime/python/python_object.h"
#include "pteron/runtime/python/python_type.h"

namespace py = pybind11;

namespace pteron::python {
namespace {

using ProgramPtr = std::shared_ptr<const Program>;
using Thrown = py::error_already_set;

// An object created without pybind11.
py::object to_pybind(Object object) { return py::reinterpret_steal<py::object>(object.release()); }

// A path encoded by os.fsencode.
std::string to_path(const py::bytes& path) { return std::string(std::string_view(path)); }

// The bytes object lives as long as the program.
FileInMemory file_in_memory(const py::bytes& bytes) {
  const std::string_view view(bytes);
  std::shared_ptr<const void> owner(borrow(bytes.ptr()).release(), [](const void* object) {
    if (!Py_IsInitialized()) return;
    const WithGil with_gil;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  return {{reinterpret_cast<const uint8_t*>(view.data()), view.size()}, std::move(owner)};
}

// Four values in field order, or None.
std::optional<Limits> to_limits(const py::object& numbers) {
  if (numbers.is_none()) return std::nullopt;
  const py::tuple tuple = py::cast<py::tuple>(numbers);
  Limits limits;
  limits.run_time = py::cast<double>(tuple[0]);
  limits.instructions = py::cast<uint64_t>(tuple[1]);
  limits.planned_bytes = py::cast<uint64_t>(tuple[2]);
  limits.load_bytes = py::cast<uint64_t>(tuple[3]);
  return limits;
}

// Lists of bytes; `allowed_backends` is a list, or None for all; `allowed_files` of 32 bytes each,
// or None.
LoadOptions load_options(int verification, const py::list& data_paths, const py::list& data_files,
                         const py::object& allowed_backends, const py::object& limits,
                         const py::object& allowed_files) {
  LoadOptions options;
  options.verification = static_cast<Verification>(verification);
  options.limits = to_limits(limits).value_or(Limits());
  for (const py::handle path : data_paths) {
    options.data_paths.push_back(to_path(py::cast<py::bytes>(path)));
  }
  for (const py::handle bytes : data_files) {
    options.data_files.push_back(file_in_memory(py::cast<py::bytes>(bytes)));
  }
  if (!allowed_backends.is_none()) {
    options.allowed_backends.emplace();
    for (const py::handle id : py::cast<py::list>(allowed_backends)) {
      options.allowed_backends->emplace_back(to_view(id.ptr()));
    }
  }
  if (!allowed_files.is_none()) {
    options.allowed_files.emplace();
    for (const py::handle digest : py::cast<py::list>(allowed_files)) {
      const std::string bytes = py::cast<std::string>(digest);
      Sha256Digest& copy = options.allowed_files->emplace_back();
      std::copy_n(bytes.begin(), std::min(bytes.size(), copy.size()), copy.begin());
    }
  }
  return options;
}

// `file`: a path, or the bytes themselves.
ProgramPtr load(const py::bytes& file, bool is_path, int verification, const py::list& data_paths,
                const py::list& data_files, const py::object& allowed_backends,
                const py::object& limits, const py::object& allowed_files) {
  const LoadOptions options =
      load_options(verification, data_paths, data_files, allowed_backends, limits, allowed_files);
  const FileInMemory given = file_in_memory(file);
  Result<ProgramPtr> program = [&] {
    const std::string path = is_path ? to_path(file) : "";
    const WithoutGil without_gil;
    return is_path ? Program::load(path, options)
                   : Program::load(given.bytes, given.owner, options);
  }();
  return value_or_throw<Thrown>(std::move(program));
}

BackendOption backend_option(std::string_view backend, std::string_view key, py::handle value) {
  std::string name(key);
  if (PyBool_Check(value.ptr())) return {std::move(name), value.ptr() == Py_True};
  if (PyUnicode_Check(value.ptr())) return {std::move(name), std::string(to_view(value.ptr()))};
  const std::string where =
      "option \"" + name + "\" of backend \"" + std::string(backend) + "\" is ";
  if (!PyLong_Check(value.ptr())) {
    throw_error<Thrown>(Error(Error::InvalidArgument, where + "a " + Py_TYPE(value.ptr())->tp_name +
                                                          ", expected bool, int or str"));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) {
    throw_error<Thrown>(Error(Error::InvalidArgument, where + "an int of more than 64 bits"));
  }
  return {std::move(name), static_cast<int64_t>(number)};
}

// `backend_options`: a dict of dicts. `devices`: a dict of strings.
py::object load_method(const Program& program, const py::str& name, PySession& session,
                       const py::dict& backend_options, const py::dict& devices,
                       const py::object& limits) {
  LoadMethodOptions options;
  options.limits = to_limits(limits);
  for (const auto [named, used] : devices) {
    const std::string mapping =
        std::string(to_view(named.ptr())) + "=" + std::string(to_view(used.ptr()));
    if (Error error = options.devices.add(mapping); !error.ok()) throw_error<Thrown>(error);
  }
  for (const auto [backend, choices] : backend_options) {
    const std::string_view id = to_view(backend.ptr());
    std::vector<BackendOption>& list = options.backend_options[std::string(id)];
    for (const auto [key, value] : py::cast<py::dict>(choices)) {
      list.push_back(backend_option(id, to_view(key.ptr()), value));
    }
  }
  options.session = session.session();
  const std::string_view method_name = to_view(name.ptr());
  Result<std::unique_ptr<Method>> method = [&] {
    const WithoutGil without_gil;
    return program.load_method(method_name, options);
  }();
  return to_pybind(make_object(PyMethod::type(),
                               std::make_unique<PyMethod>(value_or_throw<Thrown>(std::move(method)),
                                                          session.shared_from_this())));
}

void open_library(const py::bytes& path, bool operators) {
  const std::string file = to_path(path);
  const char* problem = nullptr;
  {
    const WithoutGil without_gil;
    static ForkMutex mutex;
    const std::lock_guard<ForkMutex> lock(mutex);
    // Models find operators in the global scope. Lazily, as does the library the runtime's functions.
    const int flags = operators ? RTLD_LAZY | RTLD_GLOBAL : RTLD_NOW | RTLD_LOCAL;
    if (!dlopen(file.c_str(), flags)) problem = dlerror();
  }
  if (problem) {
    throw_error<Thrown>(make_error(Error::AccessFailed, "cannot open the library of %s: %s",
                                   operators ? "operators" : "a backend", problem));
  }
}

py::object is_backend_available(const py::str& id) {
  const BackendInterface* backend = find_backend(to_view(id.ptr()));
  std::string reason = backend ? "" : "not registered in this process";
  const bool available = backend && backend->is_available(&reason);
  return py::make_tuple(available, reason);
}

void define_classes(py::module_& module) {
  // module_local: hidden from other pybind11 modules.
  py::class_<Program, std::shared_ptr<Program>>(module, "Program", py::module_local())
      .def("method_names",
           [](const Program& program) { return to_pybind(to_list(program.method_names())); })
      .def("method_meta",
           [](const Program& program, const py::str& name) {
             return to_pybind(
                 export_meta(value_or_throw<Thrown>(program.method_meta(to_view(name.ptr())))));
           })
      .def("describe",
           [](const Program& program) {
             return to_pybind(to_object(value_or_throw<Thrown>(describe(program))));
           })
      .def("new_session", [](const Program& program) {
        return std::make_shared<PySession>(program.new_session());
      });
  py::class_<PySession, std::shared_ptr<PySession>>(module, "Session", py::module_local())
      .def("reset", &PySession::reset)
      .def("buffer_names",
           [](const PySession& session) { return to_pybind(to_list(session.buffer_names())); })
      .def("buffer", [](PySession& session,
                        const std::string& name) { return to_pybind(session.buffer(name)); })
      .def("set_buffer", [](PySession& session, const std::string& name,
                            const py::object& value) { session.set_buffer(name, value.ptr()); })
      .def("copy", &PySession::copy);
  module.attr("Method") = py::handle(reinterpret_cast<PyObject*>(PyMethod::type()));
  module.attr("DlpackArray") = py::handle(reinterpret_cast<PyObject*>(DlpackArray::type()));
}

}  // namespace

PYBIND11_MODULE(in_main_interpreter, module) {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const PythonError&) {  // Python's exception is set
    }
  });
  define_classes(module);
  py::dict scalar_types;
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  scalar_types[#name] = py::int_(number);
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  module.attr("SCALAR_TYPES") = scalar_types;
  module.def("load", &load);
  module.def("load_method", &load_method);
  module.def("open_library", &open_library, py::arg("path"), py::arg("operators") = false);
  module.def("registered_backends", [] { return to_pybind(to_list(registered_backends())); });
  module.def("is_backend_available", &is_backend_available);
  module.def("release_cached_memory", [] {
    const WithoutGil without_gil;
    release_cached_memory();
  });
  module.def("isolate", [](uint64_t nbytes) {
    if (const Error error = isolate(nbytes); !error.ok()) {
      throw_error<Thrown>(error);
    }
  });
  module.def("registered_kernels", [] { return to_pybind(to_list(registered_kernels())); });
}

// The module's init function. pybind11, and PyGILState_Ensure(), would deadlock in a
// sub-interpreter.
PYBIND11_PLUGIN_IMPL(_native) {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit_in_main_interpreter();
  PyErr_SetString(PyExc_ImportError,
                  "pteron.runtime was imported in a sub-interpreter and works in the main "
                  "interpreter of a process only; try WSGIApplicationGroup %{GLOBAL} (mod_wsgi), "
                  "single-interpreter = true (uWSGI), or a separate process");
  return nullptr;
}

}  // namespace pteron::python
