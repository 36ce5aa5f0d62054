#include "pteron/tools/runner/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron::runner {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthNbytes = 8;
constexpr uint64_t kMaxHeaderNbytes = 100'000'000;

struct DtypeName {
  const char* name;
  ScalarType dtype;
};
constexpr DtypeName kDtypeNames[] = {
    {"F64", ScalarType::Double},
    {"F32", ScalarType::Float},
    {"F16", ScalarType::Half},
    {"BF16", ScalarType::BFloat16},
    {"F8_E5M2", ScalarType::Float8_e5m2},
    {"F8_E4M3", ScalarType::Float8_e4m3fn},
    {"I64", ScalarType::Long},
    {"I32", ScalarType::Int},
    {"I16", ScalarType::Short},
    {"I8", ScalarType::Char},
    {"U64", ScalarType::UInt64},
    {"U32", ScalarType::UInt32},
    {"U16", ScalarType::UInt16},
    {"U8", ScalarType::Byte},
    {"C64", ScalarType::ComplexFloat},
    {"BOOL", ScalarType::Bool},
};

// One entry of the header.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
};

bool read_integers(const Json& list, std::vector<int64_t>& values) {
  for (const Json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX) return false;
    values.push_back(item.get<int64_t>());
  }
  return list.is_array();
}

// Empty, or an error message.
std::string read_entry(const Json& fields, Entry& entry) {
  const std::string who = "tensor \"" + entry.name + "\" ";
  if (!fields.is_object()) return who + "is not an object";
  for (const auto& [key, value] : fields.items()) {
    bool good = false;
    if (key == "dtype") {
      good = value.is_string();
      if (good) entry.dtype = value.get<std::string>();
    } else if (key == "shape") {
      good = read_integers(value, entry.shape);
    } else if (key == "data_offsets") {
      good = read_integers(value, entry.offsets);
    } else {
      return who + "has an unknown field \"" + key + "\"";
    }
    if (!good) return who + "has a malformed " + key;
  }
  return fields.size() == 3 ? "" : who + "lacks dtype, shape or data_offsets";
}

// Empty, or an error message.
std::string read_header(std::string_view text, std::vector<Entry>& entries) {
  std::set<std::string> names;
  std::string twice;
  const auto note_name = [&](int depth, Json::parse_event_t event, const Json& name) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(name.get<std::string>()).second) {
      twice = name.get<std::string>();
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, note_name);
  } catch (const Json::exception& error) {
    return error.what();
  }
  if (!header.is_object()) return "its header is not an object";
  if (!twice.empty()) return "two tensors are called \"" + twice + "\"";
  for (const auto& [name, fields] : header.items()) {
    if (name == "__metadata__") continue;
    entries.push_back({name, {}, {}, {}});
    std::string problem = read_entry(fields, entries.back());
    if (!problem.empty()) return problem;
  }
  return {};
}

// A view of one tensor, or an error message.
std::string make_view(const Entry& entry, Span<const uint8_t> data, View& view) {
  const std::string who = "tensor \"" + entry.name + "\" ";
  const auto* known = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                                   [&](const DtypeName& name) { return entry.dtype == name.name; });
  if (known == std::end(kDtypeNames)) return who + "has unknown dtype \"" + entry.dtype + "\"";
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1] ||
      static_cast<uint64_t>(entry.offsets[1]) > data.size()) {
    return who + "has data_offsets outside the file's " + std::to_string(data.size()) + " bytes";
  }
  Result<Tensor> tensor = Tensor::make(known->dtype, {entry.shape.data(), entry.shape.size()},
                                       const_cast<uint8_t*>(data.data()) + entry.offsets[0]);
  if (!tensor.ok()) return who + "is malformed: " + tensor.error().message();
  const auto nbytes = static_cast<uint64_t>(entry.offsets[1] - entry.offsets[0]);
  if (tensor->nbytes() != nbytes) {
    return who + "is " + tensor->describe() + " of " + std::to_string(tensor->nbytes()) +
           " bytes, but has " + std::to_string(nbytes);
  }
  view = view_of(*tensor);
  return {};
}

// Empty, or a message if the tensors do not cover `nbytes` without gaps and overlaps.
std::string check_cover(std::vector<Entry> entries, size_t nbytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  int64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.offsets[0] != end) {
      return "tensor \"" + entry.name + "\" starts at byte " + std::to_string(entry.offsets[0]) +
             ", expected " + std::to_string(end);
    }
    end = entry.offsets[1];
  }
  if (static_cast<size_t>(end) == nbytes) return {};
  return "the tensors end at byte " + std::to_string(end) + " of " + std::to_string(nbytes);
}

