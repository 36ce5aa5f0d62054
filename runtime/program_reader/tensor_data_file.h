// An open tensor-data file (.ptd): segments and their keys.
//
//   PTERON_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::map("model.ptd"));
//   PTERON_ASSIGN_OR_RETURN(auto file, TensorDataFile::read(std::move(bytes)));
//   file->add_to(&map);
//
// Immutable; must outlive every map it was added to.
#pragma once

#include <memory>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/program_reader/data_map.h"
#include "pteron/runtime/program_reader/file_bytes.h"
#include "pteron/runtime/program_reader/file_layout.h"
#include "pteron/runtime/program_reader/segments.h"

namespace pteron {

namespace schema {
struct TensorData;
}  // namespace schema

class TensorDataFile final {
 public:
  // InvalidExternalData lists all errors.
  static Result<std::unique_ptr<TensorDataFile>> read(FileBytes file);

  const FileLayout& layout() const { return layout_; }
  const Segments& segments() const { return segments_; }
  // As Verification::Required asks for (integrity.h).
  Error check_every_byte() const;
  void add_to(DataMap* map) const;

 private:
  TensorDataFile() = default;

  FileBytes file_;
  FileLayout layout_;
  Segments segments_;
  const schema::TensorData* root_ = nullptr;
};

}  // namespace pteron
