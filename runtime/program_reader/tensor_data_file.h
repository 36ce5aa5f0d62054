// A tensor-data file (.ptd), opened: segments and their keys.
//
//   PTERON_ASSIGN_OR_RETURN(auto file, TensorDataFile::open("model.ptd"));
//   file->add_to(&map);
//
// Immutable; must outlive every map it was added to.
#pragma once

#include <memory>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/program_reader/data_map.h"
#include "pteron/runtime/program_reader/file_bytes.h"
#include "pteron/runtime/program_reader/segments.h"

namespace pteron {

namespace schema {
struct TensorData;
}  // namespace schema

class TensorDataFile final {
 public:
  // NotFound, AccessFailed: the path; InvalidExternalData: the contents, all that is wrong with
  // them.
  static Result<std::unique_ptr<TensorDataFile>> open(const std::string& path);

  const Segments& segments() const { return segments_; }
  void add_to(DataMap* map) const;

 private:
  TensorDataFile() = default;

  FileBytes file_;
  Segments segments_;
  const schema::TensorData* root_ = nullptr;
};

}  // namespace pteron
