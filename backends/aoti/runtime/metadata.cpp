#include "pteron/backends/aoti/runtime/metadata.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {
namespace {

// Limits memory; a file needs few symbols.
constexpr int32_t kMaxSymbols = 4096;

std::string_view text(const flatbuffers::String* string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

// The verifier checks the alignment of a vector's length, but not of wider elements.
std::vector<int64_t> numbers(const flatbuffers::Vector<int64_t>* values) {
  if (!values || values->size() == 0) return {};
  std::vector<int64_t> result(values->size());
  std::memcpy(result.data(), values->Data(), result.size() * sizeof(int64_t));
  return result;
}

std::vector<std::string_view> texts(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values) {
  std::vector<std::string_view> result;
  if (!values) return result;
  for (const flatbuffers::String* value : *values) result.push_back(text(value));
  return result;
}

Error invalid(const std::string& where, const char* what) {
  return make_error(Error::InvalidProgram, "model metadata: %s: %s", where.c_str(), what);
}

Result<slim::DType> dtype_of(int8_t number, const std::string& where) {
  slim::DType dtype;
  if (!slim::to_dtype(number, &dtype)) return invalid(where, "unknown scalar type");
  return dtype;
}

Result<DimContract> parse_dim(const schema::Dim& table, const std::string& where) {
  const DimContract dim{table.min(), table.max(), table.symbol(), table.scale(), table.offset()};
  if (dim.min < 0 || dim.max < dim.min) return invalid(where, "a dimension with wrong bounds");
  if (dim.symbol < -1 || dim.symbol >= kMaxSymbols) return invalid(where, "a symbol out of range");
  if (dim.symbol >= 0 && dim.scale == 0) return invalid(where, "a symbol with scale 0");
  return dim;
}

Result<TensorContract> parse_tensor(const schema::TensorContract* table, const std::string& where) {
  if (!table) return invalid(where, "missing");
  TensorContract contract;
  PTERON_ASSIGN_OR_RETURN(contract.dtype, dtype_of(table->scalar_type(), where));
  contract.mutated = table->mutated();
  if (table->dims()) {
    for (const schema::Dim* dim : *table->dims()) {
      if (!dim) return invalid(where, "a missing dimension");
      PTERON_ASSIGN_OR_RETURN(const DimContract parsed, parse_dim(*dim, where));
      contract.dims.push_back(parsed);
    }
  }
  contract.strides = numbers(table->strides());
  if (contract.dims.size() > slim::kMaxDims) return invalid(where, "too many dimensions");
  if (contract.strides.size() != contract.dims.size()) {
    return invalid(where, "not as many strides as dimensions");
  }
  for (const int64_t stride : contract.strides) {
    if (stride < 0) return invalid(where, "a negative stride");
  }
  return contract;
}

template <typename Table>
Error parse_tensors(const Table* tables, const char* kind, std::vector<TensorContract>* result) {
  if (!tables) return Error::Ok;
  for (flatbuffers::uoffset_t i = 0; i < tables->size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(TensorContract contract,
                            parse_tensor(tables->Get(i), kind + std::to_string(i)));
    result->push_back(std::move(contract));
  }
  return Error::Ok;
}

Result<ConstantInfo> parse_constant(const schema::Constant* table, const std::string& where) {
  if (!table || !table->name() || !table->blob_key()) return invalid(where, "no name or no blob");
  ConstantInfo info;
  info.name = text(table->name());
  info.fqn = text(table->fqn());
  PTERON_ASSIGN_OR_RETURN(info.dtype, dtype_of(table->scalar_type(), where));
  info.sizes = numbers(table->sizes());
  info.strides = numbers(table->strides());
  info.storage_offset = table->storage_offset();
  info.blob_key = text(table->blob_key());
  info.offset = table->offset();
  info.nbytes = table->nbytes();
  if (table->digest() && table->digest()->size() > 0) {
    if (table->digest()->size() != info.digest.size()) {
      return invalid(where, "its digest is not a SHA-256 digest");
    }
    std::memcpy(info.digest.data(), table->digest()->data(), info.digest.size());
  }
  Result<size_t> extent = slim::storage_nbytes(info.sizes, info.strides, info.dtype);
  if (!extent.ok()) return invalid(where, extent.error().message().c_str());
  uint64_t begin = 0, end = 0;
  const bool overflow = info.storage_offset < 0 ||
                        __builtin_mul_overflow(static_cast<uint64_t>(info.storage_offset),
                                               slim::element_size(info.dtype), &begin) ||
                        __builtin_add_overflow(begin, *extent, &end);
  if (overflow || (*extent > 0 && end > info.nbytes)) {
    return invalid(where, "its elements are outside its bytes");
  }
  return info;
}

// Whether `code` leaves one value and neither underflows nor overflows the stack.
bool is_expression(const std::vector<int64_t>& code, int32_t num_symbols) {
  size_t depth = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == Condition::kConstant || code[i] == Condition::kSymbol) {
      const bool is_symbol = code[i++] == Condition::kSymbol;
      if (i == code.size() || depth == Condition::kMaxDepth) return false;
      if (is_symbol && (code[i] < 0 || code[i] >= num_symbols)) return false;
      ++depth;
    } else if (code[i] < 0 || code[i] > Condition::kMin || depth-- < 2) {
      return false;
    }
  }
  return depth == 1;
}

