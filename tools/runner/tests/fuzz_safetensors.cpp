// safetensors files: whatever is in one, reading it ends in an error or in tensors of its bytes.
//
// If the first byte is odd, the rest is a header, with a length and data that fit it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "pteron/tools/runner/safetensors.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr char kHeader[] =
    "\x01"
    R"({"x_10":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("x_9":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"__metadata__":{"a":"b"}})";
constexpr size_t kDataNbytes = 32;

// Whether it is a file; reads all that a caller can.
bool read(std::string_view text) {
  // No byte longer, so that AddressSanitizer guards the end.
  const auto bytes = std::make_unique<uint8_t[]>(text.size());
  std::copy(text.begin(), text.end(), bytes.get());
  const auto file = pteron::runner::SafetensorsFile::parse({bytes.get(), text.size()}, "x");
  if (!file.ok()) {
    if (file.error().message().empty()) std::abort();
    return false;
  }
  static volatile uint8_t sink;
  uint8_t all = 0;
  for (const pteron::runner::NamedTensor& tensor : file->tensors()) {
    const size_t nbytes =
        static_cast<size_t>(tensor.view.numel()) * pteron::element_size(tensor.view.dtype);
    const auto* const data =
        static_cast<const uint8_t*>(static_cast<const void*>(tensor.view.data));
    for (size_t i = 0; i < nbytes; ++i) all ^= data[i];
  }
  sink = all;
  return true;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned) {
  if (size < 8) {
    size = std::min(sizeof(kHeader) - 1, max_size);
    std::copy_n(kHeader, size, data);
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (size == 0 || data[0] % 2 == 0) {
    (void)read(text.substr(std::min<size_t>(size, 1)));
    return 0;
  }
  const uint64_t length = size - 1;
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += text.substr(1);
  file.append(kDataNbytes, '\x07');
  const bool is_file = read(file);
  if (text == std::string_view(kHeader, sizeof(kHeader) - 1) && !is_file) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(kHeader), sizeof(kHeader) - 1);
}
