#include "pteron/extension/asr/runner/asr_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pteron::asr {
namespace {

constexpr float kLargest = 1e15f;  // of samples, whose power in a window is finite in float32

enum Rules : int64_t { kText, kTimes, kLanguages };

Result<TensorPtr> one(int64_t value) { return make_tensor_ptr(std::vector<int64_t>{value}); }

// `samples`, zeros up to `count`, and `half` mirrored samples on both sides.
std::vector<float> mirrored(const std::vector<float>& samples, size_t count, size_t half) {
  std::vector<float> padded(half + count + half);
  std::copy(samples.begin(), samples.end(), padded.begin() + static_cast<ptrdiff_t>(half));
  for (size_t i = 1; i <= half; ++i) {
    padded[half - i] = padded[half + i];
    padded[half + count - 1 + i] = padded[half + count - 1 - i];
  }
  return padded;
}

struct Part {
  int64_t start = 0;  // in pairs of frames
  int64_t end = 0;
  std::vector<int64_t> tokens;
};

// Segments of a window's tokens, and by how many frames the next window is later: see split() of
// python/pteron/asr/transcriber.py.
std::pair<std::vector<Part>, int64_t> split(const std::vector<int64_t>& tokens, int64_t first_time,
                                            int64_t frames) {
  const auto is_time = [&](size_t i) { return tokens[i] >= first_time; };
  const size_t size = tokens.size();
  std::vector<size_t> cuts;
  for (size_t i = 1; i < size; ++i) {
    if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
  }
  if (cuts.empty()) {
    int64_t end = frames / 2;
    for (size_t i = size; i-- > 0;) {
      if (!is_time(i)) continue;
      if (tokens[i] > first_time) end = tokens[i] - first_time;
      break;
    }
    return {{{0, end, tokens}}, frames};
  }
  const bool is_whole = is_time(size - 1) && !is_time(size - 2);  // nobody speaks after it
  if (is_whole) {
    cuts.push_back(size);
  } else {
    ++cuts.back();
  }
  std::vector<Part> parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    const size_t last = is_whole || cut != cuts.back() ? cut - 1 : cut - 2;
    parts.push_back({tokens[begin] - first_time,
                     tokens[last] - first_time,
                     {tokens.begin() + static_cast<ptrdiff_t>(begin),
                      tokens.begin() + static_cast<ptrdiff_t>(cut)}});
    begin = cut;
  }
  const int64_t step = 2 * (tokens[cuts.back() - 2] - first_time);
  return {std::move(parts), is_whole || step <= 0 ? frames : step};
}

}  // namespace

// Of the whole audio, in chunks [bands, frames] of a window's size.
struct AsrRunner::Features {
  std::vector<std::vector<float>> chunks;
  int64_t bands = 0;
  int64_t frames = 0;
  float maximum = -std::numeric_limits<float>::infinity();
};

AsrRunner::AsrRunner(std::string path, std::unique_ptr<llm::Tokenizer> tokenizer,
                     Module::Options options)
    : module_(std::move(path), std::move(options)), tokenizer_(std::move(tokenizer)) {}

Result<std::vector<int64_t>> AsrRunner::constants(const char* method) {
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module_.execute(method));
  std::vector<int64_t> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    PTERON_CHECK_OR_RETURN(outputs[i].is_int(), Error::InvalidProgram,
                           "%s of the program has other values than integers", method);
    values.push_back(outputs[i].to_int());
  }
  return values;
}

Result<int64_t> AsrRunner::constant(const char* method) {
  PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> values, constants(method));
  PTERON_CHECK_OR_RETURN(values.size() == 1, Error::InvalidProgram,
                         "%s of the program is no integer", method);
  return values[0];
}

Result<int64_t> AsrRunner::id_of(const char* method, const std::string& name) {
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module_.execute(method));
  const Result<EValue> id = outputs.get(name);
  PTERON_CHECK_OR_RETURN(id.ok() && id->is_int(), Error::InvalidArgument,
                         "the model does not know '%s'; expected one of the keys of %s of the "
                         "program, or none for a model of one language",
                         name.c_str(), method);
  return id->to_int();
}

