#include "pteron/extension/llm/runner/text_llm_runner.h"

#include <algorithm>
#include <utility>

namespace pteron::llm {
namespace {

// A tensor [1].
template <typename T>
Result<TensorPtr> one(T value) {
  return make_tensor_ptr(std::vector<T>{value});
}

Error check(const GenerationConfig& config) {
  const auto refuse = [](const char* name, double value, const char* expected) {
    return make_error(Error::InvalidArgument, "%s is %g; expected %s", name, value, expected);
  };
  if (!(config.temperature >= 0 && config.temperature <= 1e30f)) {
    return refuse("temperature", config.temperature, "0 to 1e30");
  }
  if (config.top_k < 0) return refuse("top_k", static_cast<double>(config.top_k), "0 or more");
  if (!(config.top_p > 0 && config.top_p <= 1)) {
    return refuse("top_p", config.top_p, "more than 0, at most 1");
  }
  if (!(config.min_p >= 0 && config.min_p <= 1)) return refuse("min_p", config.min_p, "0 to 1");
  if (!(config.repetition_penalty >= 1e-6f && config.repetition_penalty <= 1e6f)) {
    return refuse("repetition_penalty", config.repetition_penalty, "1e-6 to 1e6");
  }
  if (config.seed < 0) return refuse("seed", static_cast<double>(config.seed), "0 or more");
  return Error::Ok;
}

}  // namespace

int32_t GenerationConfig::resolve_max_new_tokens(int32_t max_context_len,
                                                 int32_t num_prompt_tokens) const {
  const int32_t length = seq_len < 0 ? max_context_len : std::min(seq_len, max_context_len);
  const int32_t left = std::max(length - num_prompt_tokens, 0);
  return max_new_tokens < 0 ? left : std::min(left, max_new_tokens);
}

TextLLMRunner::TextLLMRunner(std::string path, std::unique_ptr<Tokenizer> tokenizer,
                             Module::Options options)
    : module_(std::move(path), std::move(options)), tokenizer_(std::move(tokenizer)) {}

Result<int64_t> TextLLMRunner::constant(const char* method) {
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module_.execute(method));
  PTERON_CHECK_OR_RETURN(outputs.size() == 1 && outputs[0].is_int(), Error::InvalidProgram,
                         "%s of the program is no integer", method);
  return outputs[0].to_int();
}

Error TextLLMRunner::load() {
  if (is_loaded_) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const std::vector<std::string> names, module_.method_names());
  for (const char* name : {"prefill", "start", "decode", "read", "get_max_seq_len",
                           "get_max_context_len", "get_vocab_size", "get_eos_ids"}) {
    PTERON_CHECK_OR_RETURN(std::find(names.begin(), names.end(), name) != names.end(),
                           Error::InvalidProgram,
                           "the program is no language model: it has no method %s; try: pteron "
                           "export-lm FOLDER -o model.pte",
                           name);
  }
  PTERON_ASSIGN_OR_RETURN(chunk_, constant("get_max_seq_len"));
  PTERON_ASSIGN_OR_RETURN(length_, constant("get_max_context_len"));
  PTERON_ASSIGN_OR_RETURN(vocabulary_, constant("get_vocab_size"));
  PTERON_CHECK_OR_RETURN(chunk_ >= 2, Error::InvalidProgram,
                         "the program has sizes that no pteron export-lm writes");
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs eos, module_.execute("get_eos_ids"));
  eos_.clear();
  for (size_t i = 0; i < eos.size(); ++i) {
    if (eos[i].is_int()) eos_.push_back(eos[i].to_int());
  }
  for (const char* name : {"prefill", "start", "decode", "read"}) {
    PTERON_RETURN_IF_ERROR(module_.load_method(name));
  }
  if (tokenizer_) PTERON_RETURN_IF_ERROR(tokenizer_->load_of_program(&module_));
  is_loaded_ = true;
  return Error::Ok;
}

// Reads all tokens but the last.
Error TextLLMRunner::prefill(const std::vector<int64_t>& prompt) {
  const auto count = static_cast<int64_t>(prompt.size()) - 1;
  for (int64_t begin = 0; begin < count && !is_stopped_; begin += chunk_) {
    const int64_t length = std::min(chunk_, count - begin);
    const int64_t time = std::max<int64_t>(length, 2);  // the least that prefill takes
    std::vector<int64_t> ids(static_cast<size_t>(time));
    std::copy_n(prompt.begin() + begin, length, ids.begin());
    PTERON_ASSIGN_OR_RETURN(const TensorPtr tokens, make_tensor_ptr({1, time}, ids));
    PTERON_ASSIGN_OR_RETURN(const TensorPtr position, one<int64_t>(begin));
    PTERON_ASSIGN_OR_RETURN(const TensorPtr lengths, one<int64_t>(length));
    PTERON_ASSIGN_OR_RETURN(const TensorPtr row, one<int64_t>(0));
    PTERON_RETURN_IF_ERROR(
        module_.execute("prefill", {tokens, position, lengths, row}).take_error());
  }
  return Error::Ok;
}

