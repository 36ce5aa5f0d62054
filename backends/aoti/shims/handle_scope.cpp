#include "pteron/backends/aoti/shims/handle_scope.h"

namespace pteron::aoti {
namespace {

thread_local HandleScope* current_scope = nullptr;

}  // namespace

HandleScope::HandleScope() { current_scope = this; }

HandleScope::~HandleScope() { current_scope = nullptr; }

HandleScope* HandleScope::current() { return current_scope; }

}  // namespace pteron::aoti
