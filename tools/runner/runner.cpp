// Runs a program from a shell; see arguments.cpp for the flags.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/core/printable.h"
#include "pteron/runtime/executor/describe.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/profile.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/tools/runner/arguments.h"
#include "pteron/tools/runner/atomic_file.h"
#include "pteron/tools/runner/safetensors.h"
#include "pteron/tools/runner/values.h"

namespace pteron::runner {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// One method of the command line, loaded.
struct Task {
  std::unique_ptr<Method> method;
  Inputs inputs;
  std::vector<std::unique_ptr<std::byte[]>> output_memory;
  std::optional<AtomicFile> outputs;
};

Result<Task> make_task(const Arguments& arguments, const Program& program, size_t index,
                       const std::shared_ptr<Session>& session, EventTracer* tracer) {
  Task task;
  const std::string& name = arguments.methods[index];
  PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program.method_meta(name));
  if (!arguments.inputs.empty()) {
    PTERON_ASSIGN_OR_RETURN(const SafetensorsFile file,
                            SafetensorsFile::read(arguments.inputs[index]));
    PTERON_ASSIGN_OR_RETURN(task.inputs, Inputs::from_tensors(meta, file.tensors()));
  } else {
    PTERON_ASSIGN_OR_RETURN(task.inputs, Inputs::zeros(meta));
  }
  if (!arguments.outputs.empty()) {
    PTERON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(arguments.outputs[index]));
    task.outputs.emplace(std::move(file));
  }
  LoadMethodOptions options;
  options.session = session;
  options.tracer = tracer;
  options.devices = arguments.devices;
  for (const DelegateMeta& delegate : meta.delegates) {
    // An option may be for a backend that only another method uses.
    const auto found = arguments.backend_options.find(std::string(delegate.backend_id));
    if (found != arguments.backend_options.end()) options.backend_options.insert(*found);
  }
  PTERON_ASSIGN_OR_RETURN(task.method, program.load_method(name, options));
  PTERON_ASSIGN_OR_RETURN(task.output_memory, provide_output_memory(*task.method));
  return task;
}

Error run_once(Task& task) {
  PTERON_RETURN_IF_ERROR(task.method->set_inputs(task.inputs.values()));
  return task.method->execute();
}

Error prepare_runs(Task& task) {
  PTERON_RETURN_IF_ERROR(task.method->set_inputs(task.inputs.values()));
  return task.method->prepare();
}

Error measure(Task& task, int64_t repeat) {
  std::vector<double> times_us;
  for (int64_t i = 0; i < repeat; ++i) {
    const Clock::time_point start = Clock::now();
    PTERON_RETURN_IF_ERROR(run_once(task));
    times_us.push_back(microseconds_since(start));
  }
  std::sort(times_us.begin(), times_us.end());
  const auto quantile = [&](double q) {
    return times_us[static_cast<size_t>(q * static_cast<double>(times_us.size() - 1) + 0.5)];
  };
  std::printf("%s: median %.2f us, p10 %.2f us, p90 %.2f us over %lld runs\n",
              printable(task.method->name()).c_str(), quantile(0.5), quantile(0.1), quantile(0.9),
              static_cast<long long>(repeat));
  return Error::Ok;
}

// Peak memory of this process, including mapped files, and the size of those.
void print_memory() {
  std::string line;
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    std::printf("process: peak memory %lld KiB\n", std::atoll(line.c_str() + 6));
  }
  unsigned long long mapped = 0;
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    if (line.find('/') == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%llx-%llx", &begin, &end) == 2) mapped += end - begin;
  }
  std::printf("process: mapped files %llu KiB\n", mapped / 1024);
}

