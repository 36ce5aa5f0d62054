// An open program file: its methods, and how to load them.
//
//   #include <cstring>
//   #include "pteron/runtime/executor/program.h"
//   #include "pteron/runtime/executor/method.h"
//
//   Error run(float* x, float* y) {
//     PTERON_ASSIGN_OR_RETURN(auto program, Program::load("model.pte"));
//     PTERON_ASSIGN_OR_RETURN(auto method, program->load_method("forward"));
//     const int64_t sizes[] = {1, 128};
//     PTERON_ASSIGN_OR_RETURN(Tensor input, Tensor::make(ScalarType::Float, sizes, x));
//     PTERON_RETURN_IF_ERROR(method->set_input(0, EValue(input)));
//     PTERON_RETURN_IF_ERROR(method->execute());
//     const Tensor& output = method->get_output(0).tensor();
//     std::memcpy(y, output.data(), output.nbytes());
//     return Error::Ok;
//   }
//
// The file is mapped, not read: constants and delegates' blobs are used in place, and loading does
// not access their pages (except with Verification::Full and Required). The file must not change while it is
// open: if it is truncated, the next access ends the process with SIGBUS. If others can write to
// it, read it first and load its bytes; for data files use LoadOptions::data_files.
//
// Immutable and thread-safe: share one Program between all threads. Methods and sessions keep it
// alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/backend/device_map.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/executor/method_meta.h"
#include "pteron/runtime/platform/guard_pages.h"
#include "pteron/runtime/program_reader/load_options.h"

namespace pteron {

class Method;
class Session;
class ProgramData;
class FileBytes;

// Whether this was compiled with AddressSanitizer.
struct LoadMethodOptions {
  // The session of mutable buffers, from new_session() of the same program. Null: a new session.
  std::shared_ptr<Session> session;
  // Backend options by backend id. An id that no delegate of the method has is an error.
  std::map<std::string, std::vector<BackendOption>> backend_options;
  // Maps devices of the program to others, for planned memory, mutable buffers, inputs, outputs and
  // delegates; the method's meta() has the result. Devices that the method does not use are
  // ignored. Methods of one session must agree.
  DeviceMap devices;
  // Receives events of the load and every run; must outlive the method. May be null.
  EventTracer* tracer = nullptr;
  // Overrides the program's limits (LoadOptions::limits).
  std::optional<Limits> limits;
  // Allocates each planned tensor separately instead of in one block, so that AddressSanitizer
  // detects overflows. Tensors planned at identical bytes still share them, since one may be a view
  // of the other.
  bool separate_tensors = kAddressSanitizer;
};

// Contents of a file, human-readable.
struct SegmentMeta {
  std::string file;     // path of the program or data file; empty when loaded from memory
  uint64_t offset = 0;  // in bytes, from the start of the file
  uint64_t nbytes = 0;
  std::string digest;  // SHA-256 as hex; empty when the file has no integrity table
};

struct NamedDataMeta {
  std::string_view key;  // borrowed from the Program
  std::string_view file;
  uint64_t nbytes = 0;
  bool has_layout = false;  // a tensor: dtype and sizes are known
};

class Program final : public std::enable_shared_from_this<Program> {
 public:
  // NotFound, AccessFailed: the file; InvalidProgram: invalid contents, with all errors (the first
  // 20); InvalidExternalData: a data file; NotSupported: features that this version cannot read.
  static Result<std::shared_ptr<const Program>> load(const std::string& path,
                                                     const LoadOptions& options = {});

  // From memory. With an `owner`, bytes at a multiple of 16 are used in place and `owner` is kept
  // as long as the program; otherwise they are copied.
  static Result<std::shared_ptr<const Program>> load(Span<const uint8_t> bytes,
                                                     std::shared_ptr<const void> owner = nullptr,
                                                     const LoadOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // In file order.
  std::vector<std::string> method_names() const;

  // Needs no backend and no kernel. NotFound lists the methods.
  Result<MethodMeta> method_meta(std::string_view name) const;

  // Allocates the method's memory and initializes its delegates. NotFound: no such method, backend
  // or external constant; OperatorMissing lists all kernels that are not registered; or a backend's
  // error. MemoryAllocationFailed: also exceeded limits. A failed load has no effect, except that
  // buffers added to a session stay there.
  Result<std::unique_ptr<Method>> load_method(std::string_view name,
                                              const LoadMethodOptions& options = {}) const;

  // An empty session; methods add their buffers when they are loaded into it.
  std::shared_ptr<Session> new_session() const;

  // Blobs of the program and its data files. Lives as long as the Program.
  const NamedDataMap& named_data() const;

  const std::string& path() const;  // empty when loaded from memory
  uint64_t file_nbytes() const;
  bool has_integrity_table() const;
  Verification verification() const;
  std::vector<SegmentMeta> segments() const;              // of the program, then of each data file
  std::vector<NamedDataMeta> named_data_entries() const;  // sorted by key

  // Internal.
  const ProgramData& data() const { return *data_; }

 private:
  explicit Program(std::unique_ptr<ProgramData> data);
  static Result<std::shared_ptr<const Program>> load(FileBytes file, const LoadOptions& options,
                                                     LoadBudget& budget);

  std::unique_ptr<ProgramData> data_;
};

}  // namespace pteron
