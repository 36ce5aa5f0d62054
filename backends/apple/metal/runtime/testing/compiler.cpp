#include "pteron/backends/apple/metal/runtime/testing/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern char** environ;

namespace pteron::metal {

extern const char kStandardLibrary[];  // metal_stdlib.h

namespace {

// A private folder with an unpredictable name; removed with its files.
class PrivateFolder {
 public:
  PrivateFolder() {
    const char* root = std::getenv("TMPDIR");
    std::string name = std::string(root && *root ? root : "/tmp") + "/pteron-kernels-XXXXXX";
    if (mkdtemp(name.data())) path_ = name;
  }
  ~PrivateFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    if (!path_.empty()) rmdir(path_.c_str());
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) { return files_.emplace_back(path_ + "/" + name); }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first lines with errors.
std::string errors_in(const std::string& output) {
  std::string found;
  size_t lines = 0;
  for (size_t begin = 0; begin < output.size() && lines < 5;) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    if (line.find("error") != std::string::npos) {
      found += (lines++ ? "\n" : "") + line;
    }
    begin = end + 1;
  }
  return found.empty() ? output.substr(0, 400) : found;
}

Result<int> run(const std::vector<std::string>& command, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, output.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  PTERON_CHECK_OR_RETURN(error == 0, Error::NotFound,
                         "kernels of the recording device are compiled by %s, which cannot be "
                         "started (%s); set CXX to a C++ compiler",
                         arguments[0], std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<void*> compile_and_open(const std::string& cpp) {
  PrivateFolder folder;
  PTERON_CHECK_OR_RETURN(!folder.path().empty(), Error::AccessFailed,
                         "no temporary folder can be made: %s", std::strerror(errno));
  const std::string source = folder.file("kernel.cpp"), object = folder.file("kernel.so"),
                    output = folder.file("output");
  std::ofstream(folder.file("metal_stdlib")) << kStandardLibrary;
  for (const char* other : {"metal_array", "metal_atomic", "metal_compute", "metal_math"}) {
    std::ofstream(folder.file(other)) << "#include <metal_stdlib>\n";
  }
  std::ofstream(source) << "#include <metal_stdlib>\n" << cpp;
  const char* const chosen = std::getenv("CXX");
  PTERON_ASSIGN_OR_RETURN(
      const int status,
      run({chosen && *chosen ? chosen : "g++", "-std=gnu++17", "-O1", "-w", "-fPIC", "-shared",
           "-fsingle-precision-constant", "-ffp-contract=off", "-fno-gnu-unique", "-fmax-errors=5",
           "-I" + folder.path(), source, "-o", object},
          output));
  PTERON_CHECK_OR_RETURN(status == 0, Error::InvalidProgram, "%s", errors_in(read(output)).c_str());
  void* const library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  PTERON_CHECK_OR_RETURN(library, Error::InvalidProgram, "%s", dlerror());
  return library;
}

}  // namespace pteron::metal