// Options for backends that no method uses would be silently ignored.
Error check_backend_options(const Arguments& arguments, const Program& program) {
  for (const auto& [backend, options] : arguments.backend_options) {
    bool used = false;
    for (const std::string& name : arguments.methods) {
      PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program.method_meta(name));
      for (const DelegateMeta& delegate : meta.delegates) used |= delegate.backend_id == backend;
    }
    PTERON_CHECK_OR_RETURN(used, Error::InvalidArgument,
                           "--backend_option: none of the methods to run uses backend \"%s\"",
                           backend.c_str());
  }
  return Error::Ok;
}

Error run_methods(const Arguments& arguments, const Program& program, double open_us,
                  EventTracer* tracer) {
  PTERON_RETURN_IF_ERROR(check_backend_options(arguments, program));
  const Clock::time_point start = Clock::now();
  const std::shared_ptr<Session> session = program.new_session();
  std::vector<Task> tasks;
  for (size_t i = 0; i < arguments.methods.size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(Task task, make_task(arguments, program, i, session, tracer));
    if (arguments.repeat > 0) PTERON_RETURN_IF_ERROR(task.method->set_tracer(nullptr));
    tasks.push_back(std::move(task));
  }
  const double load_us = open_us + microseconds_since(start);
  for (Task& task : tasks) {
    if (arguments.prepare) PTERON_RETURN_IF_ERROR(prepare_runs(task));
    const Clock::time_point first = Clock::now();
    PTERON_RETURN_IF_ERROR(run_once(task));
    const double first_us = microseconds_since(first);
    if (task.outputs) PTERON_RETURN_IF_ERROR(write_outputs(*task.method, *task.outputs));
    if (arguments.repeat == 0) continue;
    std::printf("%s: load %.0f us, first run %.0f us\n", printable(task.method->name()).c_str(),
                load_us, first_us);
    PTERON_RETURN_IF_ERROR(measure(task, arguments.repeat));
  }
  if (arguments.repeat > 0) print_memory();
  for (Task& task : tasks) {
    if (!tracer || arguments.repeat == 0) break;
    PTERON_RETURN_IF_ERROR(task.method->set_tracer(tracer));
    PTERON_RETURN_IF_ERROR(run_once(task));
  }
  // Written last, so that a failure leaves no file.
  for (Task& task : tasks) {
    if (task.outputs) PTERON_RETURN_IF_ERROR(task.outputs->commit());
  }
  return Error::Ok;
}

Error run(int argc, const char* const* argv) {
  PTERON_ASSIGN_OR_RETURN(const Arguments arguments, parse_arguments(argc, argv));
  if (arguments.help) {
    std::fputs(kUsage, stdout);
    return Error::Ok;
  }
  const Clock::time_point start = Clock::now();
  PTERON_ASSIGN_OR_RETURN(const LoadOptions options, load_options(arguments));
  PTERON_ASSIGN_OR_RETURN(const auto program, Program::load(arguments.program, options));
  const double open_us = microseconds_since(start);
  if (arguments.describe) {
    PTERON_ASSIGN_OR_RETURN(const std::string text, describe(*program));
    std::fputs(text.c_str(), stdout);
    const bool only =
        arguments.inputs.empty() && arguments.outputs.empty() && arguments.repeat == 0;
    if (only) return Error::Ok;
  }
  if (arguments.trace.empty()) return run_methods(arguments, *program, open_us, nullptr);
  PTERON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(arguments.trace));
  Profile profile;
  Error error = run_methods(arguments, *program, open_us, &profile);
  const std::string json = profile.to_json();
  Error written = file.write(json.data(), json.size());
  if (written.ok()) written = file.commit();
  return error.ok() ? std::move(written) : std::move(error);
}

}  // namespace
}  // namespace pteron::runner

int main(int argc, char** argv) {
  // A file may require more memory than there is.
  const pteron::Error error =
      pteron::catch_exceptions([&] { return pteron::runner::run(argc, argv); });
  if (error.ok() && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "runner: %s\n",
               error.ok() ? "cannot write to the standard output" : error.message().c_str());
  return 1;
}
