#include "pteron/backends/aoti/runtime/describe.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/lowering_faults.h"
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/runtime/payload_keys.h"
#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/backends/aoti/slim/core/dtype.h"
#include "pteron/runtime/platform/cpu_features.h"

namespace pteron::aoti {
namespace {

constexpr size_t kNameWidth = 10;
constexpr size_t kShownConstants = 8;

void add(std::string& text, std::string name, std::string_view value) {
  if (value.empty()) return;
  name.resize(std::max(name.size(), kNameWidth), ' ');
  text.append(name).append(value).append("\n");
}

template <typename Strings>
std::string joined(const Strings& strings) {
  std::string text;
  for (const auto& item : strings) text.append(text.empty() ? "" : ", ").append(item);
  return text;
}

std::vector<std::string> strings(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* table) {
  std::vector<std::string> result;
  for (size_t i = 0; table && i < table->size(); ++i) result.push_back(table->Get(i)->str());
  return result;
}

std::string bytes(uint64_t count) { return std::to_string(count) + " bytes"; }

std::string tensor(const ConstantInfo& constant) {
  std::string sizes;
  for (const int64_t size : constant.sizes) {
    sizes.append(sizes.empty() ? "" : ", ").append(std::to_string(size));
  }
  return std::string(slim::name_of(constant.dtype)) + "[" + sizes + "]";
}

// Calls, most frequent first: "3: 2 aten.addmm.default, 1 aten.relu.default".
std::string calls(const schema::ModelMetadata& table) {
  std::vector<std::pair<uint32_t, std::string>> counts;
  uint64_t total = 0;
  for (size_t i = 0; table.op_counts() && i < table.op_counts()->size(); ++i) {
    const schema::OpCount& item = *table.op_counts()->Get(i);
    counts.emplace_back(item.count(), item.op() ? item.op()->str() : "?");
    total += item.count();
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [count, op] : counts) texts.push_back(std::to_string(count) + " " + op);
  return texts.empty() ? "" : std::to_string(total) + ": " + joined(texts);
}

// Constants that share bytes are counted once.
uint64_t constant_bytes(const Metadata& metadata) {
  std::unordered_map<std::string, uint64_t> sizes;
  for (const ConstantInfo& constant : metadata.constants) {
    std::string position(constant.blob_key);
    sizes[position.append("@").append(std::to_string(constant.offset))] = constant.nbytes;
  }
  uint64_t total = 0;
  for (const auto& [position, nbytes] : sizes) total += nbytes;
  return total;
}

void add_constants(std::string& text, const Metadata& metadata, const std::string& layout) {
  const size_t count = metadata.constants.size();
  add(text, "weights",
      layout + ", " + std::to_string(count) + " constants, " + bytes(constant_bytes(metadata)));
  std::vector<const ConstantInfo*> largest;
  for (const ConstantInfo& constant : metadata.constants) largest.push_back(&constant);
  std::stable_sort(
      largest.begin(), largest.end(),
      [](const ConstantInfo* a, const ConstantInfo* b) { return a->nbytes > b->nbytes; });
  for (size_t i = 0; i < std::min(count, kShownConstants); ++i) {
    add(text, i == 0 ? "largest" : "",
        std::string(largest[i]->fqn) + " " + tensor(*largest[i]) + ", " +
            bytes(largest[i]->nbytes));
  }
}

// Only functions of operators, not those that every model imports.
std::vector<std::string> operator_shims(const schema::ModelMetadata& table) {
  std::vector<std::string> shims = strings(table.shims());
  shims.erase(std::remove_if(shims.begin(), shims.end(),
                             [](const std::string& name) {
                               return name.find("_cpu_") == std::string::npos &&
                                      name.find("_cuda_") == std::string::npos;
                             }),
              shims.end());
  return shims;
}

}  // namespace

std::string describe_delegate(const NamedDataMap& named_data, Span<const uint8_t> processed) {
  const Result<std::vector<PayloadKeys>> variants = PayloadKeys::parse(processed);
  if (!variants.ok()) return "";
  std::string isa, code;
  std::string_view best;
  for (const PayloadKeys& keys : *variants) {
    const Result<Span<const uint8_t>> blob = named_data.get_verified(keys.metadata());
    if (!blob.ok()) return "";
    const Result<Metadata> parsed = Metadata::parse(*blob);
    if (!parsed.ok()) return "";
    isa.append(isa.empty() ? "" : ", ").append(parsed->isa);
    if (check_cpu(parsed->isa, parsed->cpu_features).ok()) best = parsed->isa;
    const Result<Span<const uint8_t>> object = named_data.get_data(keys.code);
    if (object.ok()) code.append(code.empty() ? "" : ", ").append(bytes(object->size()));
  }
  if (variants->size() > 1 && !best.empty()) isa.append("; here ").append(best);
  // All further lines are equal for all variants.
  const Result<Span<const uint8_t>> blob = named_data.get_verified(variants->back().metadata());
  const Result<Metadata> parsed = Metadata::parse(*blob);
  const Metadata& metadata = *parsed;
  const schema::ModelMetadata& table = *schema::GetModelMetadata(blob->data());

  std::string text;
  add(text, "device", metadata.device);
  add(text, "platform", metadata.platform);
  add(text, "isa", isa);
  add(text, "features", joined(metadata.cpu_features));
  add(text, "threads", metadata.num_threads ? std::to_string(metadata.num_threads) : "");
  add(text, "archs", joined(metadata.cuda_archs));
  add(text, "torch", metadata.torch_version);
  add(text, "code", code);
  add_constants(text, metadata, std::string(metadata.weights_layout));
  add(text, "calls", calls(table));
  add(text, "shims", joined(operator_shims(table)));
  for (const LoweringFault& fault : lowering_faults(metadata)) add(text, "fault", fault.what);
  const std::vector<std::string> boundaries = strings(table.boundaries());
  for (size_t i = 0; i < boundaries.size(); ++i) add(text, i == 0 ? "boundary" : "", boundaries[i]);
  if (boundaries.empty()) add(text, "boundary", "inputs and outputs of the method");
  return text;
}

}  // namespace pteron::aoti