Result<Condition> parse_condition(const schema::Condition* table, int32_t num_symbols,
                                  const std::string& where) {
  if (!table) return invalid(where, "missing");
  Condition condition{text(table->relation()), numbers(table->left()), numbers(table->right()),
                      text(table->text())};
  if (!is_expression(condition.left, num_symbols) || !is_expression(condition.right, num_symbols)) {
    return invalid(where, "a side that cannot be computed");
  }
  for (const char* const known : {"==", "!=", "<", "<=", ">", ">="}) {
    if (condition.relation == known) return condition;
  }
  return invalid(where, "an unknown relation");
}

}  // namespace

Result<Metadata> Metadata::parse(Span<const uint8_t> blob) {
  PTERON_CHECK_OR_RETURN(
      reinterpret_cast<uintptr_t>(blob.data()) % alignof(int64_t) == 0, Error::InvalidProgram,
      "model metadata: its offset in the file is no multiple of %zu; write the file again",
      alignof(int64_t));
  flatbuffers::Verifier verifier(blob.data(), blob.size());
  PTERON_CHECK_OR_RETURN(
      blob.size() >= 8 && schema::ModelMetadataBufferHasIdentifier(blob.data()) &&
          schema::VerifyModelMetadataBuffer(verifier),
      Error::InvalidProgram,
      "model metadata: %zu bytes that are not a PTM1 FlatBuffer: the file is damaged, or of a "
      "later version",
      blob.size());
  const schema::ModelMetadata& table = *schema::GetModelMetadata(blob.data());
  Metadata metadata;
  metadata.device = text(table.device());
  metadata.torch_version = text(table.torch_version());
  metadata.shim_list_version = table.shim_list_version();
  metadata.platform = text(table.platform());
  metadata.isa = text(table.isa());
  metadata.cpu_features = texts(table.cpu_features());
  metadata.num_threads = table.num_threads();
  metadata.lowering_version = table.lowering_version();
  metadata.weights_layout = table.weights_layout() ? text(table.weights_layout()) : "packed";
  metadata.cuda_archs = texts(table.cuda_archs());
  if (!table.so_digest() || table.so_digest()->size() != metadata.so_digest.size()) {
    return invalid("so_digest", "not a SHA-256 digest");
  }
  std::memcpy(metadata.so_digest.data(), table.so_digest()->data(), metadata.so_digest.size());
  PTERON_RETURN_IF_ERROR(parse_tensors(table.inputs(), "input ", &metadata.inputs));
  PTERON_RETURN_IF_ERROR(parse_tensors(table.outputs(), "output ", &metadata.outputs));
  for (const auto* contracts : {&metadata.inputs, &metadata.outputs}) {
    for (const TensorContract& contract : *contracts) {
      for (const DimContract& dim : contract.dims) {
        metadata.num_symbols = std::max(metadata.num_symbols, dim.symbol + 1);
      }
    }
  }
  if (table.conditions()) {
    for (flatbuffers::uoffset_t i = 0; i < table.conditions()->size(); ++i) {
      PTERON_ASSIGN_OR_RETURN(Condition condition,
                              parse_condition(table.conditions()->Get(i), metadata.num_symbols,
                                              "condition " + std::to_string(i)));
      metadata.conditions.push_back(std::move(condition));
    }
  }
  if (table.constants()) {
    for (flatbuffers::uoffset_t i = 0; i < table.constants()->size(); ++i) {
      PTERON_ASSIGN_OR_RETURN(
          ConstantInfo constant,
          parse_constant(table.constants()->Get(i), "constant " + std::to_string(i)));
      metadata.constants.push_back(std::move(constant));
    }
  }
  if (table.kernels()) {
    for (const schema::Kernel* const kernel : *table.kernels()) {
      if (!kernel) return invalid("kernels", "one is missing");
      metadata.kernels.push_back({text(kernel->name()), text(kernel->ops()),
                                  text(kernel->modules()), text(kernel->lines())});
    }
  }
  return metadata;
}

}  // namespace pteron::aoti
