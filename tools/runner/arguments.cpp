#include "pteron/tools/runner/arguments.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace pteron::runner {

const char kUsage[] =
    R"(Loads a program and runs its methods.

  runner --program model.pte --inputs x.safetensors --outputs y.safetensors

  --program FILE          the program (.pte)
  --data FILE             tensor-data file (.ptd); may be repeated
  --method NAMES          methods to run one after another, separated by commas (forward); they
                          share one session, that is, their mutable buffers
  --inputs FILES          one safetensors file for each method. Tensors called input_0, input_1, ...
                          are taken by number, others in natural order of their names. A 0-d tensor
                          stands for a scalar; None and strings are never read, they are what the
                          method was exported with. Without this flag, inputs are zeros of their
                          largest size.
  --outputs FILES         one safetensors file for each method, with tensors output_0, output_1, ...
  --prepare               prepare each method for its inputs, before it runs (CUDA graphs); fails if
                          that cannot be
  --repeat N              run each method N more times and print its latency, and the memory used
  --trace FILE            write where the time went, as JSON for ui.perfetto.dev (docs/profiling.md)
                          of loading and the runs or, with --repeat, of one more run of each method
                          at the end; also if a run fails
  --describe              print what the program holds; runs nothing unless --inputs, --outputs or
                          --repeat is there too
  --verification LEVEL    minimal, internal_consistency (default), full or required
  --allowed_backends B,C  reject a program with delegates of other backends; --allowed_backends= for
                          one with any, that is, with native code
  --trusted_keys FILES    public keys (PEM), separated by commas: the program must be signed by one
                          (docs/trust.md); only verifying_runner has this
  --minimum_version N     reject signatures of lower versions
  --allow_unsigned        take programs without a signature, too; a wrong one is an error
  --backend_option B:K=V  an option for backend B, such as CpuBackend:num_threads=2; may be repeated
  --device A=B            use device B where the program names A, such as cuda:0=cuda:1; may be
                          repeated
  --limits L=N,...        run_time (seconds of a run), instructions (of a run), planned_bytes and
                          load_bytes, such as run_time=0.5,planned_bytes=67108864; see limits.h
  --help                  print this
)";

namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool parse_integer(const std::string& text, int64_t& value) {
  char* end = nullptr;
  errno = 0;
  value = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}

// Each returns an error message, or an empty string.
std::string set_backend_option(const std::string& text, Arguments& arguments) {
  const size_t colon = text.find(':');
  const size_t equal = colon == std::string::npos ? colon : text.find('=', colon);
  if (equal == std::string::npos || colon == 0 || equal == colon + 1) {
    return "--backend_option: found \"" + text + "\", expected Backend:key=value";
  }
  BackendOption option{text.substr(colon + 1, equal - colon - 1), text.substr(equal + 1)};
  const std::string value = text.substr(equal + 1);
  int64_t integer = 0;
  if (value == "true" || value == "false") {
    option.value = value == "true";
  } else if (parse_integer(value, integer)) {
    option.value = integer;
  }
  arguments.backend_options[text.substr(0, colon)].push_back(std::move(option));
  return {};
}

std::string set_verification(const std::string& text, Arguments& arguments) {
  const std::map<std::string, Verification> levels = {
      {"minimal", Verification::Minimal},
      {"internal_consistency", Verification::InternalConsistency},
      {"full", Verification::Full},
      {"required", Verification::Required}};
  const auto found = levels.find(text);
  if (found == levels.end()) {
    return "--verification: found \"" + text +
           "\", expected minimal, internal_consistency, full or required";
  }
  arguments.load.verification = found->second;
  return {};
}

std::string set_limits(const std::string& text, Limits& limits) {
  for (const std::string& part : split(text)) {
    const size_t equal = part.find('=');
    const std::string name = part.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : part.substr(equal + 1);
    uint64_t* const number = name == "instructions"    ? &limits.instructions
                             : name == "planned_bytes" ? &limits.planned_bytes
                             : name == "load_bytes"    ? &limits.load_bytes
                                                       : nullptr;
    int64_t integer = 0;
    char* end = nullptr;
    if (number && parse_integer(value, integer) && integer >= 0) {
      *number = static_cast<uint64_t>(integer);
    } else if (name == "run_time" && !value.empty() &&
               (limits.run_time = std::strtod(value.c_str(), &end)) >= 0 && *end == '\0') {
    } else {
      return "--limits: found \"" + part +
             "\", expected run_time=SECONDS, or a number of at least 0 for instructions, "
             "planned_bytes or load_bytes";
    }
  }
  return {};
}

