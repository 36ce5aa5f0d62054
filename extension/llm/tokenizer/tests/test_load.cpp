#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"

namespace pteron::llm {
namespace {

using Ids = std::vector<int64_t>;

std::string replaced(std::string text, const std::string& old, const std::string& other) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), other);
}

const char kJson[] = R"({
  "added_tokens": [
    {"id": 6, "content": "<s>", "special": true, "normalized": false,
     "single_word": false, "lstrip": false, "rstrip": false}
  ],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"ids": [6]}}},
  "decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"},
  "model": {"type": "BPE", "unk_token": "?",
    "vocab": {"?": 0, "a": 1, "b": 2, "_": 3, "ab": 4, "_ab": 5}, "merges": ["a b", ["_", "ab"]]}
})";

std::string problem(const std::string& json) {
  HFTokenizer tokenizer;
  const Error error = tokenizer.load_json(json);
  EXPECT_FALSE(error.ok()) << json;
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_FALSE(tokenizer.is_loaded());
  return error.message();
}

TEST(LoadTest, TextsBecomeTokensAndBack) {
  HFTokenizer tokenizer;
  ASSERT_TRUE(tokenizer.load_json(kJson).ok()) << tokenizer.load_json(kJson).message();
  EXPECT_EQ(*tokenizer.encode("ab ab<s>x"), (Ids{4, 5, 6, 0}));
  EXPECT_EQ(*tokenizer.encode(""), Ids{});
  EXPECT_EQ(*tokenizer.encode("a", -1, -1), (Ids{6, 1}));
  EXPECT_EQ(*tokenizer.encode("a", 2), (Ids{6, 6, 1}));
  EXPECT_EQ(*tokenizer.decode({6, 4, 5, 99}), "ab ab");
  EXPECT_EQ(*tokenizer.decode({6, 4}, false), "<s>ab");
  EXPECT_EQ(*tokenizer.decode(4, 5), " ab");
  EXPECT_EQ(*tokenizer.decode(4, 6), "");
  EXPECT_EQ(tokenizer.vocab_size(), 7u);
  EXPECT_EQ(tokenizer.token_to_id("<s>"), 6);
  EXPECT_EQ(tokenizer.id_to_token(5), "_ab");
  EXPECT_EQ(tokenizer.id_to_token(7), std::nullopt);
}

TEST(LoadTest, WrongArguments) {
  HFTokenizer tokenizer;
  EXPECT_EQ(tokenizer.encode("a").error(), Error::InvalidState);
  EXPECT_EQ(tokenizer.decode({1}).error(), Error::InvalidState);
  ASSERT_TRUE(tokenizer.load_json(kJson).ok());
  EXPECT_EQ(tokenizer.encode("a", 0, 1).error().message(),
            "bos is 0 and eos is 1; the tokenizer adds 1 tokens before a text and 0 after it");
  EXPECT_EQ(tokenizer.encode("a\xFF").error().message(),
            "the text is not UTF-8 at byte 1; expected UTF-8");
  EXPECT_FALSE(tokenizer.load_json("{}").ok());
  EXPECT_TRUE(tokenizer.encode("a").ok()) << "what was loaded stays";
}

TEST(LoadTest, Files) {
  HFTokenizer tokenizer;
  EXPECT_EQ(tokenizer.load("/nowhere/tokenizer.json"), Error::AccessFailed);
  const std::string path = testing::TempDir() + "/tokenizer.json";
  std::ofstream(path) << kJson;
  EXPECT_TRUE(tokenizer.load(path).ok());
}

TEST(LoadTest, AllThatIsNotSupportedIsNamed) {
  const std::string json = replaced(replaced(kJson, "NFC", "Lowercase"), "BPE", "WordPiece");
  EXPECT_EQ(problem(json),
            "this tokenizer.json is wrong or has what is not supported:\n"
            "model: the model 'WordPiece'; expected BPE, Unigram or WordLevel\n"
            "normalizer: the normalizer 'Lowercase'");
}

TEST(LoadTest, WrongFiles) {
  const std::pair<const char*, const char*> changes[] = {
      {"\"id\": 6,", "\"id\": 7,"},
      {"\"id\": 6,", "\"id\": -6,"},
      {"\"special\": true,", ""},
      {"\"?\": 0", "\"?\": 4294967296"},
      {"\"?\": 0", "\"?\": 0.5"},
      {"\"a b\"", "\"a  b\""},
      {"\"a b\"", "\"a c\""},
      {"\"unk_token\"", "\"dropout\": 0.1, \"unk_token\""},
      {"never", "sometimes"},
      {"\"replacement\": \"_\"", "\"replacement\": \"__\""},
      {"{\"type\": \"NFC\"}", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\h\"}}"},
      {"{\"type\": \"NFC\"}", "7"},
      {"{\"Sequence\"", "{\"Sequence\": {\"id\": \"B\"}}, {\"Sequence\""},
      {"\"ids\": [6]", "\"ids\": [\"6\"]"},
  };
  for (const auto& [old, other] : changes) problem(replaced(kJson, old, other));
  for (const char* json : {"", "7", "[]", "{", "{\"model\": 7}", "{}"}) problem(json);
  std::string nested = "{\"type\": \"NFC\"}";
  for (int i = 0; i < 10000; ++i) {
    nested.insert(0, "{\"type\": \"Sequence\", \"normalizers\": [").append("]}");
  }
  EXPECT_NE(problem(replaced(kJson, "{\"type\": \"NFC\"}", nested)).find("16 times"),
            std::string::npos);
}

TEST(LoadTest, PatternsHaveALimitedTimeForAllPartsOfAText) {
  const char kSlow[] = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "(?:a|a|aa)+\\z."}}]})";
  const std::string metaspace =
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"})";
  HFTokenizer tokenizer;
  ASSERT_TRUE(tokenizer.load_json(replaced(kJson, metaspace, kSlow)).ok());
  std::string text;  // about 0.1 s for each word
  for (int i = 0; i < 1000; ++i) text += "aaaaaaaaaaaaaaaa ";
  EXPECT_EQ(tokenizer.encode(text).error(), Error::OutOfResources);
  EXPECT_TRUE(tokenizer.encode("aa aa").ok()) << "the next text has its own time";
}

// A list of all pairs would be read once for each merge: minutes.
TEST(LoadTest, LongWordsTakeNoQuadraticTime) {
  HFTokenizer tokenizer;
  ASSERT_TRUE(tokenizer.load_json(kJson).ok());
  std::string word;
  while (word.size() < (1 << 20)) word += "ab";
  const auto begin = std::chrono::steady_clock::now();
  const Result<Ids> ids = tokenizer.encode(word);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(ids->size(), word.size() / 2);
  EXPECT_LT(time.count(), 30) << "about 0.2 s";
}

}  // namespace
}  // namespace pteron::llm