const char* dtype_name(ScalarType dtype) {
  for (const DtypeName& known : kDtypeNames) {
    if (known.dtype == dtype) return known.name;
  }
  return nullptr;  // complex128
}

size_t nbytes_of(const View& view) {
  return static_cast<size_t>(view.numel()) * element_size(view.dtype);
}

}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits_end = [&](const std::string& s, size_t i) {
    while (i < s.size() && is_digit(s[i])) ++i;
    return i;
  };
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      while (i < a.size() && a[i] == '0') ++i;
      while (j < b.size() && b[j] == '0') ++j;
      const size_t a_end = digits_end(a, i);
      const size_t b_end = digits_end(b, j);
      if (a_end - i != b_end - j) return a_end - i < b_end - j;
      const int order = a.compare(i, a_end - i, b, j, b_end - j);
      if (order != 0) return order < 0;
      i = a_end;
      j = b_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal except for leading zeros
}

Result<SafetensorsFile> SafetensorsFile::read(const std::string& path) {
  PTERON_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  PTERON_ASSIGN_OR_RETURN(SafetensorsFile file, parse(mapped.bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(Span<const uint8_t> bytes, const std::string& name) {
  SafetensorsFile file;
  const auto fail = [&](const std::string& problem) {
    return make_error(Error::InvalidArgument, "%s is no usable safetensors file: %s", name.c_str(),
                      problem.c_str());
  };
  uint64_t header_nbytes = 0;
  if (bytes.size() < kLengthNbytes) return fail(std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header_nbytes, bytes.data(), kLengthNbytes);
  if (header_nbytes > std::min<uint64_t>(bytes.size() - kLengthNbytes, kMaxHeaderNbytes)) {
    return fail("a header of " + std::to_string(header_nbytes) + " bytes in a file of " +
                std::to_string(bytes.size()));
  }
  const char* header = reinterpret_cast<const char*>(bytes.data() + kLengthNbytes);
  const size_t data_offset = kLengthNbytes + header_nbytes;
  const Span<const uint8_t> data(bytes.data() + data_offset, bytes.size() - data_offset);
  std::vector<Entry> entries;
  std::string problem = read_header({header, static_cast<size_t>(header_nbytes)}, entries);
  if (!problem.empty()) return fail(problem);
  for (const Entry& entry : entries) {
    View view;
    problem = make_view(entry, data, view);
    if (!problem.empty()) return fail(problem);
    file.tensors_.push_back({entry.name, view});
  }
  problem = check_cover(entries, data.size());
  if (!problem.empty()) return fail(problem);
  std::sort(
      file.tensors_.begin(), file.tensors_.end(),
      [](const NamedTensor& a, const NamedTensor& b) { return natural_less(a.name, b.name); });
  return file;
}

Error write_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata,
                        AtomicFile& file) {
  // Tensors with large elements first, so that every tensor is aligned.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return element_size(tensors[a].view.dtype) > element_size(tensors[b].view.dtype);
  });
  Json entries = Json::object();
  for (const auto& [key, value] : metadata) entries["__metadata__"][key] = value;
  size_t offset = 0;
  for (const size_t i : order) {
    const View& view = tensors[i].view;
    PTERON_CHECK_OR_RETURN(dtype_name(view.dtype), Error::NotSupported,
                           "tensor \"%s\" is %s, for which safetensors files have no dtype",
                           tensors[i].name.c_str(), name_of(view.dtype));
    const Span<const int64_t> shape = view.shape();
    const size_t end = offset + nbytes_of(view);
    entries[tensors[i].name] = {{"dtype", dtype_name(view.dtype)},
                                {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                                {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = entries.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t header_nbytes = header.size();
  PTERON_RETURN_IF_ERROR(file.write(&header_nbytes, sizeof header_nbytes));
  PTERON_RETURN_IF_ERROR(file.write(header.data(), header.size()));
  std::vector<std::byte> contiguous;
  for (const size_t i : order) {
    const View& view = tensors[i].view;
    contiguous.resize(nbytes_of(view));
    PTERON_RETURN_IF_ERROR(
        copy_elements(view, contiguous_view(view.dtype, view.shape(), contiguous.data())));
    PTERON_RETURN_IF_ERROR(file.write(contiguous.data(), contiguous.size()));
  }
  return Error::Ok;
}

}  // namespace pteron::runner