Error AsrRunner::load() {
  if (is_loaded_) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const std::vector<std::string> names, module_.method_names());
  for (const char* name : {"features", "encode", "prefill", "decode", "get_window_frames"}) {
    PTERON_CHECK_OR_RETURN(std::find(names.begin(), names.end(), name) != names.end(),
                           Error::InvalidProgram,
                           "the program is not of speech: it has no method %s; try: pteron "
                           "export-asr FOLDER -o model.pte",
                           name);
  }
  PTERON_ASSIGN_OR_RETURN(rate_, constant("get_sampling_rate"));
  PTERON_ASSIGN_OR_RETURN(fft_, constant("get_fft_size"));
  PTERON_ASSIGN_OR_RETURN(hop_, constant("get_hop_length"));
  PTERON_ASSIGN_OR_RETURN(frames_, constant("get_window_frames"));
  PTERON_ASSIGN_OR_RETURN(length_, constant("get_max_context_len"));
  PTERON_ASSIGN_OR_RETURN(first_time_, constant("get_timestamp_begin"));
  PTERON_ASSIGN_OR_RETURN(eos_, constants("get_eos_ids"));
  PTERON_ASSIGN_OR_RETURN(prompt_, constants("prompt"));
  PTERON_ASSIGN_OR_RETURN(const int64_t vocabulary, constant("get_vocab_size"));
  has_times_ = first_time_ < vocabulary;
  PTERON_CHECK_OR_RETURN(rate_ > 0 && fft_ > 0 && hop_ > 0 && fft_ <= frames_ * hop_ &&
                             !prompt_.empty() && length_ > 4,
                         Error::InvalidProgram,
                         "the program has sizes that no pteron export-asr writes");
  for (const char* name : {"features", "encode", "prefill", "decode"}) {
    PTERON_RETURN_IF_ERROR(module_.load_method(name));
  }
  if (tokenizer_) PTERON_RETURN_IF_ERROR(tokenizer_->load_of_program(&module_));
  is_loaded_ = true;
  return Error::Ok;
}

Result<AsrRunner::Features> AsrRunner::features(const std::vector<float>& samples) {
  const auto window = static_cast<size_t>(frames_ * hop_);
  const size_t count = std::max(samples.size(), window);
  const std::vector<float> padded = mirrored(samples, count, static_cast<size_t>(fft_ / 2));
  const auto taken = static_cast<size_t>((frames_ - 1) * hop_ + fft_);
  Features found;
  found.frames = static_cast<int64_t>(count) / hop_;
  for (int64_t begin = 0; begin < found.frames && !is_stopped_; begin += frames_) {
    const auto from = padded.begin() + begin * hop_;
    std::vector<float> part(
        from, from + std::min<ptrdiff_t>(static_cast<ptrdiff_t>(taken), padded.end() - from));
    part.resize(taken);
    PTERON_ASSIGN_OR_RETURN(const TensorPtr input,
                            make_tensor_ptr({1, static_cast<int64_t>(taken)}, std::move(part)));
    PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module_.execute("features", input));
    PTERON_ASSIGN_OR_RETURN(const Tensor features, outputs.tensor("features"));
    PTERON_ASSIGN_OR_RETURN(std::vector<float> chunk, to_vector<float>(features));
    found.bands = static_cast<int64_t>(chunk.size()) / frames_;
    const int64_t known = std::min(frames_, found.frames - begin);
    for (int64_t band = 0; band < found.bands; ++band) {
      const auto row = chunk.begin() + band * frames_;
      found.maximum = std::max(found.maximum, *std::max_element(row, row + known));
    }
    found.chunks.push_back(std::move(chunk));
  }
  return found;
}

Error AsrRunner::encode(const Features& features, int64_t seek, int64_t count) {
  std::vector<float> window(static_cast<size_t>(features.bands * frames_));
  for (int64_t band = 0; band < features.bands; ++band) {
    for (int64_t i = 0; i < count; ++i) {
      const auto& chunk = features.chunks[static_cast<size_t>((seek + i) / frames_)];
      window[static_cast<size_t>(band * frames_ + i)] =
          chunk[static_cast<size_t>(band * frames_ + (seek + i) % frames_)];
    }
  }
  PTERON_ASSIGN_OR_RETURN(const TensorPtr input,
                          make_tensor_ptr({1, features.bands, frames_}, std::move(window)));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr maximum,
                          make_tensor_ptr(std::vector<float>{features.maximum}));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr frames, one(count));
  return module_.execute("encode", {{"features", input}, {"maximum", maximum}, {"frames", frames}})
      .take_error();
}

// The next token.
Result<int64_t> AsrRunner::decode(const std::vector<int64_t>& tokens, int64_t position,
                                  int64_t begin, int64_t rules) {
  const auto time = static_cast<int64_t>(tokens.size());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ids, make_tensor_ptr({1, time}, tokens));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr at, one(position));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr from, one(begin));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr rule, one(rules));
  PTERON_ASSIGN_OR_RETURN(
      const Module::Outputs outputs,
      module_.execute(time > 1 ? "prefill" : "decode",
                      {{"tokens", ids}, {"position", at}, {"begin", from}, {"rules", rule}}));
  PTERON_ASSIGN_OR_RETURN(const Tensor chosen, outputs.tensor("tokens"));
  PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> token, to_vector<int64_t>(chosen));
  return token[0];
}

