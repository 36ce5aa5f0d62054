// A program file, opened: what methods it has, and the way to load them.
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
// The file is mapped, not read: constants and delegates' blobs are used in place, and loading
// touches none of their pages (unless under Verification::Full). The file must not be changed while
// it is open: where somebody truncates it, the next access ends the process with SIGBUS. Where
// others can write to it, read it and load its bytes; LoadOptions::data_files takes those of data
// files.
//
// Immutable and thread-safe: share one Program among all threads. Methods and sessions keep it
// alive.
#pragma once

#include <cstddef>
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
#include "pteron/runtime/program_reader/load_options.h"

namespace pteron {

class Method;
class Session;
class ProgramData;
class FileBytes;

// Whether this was compiled with AddressSanitizer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

struct LoadMethodOptions {
  // Where mutable buffers live; made by new_session() of the same program. Null: a session of its
  // own.
  std::shared_ptr<Session> session;
  // Choices for backends, by backend id. An id that no delegate of the method has is an error.
  std::map<std::string, std::vector<BackendOption>> backend_options;
  // Devices to use instead of those that the program names. Planned memory, mutable buffers,
  // inputs, outputs and delegates follow, as meta() of the method tells. A device that the method
  // does not name is ignored. Methods of one session must agree.
  DeviceMap devices;
  // Hears about the load and every run; must outlive the method. May be null.
  EventTracer* tracer = nullptr;
  // Instead of those that the program was loaded with (LoadOptions::limits).
  std::optional<Limits> limits;
  // Memory of its own for each planned tensor instead of one block for all, so that AddressSanitizer
  // sees what reaches beyond a tensor. Those planned at the very same bytes still share them: one
  // may be a view of the other.
  bool separate_tensors = kAddressSanitizer;
};

// What a file holds, human-readable.
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
  // NotFound, AccessFailed: the file; InvalidProgram: its contents, with all errors found (the
  // first 20); InvalidExternalData: a data file; NotSupported: what this version cannot read.
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

  // In the order of the file.
  std::vector<std::string> method_names() const;

  // Needs no backend and no kernel. NotFound, naming the methods there are.
  Result<MethodMeta> method_meta(std::string_view name) const;

  // Allocates the method's memory and initialises its delegates. NotFound: no such method, backend
  // or external constant; OperatorMissing: all kernels that are not registered; and what a backend
  // says. MemoryAllocationFailed: also what limits do not allow. A failed load leaves nothing behind (buffers added to a session stay there).
  Result<std::unique_ptr<Method>> load_method(std::string_view name,
                                              const LoadMethodOptions& options = {}) const;

  // Empty; methods add their buffers when they are loaded into it.
  std::shared_ptr<Session> new_session() const;

  // Blobs of the program and its data files. Lives as long as the Program.
  const NamedDataMap& named_data() const;

  const std::string& path() const;  // empty when loaded from memory
  uint64_t file_nbytes() const;
  bool has_integrity_table() const;
  Verification verification() const;
  std::vector<SegmentMeta> segments() const;              // of the program, then of each data file
  std::vector<NamedDataMeta> named_data_entries() const;  // sorted by key

  // For the executor.
  const ProgramData& data() const { return *data_; }

 private:
  explicit Program(std::unique_ptr<ProgramData> data);
  static Result<std::shared_ptr<const Program>> load(FileBytes file, const LoadOptions& options,
                                                     LoadBudget& budget);

  std::unique_ptr<ProgramData> data_;
};

}  // namespace pteron
