// Validates the values of a method and their memory; a part of check_method().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/program_data.h"
#include "pteron/runtime/program_reader/tensor_storage.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

// Checks one method's values. After check() without errors the queries below are valid; indices
// must be in range.
class ValueChecks final {
 public:
  ValueChecks(const ProgramData& data, const schema::Method& method, ErrorList* errors);

  void check();

  size_t size() const { return method_.values() ? method_.values()->size() : 0; }
  schema::Value kind(size_t index) const;
  const schema::Tensor* tensor(size_t index) const;  // null for another kind
  // It has elements but neither memory nor contents.
  bool is_unset_tensor(size_t index) const;

 private:
  void check_pools();
  void check_value(size_t index);
  void check_tensor(size_t index, const schema::Tensor& tensor);
  void check_planned(size_t index, const TensorStorage& storage, const Tensor& tensor);
  template <typename Item>
  void check_items(size_t index, const flatbuffers::Vector<Item>* items, schema::Value kind,
                   bool optional);
  void check_mutable_buffers();

  struct PlannedRange {
    uint32_t memory_id;
    uint64_t begin;
    uint64_t end;
    size_t index;  // of the value
    bool is_mutable_buffer;
  };

  const ProgramData& data_;
  const schema::Method& method_;
  ErrorList* errors_;
  std::string name_;                  // of the method
  std::vector<Device> pool_devices_;  // by memory_id
  std::vector<PlannedRange> ranges_;
};

}  // namespace pteron
