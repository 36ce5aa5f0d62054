// Creates a runnable method from a method in the file.
//
//   return MethodLoader(program, *schema_method, options).load();
//
// Single use, single thread. Whatever was initialized before a failure is destroyed with the
// loader.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/method_state.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/program_reader/program_data.h"
#include "pteron/runtime/program_reader/tensor_storage.h"

namespace pteron {

class MethodLoader final {
 public:
  // `method` must have passed check_method().
  MethodLoader(std::shared_ptr<const Program> program, const schema::Method& method,
               const LoadMethodOptions& options);

  Result<std::unique_ptr<Method>> load();

 private:
  // In execution order.
  Error check_requirements() const;
  Error allocate_pools();
  Error make_tensors();
  void make_other_values();
  Error init_delegates();
  Error make_instructions();
  void prepare_ends();
  void take_snapshots();

  Error check_kernels() const;
  Error check_backends() const;
  Error check_options() const;
  Error check_planned_bytes() const;

  Error add_mutable_buffer(const TensorStorage& storage, const Tensor& tensor);
  // Initial contents of a tensor.
  Result<Span<const uint8_t>> contents_of(const TensorStorage& storage, const Tensor& tensor) const;
  Error set_address(const TensorStorage& storage, Tensor* tensor);
  Result<uint8_t*> planned_address(const TensorStorage& storage, const Tensor& tensor);
  // The address in the session of planned bytes of a mutable buffer; else null.
  uint8_t* address_in_session(const TensorStorage& storage) const;

  Result<std::unique_ptr<Delegate>> init_delegate(const DelegateMeta& meta,
                                                  const schema::Delegate& delegate);
  void find_writers();
  Instruction make_instruction(const schema::Instruction& instruction, size_t chain_begin);
  Error check_arguments(Instruction* instruction);
  std::vector<bool> find_reused() const;
  bool is_delegates_alone(size_t index, const std::vector<bool>& reused) const;
  template <typename Item>
  Span<EValue* const> pointers_to(const flatbuffers::Vector<Item>* indices);

  // Planned location of a mutable buffer, and its location in the session.
  struct MutableRange {
    uint32_t memory_id;
    uint64_t begin;
    uint64_t end;
    uint8_t* data;
    bool operator<(const MutableRange& other) const {
      return memory_id != other.memory_id ? memory_id < other.memory_id : begin < other.begin;
    }
  };

  std::shared_ptr<const Program> program_;
  const ProgramData& data_;
  const schema::Method& method_;
  const LoadMethodOptions& options_;
  std::unique_ptr<Method::State> state_;
  std::vector<uint8_t*> pools_;  // by memory_id
  // By memory_id, offset and size, if each tensor has its own memory.
  std::map<std::tuple<uint32_t, uint64_t, size_t>, uint8_t*> separate_;
  std::vector<MutableRange> mutable_ranges_;
  // Per value: a move or view may change its memory; a kernel or move accesses it; a delegate does
  // in every run; a kernel or delegate writes to its memory.
  std::vector<bool> redirected_;
  std::vector<bool> touched_;
  std::vector<bool> delegated_;
  std::vector<bool> written_;
  LoadBudget budget_;
  uint64_t comparisons_left_;  // a tenth of a second; real kernel calls have few arguments
};

}  // namespace pteron