template <typename Number>
std::string set_number(const std::string& name, const std::string& text, Number& number) {
  int64_t integer = 0;
  if (!parse_integer(text, integer) || integer < 0) {
    return "--" + name + ": found \"" + text + "\", expected a number of at least 0";
  }
  number = static_cast<Number>(integer);
  return {};
}

std::string set_flag(const std::string& name, const std::string& value, Arguments& arguments) {
  if (name == "program") {
    arguments.program = value;
  } else if (name == "data") {
    arguments.load.data_paths.push_back(value);
  } else if (name == "method") {
    arguments.methods = split(value);
  } else if (name == "inputs") {
    arguments.inputs = split(value);
  } else if (name == "outputs") {
    arguments.outputs = split(value);
  } else if (name == "trace") {
    arguments.trace = value;
  } else if (name == "repeat") {
    return set_number(name, value, arguments.repeat);
  } else if (name == "verification") {
    return set_verification(value, arguments);
  } else if (name == "allowed_backends") {
    arguments.load.allowed_backends = value.empty() ? std::vector<std::string>() : split(value);
  } else if (name == "trusted_keys") {
    arguments.trusted_keys = split(value);
  } else if (name == "minimum_version") {
    return set_number(name, value, arguments.minimum_version);
  } else if (name == "backend_option") {
    return set_backend_option(value, arguments);
  } else if (name == "limits") {
    return set_limits(value, arguments.load.limits);
  } else if (name == "device") {
    const Error error = arguments.devices.add(value);
    if (!error.ok()) return "--device: " + error.message();
  } else {
    return "unknown flag --" + name + "; --help lists the flags";
  }
  return {};
}

// A flag without a value is true.
std::string set_switch(const std::string& name, const std::string& value, bool& target) {
  if (value != "true" && value != "false") {
    return "--" + name + ": found \"" + value + "\", expected true or false";
  }
  target = value == "true";
  return {};
}

std::string check(const Arguments& arguments) {
  std::string problems;
  const auto check_files = [&](const char* flag, size_t files) {
    if (files == 0 || files == arguments.methods.size()) return;
    problems += std::string("--") + flag + ": found " + std::to_string(files) + " files for " +
                std::to_string(arguments.methods.size()) + " methods\n";
  };
  if (arguments.program.empty()) problems += "--program: missing\n";
  if (arguments.trusted_keys.empty() && (arguments.minimum_version || arguments.allow_unsigned)) {
    problems += "--minimum_version and --allow_unsigned: expected --trusted_keys, too\n";
  }
  check_files("inputs", arguments.inputs.size());
  check_files("outputs", arguments.outputs.size());
  return problems;
}

}  // namespace

Result<Arguments> parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  std::string problems;
  const auto note = [&](const std::string& problem) {
    if (!problem.empty()) problems += problem + "\n";
  };
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      note("found \"" + name + "\", expected a flag");
      continue;
    }
    name.erase(0, 2);
    const size_t equal = name.find('=');
    const bool has_value = equal != std::string::npos;
    std::string value = has_value ? name.substr(equal + 1) : "";
    name = name.substr(0, equal);
    if (name == "describe" || name == "help" || name == "prepare" || name == "allow_unsigned") {
      bool& target = name == "help"       ? arguments.help
                     : name == "describe" ? arguments.describe
                     : name == "prepare"  ? arguments.prepare
                                          : arguments.allow_unsigned;
      note(set_switch(name, has_value ? value : "true", target));
      continue;
    }
    if (!has_value && i + 1 >= argc) {
      note("--" + name + ": missing value");
      continue;
    }
    if (!has_value) value = argv[++i];
    note(set_flag(name, value, arguments));
  }
  if (arguments.help) return arguments;
  problems += check(arguments);
  if (problems.empty()) return arguments;
  problems.pop_back();
  return Error(Error::InvalidArgument, std::move(problems));
}

}  // namespace pteron::runner
