#include "pteron/runtime/kernel/view.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "pteron/runtime/core/strided_copy.h"

namespace pteron {

int64_t View::numel() const {
  int64_t numel = 1;
  for (size_t d = 0; d < dim; ++d) numel *= sizes[d];
  return numel;
}

View View::selected(size_t d, int64_t index) const {
  View view = *this;
  view.data += index * strides[d] * static_cast<int64_t>(element_size(dtype));
  std::copy(sizes.begin() + d + 1, sizes.begin() + dim, view.sizes.begin() + d);
  std::copy(strides.begin() + d + 1, strides.begin() + dim, view.strides.begin() + d);
  --view.dim;
  return view;
}

View view_of(const Tensor& tensor) {
  View view;
  view.data = tensor.data_as<std::byte>();
  view.dtype = tensor.dtype();
  view.dim = tensor.dim();
  std::copy_n(tensor.sizes().data(), view.dim, view.sizes.begin());
  std::copy_n(tensor.strides().data(), view.dim, view.strides.begin());
  return view;
}

View contiguous_view(ScalarType dtype, Span<const int64_t> sizes, void* data) {
  View view;
  view.data = static_cast<std::byte*>(data);
  view.dtype = dtype;
  view.dim = sizes.size();
  int64_t stride = 1;
  for (size_t d = view.dim; d-- > 0;) {
    view.sizes[d] = sizes[d];
    view.strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return view;
}

namespace {

// The byte range of a non-empty view.
std::pair<uintptr_t, uintptr_t> ends_of(const View& view) {
  auto begin = reinterpret_cast<uintptr_t>(view.data);
  uintptr_t end = begin + element_size(view.dtype);
  for (size_t d = 0; d < view.dim; ++d) {
    const int64_t reach = view.strides[d] * (view.sizes[d] - 1);
    (reach < 0 ? begin : end) += static_cast<uintptr_t>(reach) * element_size(view.dtype);
  }
  return {begin, end};
}

bool overlap(const View& a, const View& b) {
  const auto [a_begin, a_end] = ends_of(a);
  const auto [b_begin, b_end] = ends_of(b);
  return a_begin < b_end && b_begin < a_end;
}

// A bitmap of the bytes between two addresses.
class SeenBytes final {
 public:
  SeenBytes(uintptr_t begin, uintptr_t end) : begin_(begin), seen_(end - begin) {}

  // Whether a byte of the view's elements is marked; if `add`, marks them all.
  bool look_at(const View& view, bool add) {
    const auto item = static_cast<int64_t>(element_size(view.dtype));
    const int64_t first = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) - begin_);
    const int64_t* const strides = view.strides.data();
    bool found = false;
    StridedPlan(strides, strides, view.sizes.data(), view.dim)
        .for_each_run([&](int64_t to, int64_t, int64_t count, int64_t stride, int64_t) {
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t byte = first + (to + i * stride) * item, k = 0; k < item; ++k, ++byte) {
              if (byte < 0 || byte >= static_cast<int64_t>(seen_.size())) continue;
              found |= seen_[byte];
              if (add) seen_[byte] = true;
            }
          }
        });
    return found;
  }

 private:
  uintptr_t begin_;
  std::vector<bool> seen_;
};

}  // namespace

bool overlaps_itself(const View& view) {
  if (view.numel() <= 1) return false;
  // Fast path: each stride exceeds the extent of the smaller ones.
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t d = 0; d < view.dim; ++d) {
    if (view.sizes[d] != 1) steps.emplace_back(std::abs(view.strides[d]), view.sizes[d]);
  }
  std::sort(steps.begin(), steps.end());
  if (steps[0].first == 0) return true;
  int64_t reach = 0;
  bool is_clear = true;
  for (const auto& [stride, size] : steps) {
    is_clear = is_clear && stride > reach;
    reach += stride * (size - 1);
  }
  if (is_clear) return false;
  const auto [begin, end] = ends_of(view);
  return SeenBytes(begin, end).look_at(view, true);
}

bool share_elements(const View& a, const View& b) {
  if (a.numel() == 0 || b.numel() == 0 || !overlap(a, b)) return false;
  const auto [a_begin, a_end] = ends_of(a);
  const auto [b_begin, b_end] = ends_of(b);
  SeenBytes seen(std::max(a_begin, b_begin), std::min(a_end, b_end));
  seen.look_at(a, true);
  return seen.look_at(b, false);
}

Error copy_elements(const View& from, const View& to) {
  const bool same_shape =
      from.dim == to.dim &&
      std::equal(from.sizes.begin(), from.sizes.begin() + from.dim, to.sizes.begin());
  PTERON_CHECK_OR_RETURN(same_shape, Error::InvalidArgument,
                         "cannot copy %lld elements to %lld: the sizes differ",
                         static_cast<long long>(from.numel()), static_cast<long long>(to.numel()));
  PTERON_CHECK_OR_RETURN(from.dtype == to.dtype, Error::InvalidArgument,
                         "cannot copy %s to %s: the dtypes differ", name_of(from.dtype),
                         name_of(to.dtype));
  const bool same_place =
      from.data == to.data &&
      std::equal(from.strides.begin(), from.strides.begin() + from.dim, to.strides.begin());
  if (same_place || to.numel() == 0) return Error::Ok;
  PTERON_CHECK_OR_RETURN(!overlap(from, to), Error::InvalidArgument,
                         "cannot copy %lld elements to where some of them are",
                         static_cast<long long>(from.numel()));
  copy_strided(to.data, to.strides.data(), from.data, from.strides.data(), to.sizes.data(), to.dim,
               element_size(to.dtype));
  return Error::Ok;
}

}  // namespace pteron