// Tokens before the text; after the first window was read.
Result<std::vector<int64_t>> AsrRunner::prompt(const AsrTranscribeConfig& config, bool timestamps) {
  std::vector<int64_t> tokens = prompt_;
  if (!config.task.empty() || (!config.language.empty() && tokens.size() < 3)) {
    PTERON_ASSIGN_OR_RETURN(const int64_t task,
                            id_of("tasks", config.task.empty() ? "transcribe" : config.task));
    tokens.resize(3, -1);
    tokens[2] = task;
  }
  if (!config.language.empty()) {
    PTERON_ASSIGN_OR_RETURN(const int64_t language, id_of("languages", config.language));
    tokens.resize(std::max<size_t>(tokens.size(), 2));
    tokens[1] = language;
  } else if (tokens.size() > 1 && tokens[1] == -1) {
    PTERON_ASSIGN_OR_RETURN(tokens[1], decode({prompt_[0]}, 0, 1, kLanguages));
  }
  if (!timestamps && has_times_) tokens.push_back(first_time_ - 1);
  return tokens;
}

// Of the window that was read.
Result<std::vector<int64_t>> AsrRunner::text(const std::vector<int64_t>& prompt,
                                             const AsrTranscribeConfig& config, bool timestamps) {
  const auto begin = static_cast<int64_t>(prompt.size());
  int64_t left = length_ - begin;
  if (config.max_new_tokens >= 0) left = std::min(left, config.max_new_tokens);
  const auto ends = [&](int64_t token) {
    return config.eos_token_ids.empty() ? std::find(eos_.begin(), eos_.end(), token) != eos_.end()
                                        : config.eos_token_ids.count(token) != 0;
  };
  std::vector<int64_t> tokens;
  std::vector<int64_t> last = prompt;
  for (int64_t position = 0; left > 0 && !is_stopped_; --left) {
    PTERON_ASSIGN_OR_RETURN(const int64_t token,
                            decode(last, position, begin, timestamps ? kTimes : kText));
    if (ends(token)) break;
    position += static_cast<int64_t>(last.size());
    tokens.push_back(token);
    last = {token};
  }
  return tokens;
}

Error AsrRunner::transcribe_tokens(const std::vector<float>& samples,
                                   const AsrTranscribeConfig& config,
                                   const std::function<void(const Segment&)>& on_segment) {
  PTERON_RETURN_IF_ERROR(load());
  PTERON_CHECK_OR_RETURN(!samples.empty(), Error::InvalidArgument, "the audio is empty");
  PTERON_CHECK_OR_RETURN(
      std::all_of(samples.begin(), samples.end(), [](float x) { return std::abs(x) <= kLargest; }),
      Error::InvalidArgument, "the audio has samples that are NaN or too large; expected -1 to 1");
  PTERON_CHECK_OR_RETURN(has_times_ || !config.timestamps, Error::InvalidArgument,
                         "timestamps is true; the model writes none");
  is_stopped_ = false;
  const auto count = static_cast<int64_t>(samples.size());
  const bool is_short = count <= frames_ * hop_;
  const bool timestamps = has_times_ && (config.timestamps || !is_short);
  PTERON_ASSIGN_OR_RETURN(const Features read, features(samples));
  std::vector<int64_t> before;
  for (int64_t seek = 0; seek < read.frames && !(is_short && seek * hop_ >= count);) {
    if (is_stopped_) break;
    const int64_t frames = std::min(frames_, read.frames - seek);
    PTERON_RETURN_IF_ERROR(encode(read, seek, frames));
    if (before.empty()) {
      PTERON_ASSIGN_OR_RETURN(before, prompt(config, timestamps));
    }
    PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, text(before, config, timestamps));
    auto [parts, step] = split(tokens, first_time_, frames);
    for (Part& part : parts) {
      if (part.tokens.empty()) continue;
      const auto seconds = [&](int64_t pairs) {
        return static_cast<double>(std::min((seek + 2 * pairs) * hop_, count)) /
               static_cast<double>(rate_);
      };
      on_segment({seconds(part.start), seconds(part.end), std::move(part.tokens)});
    }
    seek += step;
  }
  return Error::Ok;
}

Result<std::string> AsrRunner::transcribe(
    const std::vector<float>& samples, const AsrTranscribeConfig& config,
    const std::function<void(const std::string&)>& token_callback) {
  PTERON_CHECK_OR_RETURN(tokenizer_ != nullptr, Error::InvalidState,
                         "the runner has no tokenizer; expected one in its constructor, or use "
                         "transcribe_tokens()");
  std::string text;
  Error failed = Error::Ok;
  PTERON_RETURN_IF_ERROR(transcribe_tokens(samples, config, [&](const Segment& segment) {
    const std::unique_ptr<llm::DecodeStream> stream = tokenizer_->decode_stream({prompt_[0]});
    for (const int64_t token : segment.tokens) {
      if (token >= first_time_ || !failed.ok()) continue;
      Result<std::string> piece = stream->step(token);
      if (!piece.ok()) {
        failed = piece.take_error();
        stop();
        continue;
      }
      text += *piece;
      if (token_callback && !piece->empty()) token_callback(*piece);
    }
  }));
  PTERON_RETURN_IF_ERROR(std::move(failed));
  return text;
}

}  // namespace pteron::asr
