#include "pteron/backends/apple/metal/runtime/testing/kernel_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace pteron::metal {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string trimmed(const std::string& text) {
  const char* const spaces = " \t\n\r";
  const size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

bool is_word_at(const std::string& text, size_t at, const std::string& word) {
  return text.compare(at, word.size(), word) == 0 && (at == 0 || !is_name(text[at - 1])) &&
         (at + word.size() == text.size() || !is_name(text[at + word.size()]));
}

// `threadgroup float sums[32];` becomes `static float sums[32];`: all threads of a group run on one
// host thread and share it. Parameters and pointers with this qualifier are unchanged.
std::string with_shared_variables(std::string text) {
  const std::string word = "threadgroup";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!is_word_at(text, at, word)) continue;
    const size_t before = at == 0 ? std::string::npos : text.find_last_not_of(" \t\n\r", at - 1);
    const bool begins =
        before == std::string::npos || std::string(";{})").find(text[before]) < std::string::npos;
    const size_t end = text.find_first_of(";(,=*&)", at);
    if (!begins || end == std::string::npos || text[end] != ';') continue;
    text.replace(at, word.size(), "static     ");  // of equal length: keeps columns
  }
  return text;
}

struct Parameter {
  std::string type, attribute;
};

Parameter parameter_of(std::string text) {
  Parameter found;
  if (const size_t begin = text.find("[["); begin != std::string::npos) {
    found.attribute = trimmed(text.substr(begin + 2, text.find("]]", begin) - begin - 2));
    text = text.substr(0, begin);
  }
  text = trimmed(text);
  size_t name = text.size();
  while (name > 0 && is_name(text[name - 1])) --name;
  found.type = trimmed(text.substr(0, name));
  return found;
}

std::vector<Parameter> parameters_of(const std::string& text) {
  std::vector<Parameter> found;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' || c == '<' || c == '[';
    depth -= c == ')' || c == '>' || c == ']';
    if (c == ',' && depth == 0) {
      found.push_back(parameter_of(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty()) found.push_back(parameter_of(part));
  return found;
}

// The argument of the last attribute of the function that begins at `at`.
uint64_t max_threads_at(const std::string& text, size_t at) {
  const std::string attribute = "max_total_threads_per_threadgroup(";
  const size_t body = at == 0 ? std::string::npos : text.find_last_of(";}", at - 1);
  const size_t found = text.rfind(attribute, at);
  if (found == std::string::npos || (body != std::string::npos && found < body)) return 1024;
  return std::strtoull(text.c_str() + found + attribute.size(), nullptr, 10);
}

// The function that runs one thread of a kernel.
std::string starter(const std::string& name, const std::vector<Parameter>& parameters,
                    std::vector<bool>* buffers) {
  std::string call;
  size_t next = 0;
  for (const Parameter& parameter : parameters) {
    call += call.empty() ? "" : ", ";
    const bool is_numbered = parameter.attribute.rfind("buffer(", 0) == 0;
    if (is_numbered || parameter.attribute.empty()) {
      const size_t index =
          is_numbered ? std::strtoull(parameter.attribute.c_str() + 7, nullptr, 10) : next;
      next = index + 1;
      buffers->resize(std::max(buffers->size(), next));
      (*buffers)[index] = true;
      call += "MslArgument<" + parameter.type + ">::of(buffers[" + std::to_string(index) + "])";
    } else {
      call += "MslPlaceAs<" + parameter.type + ">::of(place." + parameter.attribute + ")";
    }
  }
  return "extern \"C\" void msl_start_" + name +
         "(const void* const* buffers, const MslPlace& place) { " + name + "(" + call + "); }\n";
}

}  // namespace

KernelText KernelText::parse(const std::string& source) {
  KernelText text;
  std::string starters;
  for (size_t at = source.find("kernel"); at != std::string::npos;
       at = source.find("kernel", at + 1)) {
    if (!is_word_at(source, at, "kernel")) continue;
    size_t name = source.find_first_not_of(" \t\n\r", at + 6);
    if (name == std::string::npos || !is_word_at(source, name, "void")) continue;
    name = source.find_first_not_of(" \t\n\r", name + 4);
    size_t end = name;
    while (end < source.size() && is_name(source[end])) ++end;
    const size_t open = source.find_first_not_of(" \t\n\r", end);
    if (end == name || open == std::string::npos || source[open] != '(') continue;
    size_t close = open;
    for (int depth = 0; close < source.size(); ++close) {
      depth += source[close] == '(';
      depth -= source[close] == ')';
      if (depth == 0) break;
    }
    Kernel kernel;
    kernel.name = source.substr(name, end - name);
    kernel.max_threads = max_threads_at(source, at);
    starters += starter(kernel.name, parameters_of(source.substr(open + 1, close - open - 1)),
                        &kernel.buffers);
    text.kernels.push_back(std::move(kernel));
  }
  text.in_lockstep = source.find("threadgroup_barrier(") != std::string::npos ||
                     source.find("simd_") != std::string::npos;
  text.cpp = "#line 1 \"kernel\"\n" + with_shared_variables(source) +
             "\n#line 1 \"start\"\nextern \"C\" const MslHost* msl_host = nullptr;\n" + starters;
  return text;
}

std::string KernelText::names() const {
  std::string all;
  for (const Kernel& kernel : kernels) all += (all.empty() ? "" : ", ") + kernel.name;
  return all.empty() ? "none" : all;
}

}  // namespace pteron::metal
