// Reads and writes safetensors files.
//
//   PTERON_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::read("x.safetensors"));
//   for (const NamedTensor& tensor : file.tensors()) use(tensor.name, tensor.view);
//
//   PTERON_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create("y.safetensors"));
//   PTERON_RETURN_IF_ERROR(write_safetensors(tensors, {}, out));
//   PTERON_RETURN_IF_ERROR(out.commit());
//
// The format: u64 length of the header (little-endian); the header, a JSON object of
// name -> {"dtype", "shape", "data_offsets": [begin, end]}, and "__metadata__", an object of
// strings; then the bytes, which the tensors cover without gaps or overlaps.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/kernel/view.h"
#include "pteron/runtime/platform/mapped_file.h"
#include "pteron/tools/runner/atomic_file.h"

namespace pteron::runner {

struct NamedTensor {
  std::string name;
  View view;  // contiguous when read; any layout when written
};

class SafetensorsFile final {
 public:
  // Tensors sorted by name in natural order (x_2 before x_10). InvalidArgument: an invalid file;
  // the message says where.
  static Result<SafetensorsFile> read(const std::string& path);
  // The same of bytes, which must outlive the tensors; `name` is for messages.
  static Result<SafetensorsFile> parse(Span<const uint8_t> bytes, const std::string& name);

  // Borrowed from the file, read-only, with the file's alignment.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  MappedFile file_;
  std::vector<NamedTensor> tensors_;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Writes header and bytes; layouts become contiguous. Names must differ.
Error write_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata,
                        AtomicFile& file);

// Digits compare as integers: "input_2" < "input_10".
bool natural_less(const std::string& a, const std::string& b);

}  // namespace pteron::runner
