// A validated program file in memory: FlatBuffers root, segments and named data.
//
//   PTERON_ASSIGN_OR_RETURN(auto data, ProgramData::read(std::move(file), options, budget));
//   for (const schema::Method* method : *data->root().methods()) ...
//
// Immutable after read(); thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/program_reader/data_map.h"
#include "pteron/runtime/program_reader/file_bytes.h"
#include "pteron/runtime/program_reader/load_options.h"
#include "pteron/runtime/program_reader/segments.h"
#include "pteron/runtime/program_reader/tensor_data_file.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

// Tensor data by index: the constant segment, or the initial values of planned tensors.
class IndexedData final {
 public:
  IndexedData() = default;
  IndexedData(Span<const uint8_t> segment, const flatbuffers::Vector<uint64_t>* offsets)
      : segment_(segment), offsets_(offsets) {}

  // `nbytes` at entry `index` > 0. InvalidProgram when there is no such entry or it is too short.
  Result<Span<const uint8_t>> get(uint32_t index, size_t nbytes) const;

 private:
  Span<const uint8_t> segment_;
  const flatbuffers::Vector<uint64_t>* offsets_ = nullptr;  // entry 0 is a placeholder
};

class ProgramData final {
 public:
  // Reads layout, structure and tables, opens the data files, and verifies as
  // `options.verification` requires. `budget` is for data files in memory. All errors of one stage
  // are reported together.
  static Result<std::unique_ptr<ProgramData>> read(FileBytes file, const LoadOptions& options,
                                                   LoadBudget& budget);

  const schema::Program& root() const { return *root_; }
  const FileBytes& file() const { return file_; }
  bool has_integrity_table() const { return has_integrity_table_; }
  Verification verification() const { return verification_; }
  const Limits& limits() const { return limits_; }

  const Segments& segments() const { return segments_; }
  const std::vector<std::unique_ptr<TensorDataFile>>& data_files() const { return data_files_; }
  const DataMap& named_data() const { return named_data_; }
  const IndexedData& constants() const { return constants_; }
  const IndexedData& initial_values() const { return initial_values_; }

  // Validates the method if read() did not; NotFound lists the methods.
  Result<const schema::Method*> find_method(std::string_view name) const;

  // The processed bytes of a delegate; its method must have been validated.
  Span<const uint8_t> processed(const schema::Delegate& delegate) const;
  // Checks the processed bytes' segment against its digest.
  Error verify_processed(const schema::Delegate& delegate) const;

 private:
  ProgramData() = default;

  Error check_backends(const std::vector<std::string>& allowed) const;
  Error add_data_file(FileBytes file, const LoadOptions& options);
  Error read_tables(const struct FileLayout& layout);
  void read_indexed_data(ErrorList* errors);
  void read_named_data(ErrorList* errors);
  void read_methods(ErrorList* errors);
  Error check_integrity(const struct FileLayout& layout) const;

  FileBytes file_;
  bool has_integrity_table_ = false;
  Verification verification_ = Verification::InternalConsistency;
  Limits limits_;
  const schema::Program* root_ = nullptr;
  Segments segments_;
  std::vector<std::unique_ptr<TensorDataFile>> data_files_;
  DataMap named_data_;
  IndexedData constants_;
  IndexedData initial_values_;
  std::vector<const schema::Method*> methods_;  // sorted by name
};

}  // namespace pteron