Error TextLLMRunner::generate_tokens(const std::vector<int64_t>& prompt,
                                     const GenerationConfig& config,
                                     const std::function<void(int64_t)>& on_token) {
  PTERON_RETURN_IF_ERROR(load());
  PTERON_RETURN_IF_ERROR(check(config));
  const auto count = static_cast<int64_t>(prompt.size());
  PTERON_CHECK_OR_RETURN(count > 0, Error::InvalidArgument, "the prompt is empty");
  PTERON_CHECK_OR_RETURN(count < length_, Error::InvalidArgument,
                         "the prompt has %lld tokens; expected less than %lld, the max_length that "
                         "the program was exported with",
                         static_cast<long long>(count), static_cast<long long>(length_));
  for (const int64_t id : prompt) {
    PTERON_CHECK_OR_RETURN(0 <= id && id < vocabulary_, Error::InvalidArgument,
                           "the prompt has the id %lld; expected 0 to %lld, the vocabulary",
                           static_cast<long long>(id), static_cast<long long>(vocabulary_ - 1));
  }
  is_stopped_ = false;
  PTERON_RETURN_IF_ERROR(prefill(prompt));
  PTERON_ASSIGN_OR_RETURN(const auto row, one<int64_t>(0));
  PTERON_ASSIGN_OR_RETURN(const auto last, one<int64_t>(prompt.back()));
  PTERON_ASSIGN_OR_RETURN(const auto position, one<int64_t>(count - 1));
  PTERON_ASSIGN_OR_RETURN(const auto temperature, one<float>(config.temperature));
  PTERON_ASSIGN_OR_RETURN(const auto top_k, one<int64_t>(config.top_k));
  PTERON_ASSIGN_OR_RETURN(const auto top_p, one<float>(config.top_p));
  PTERON_ASSIGN_OR_RETURN(const auto min_p, one<float>(config.min_p));
  PTERON_ASSIGN_OR_RETURN(const auto penalty, one<float>(config.repetition_penalty));
  PTERON_ASSIGN_OR_RETURN(const auto seed, one<int64_t>(config.seed));
  PTERON_RETURN_IF_ERROR(
      module_
          .execute("start", {row, last, position, temperature, top_k, top_p, min_p, penalty, seed})
          .take_error());
  const int32_t most =
      config.resolve_max_new_tokens(static_cast<int32_t>(length_), static_cast<int32_t>(count));
  for (int64_t i = 0; i < most && !is_stopped_; ++i) {
    PTERON_RETURN_IF_ERROR(module_.execute("decode").take_error());
    PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module_.execute("read"));
    PTERON_ASSIGN_OR_RETURN(const Tensor newest, outputs.tensor("tokens"));
    PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, to_vector<int64_t>(newest));
    const int64_t token = tokens[static_cast<size_t>(newest.size(1) - 1)];
    const bool ends = std::find(eos_.begin(), eos_.end(), token) != eos_.end();
    if (ends && !config.ignore_eos) break;
    on_token(token);
  }
  return Error::Ok;
}

Error TextLLMRunner::generate(const std::string& prompt, const GenerationConfig& config,
                              const std::function<void(const std::string&)>& token_callback) {
  PTERON_CHECK_OR_RETURN(tokenizer_ != nullptr, Error::InvalidState,
                         "the runner has no tokenizer; expected one in its constructor, or ids for "
                         "generate_tokens()");
  PTERON_RETURN_IF_ERROR(load());
  PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                          tokenizer_->encode(prompt, config.num_bos, config.num_eos));
  if (config.echo) token_callback(prompt);
  const std::unique_ptr<DecodeStream> stream = tokenizer_->decode_stream(ids);
  Error failed = Error::Ok;
  PTERON_RETURN_IF_ERROR(generate_tokens(ids, config, [&](int64_t token) {
    Result<std::string> piece = stream->step(token);
    if (piece.ok()) {
      if (!piece->empty()) token_callback(*piece);
    } else {
      failed = piece.take_error();
      stop();
    }
  }));
  return failed;
}

}  // namespace pteron::llm
