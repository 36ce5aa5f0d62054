// The command line of the runner.
//
//   PTERON_ASSIGN_OR_RETURN(Arguments arguments, parse_arguments(argc, argv));
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pteron/runtime/backend/device_map.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/program.h"

namespace pteron::runner {

struct Arguments {
  std::string program;
  LoadOptions load;
  std::vector<std::string> methods = {"forward"};
  std::vector<std::string> inputs;   // none, or one file per method
  std::vector<std::string> outputs;  // as inputs
  std::map<std::string, std::vector<BackendOption>> backend_options;
  DeviceMap devices;
  std::vector<std::string> trusted_keys;  // paths
  uint64_t minimum_version = 0;
  bool allow_unsigned = false;
  std::string trace;
  int64_t repeat = 0;
  bool describe = false;
  bool prepare = false;
  bool help = false;
};

// The text of --help.
extern const char kUsage[];

// InvalidArgument lists all errors, one per line.
Result<Arguments> parse_arguments(int argc, const char* const* argv);

// `arguments.load`, under the policy of the command line. In policy.cpp, of the runner that verifies
// signatures, and in no_policy.cpp, of those that cannot.
Result<LoadOptions> load_options(const Arguments& arguments);

}  // namespace pteron::runner
