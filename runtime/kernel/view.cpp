#include "pteron/runtime/kernel/view.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pteron {

int64_t View::numel() const {
  int64_t numel = 1;
  for (size_t d = 0; d < dim; ++d) numel *= sizes[d];
  return numel;
}

View View::selected(size_t d, int64_t index) const {
  View view = *this;
  view.data += index * strides[d];
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
  const auto element_nbytes = static_cast<int64_t>(element_size(tensor.dtype()));
  for (size_t d = 0; d < view.dim; ++d) {
    view.sizes[d] = tensor.size(d);
    view.strides[d] = tensor.strides()[d] * element_nbytes;
  }
  return view;
}

View contiguous_view(ScalarType dtype, Span<const int64_t> sizes, void* data) {
  View view;
  view.data = static_cast<std::byte*>(data);
  view.dtype = dtype;
  view.dim = sizes.size();
  auto stride = static_cast<int64_t>(element_size(dtype));
  for (size_t d = view.dim; d-- > 0;) {
    view.sizes[d] = sizes[d];
    view.strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return view;
}

namespace {

// Walks over two views of one shape in runs: stretches along one dimension in which each advances by
// a constant step. Dimensions are visited in the memory order of the first view, and joined where
// both allow it, so that contiguous views are a single run.
class Runs final {
 public:
  explicit Runs(const std::array<const View*, 2>& views);

  // To the next run; false when there is none.
  bool next();
  int64_t count() const { return count_; }
  std::byte* data(size_t view) const { return data_[view]; }
  int64_t step(size_t view) const { return steps_[view]; }  // in bytes

 private:
  bool started_ = false;
  bool empty_ = false;
  size_t outer_dim_ = 0;
  int64_t count_ = 1;
  std::array<std::byte*, 2> data_{};
  std::array<int64_t, 2> steps_{};
  // The first `outer_dim_` of each, and one more of sizes_ and strides_.
  std::array<int64_t, kMaxTensorDims> sizes_;
  std::array<int64_t, kMaxTensorDims> index_;
  std::array<std::array<int64_t, kMaxTensorDims>, 2> strides_;
};

Runs::Runs(const std::array<const View*, 2>& views) {
  const View& first = *views[0];
  for (size_t v = 0; v < 2; ++v) data_[v] = views[v]->data;
  // Outermost first: by falling steps of the first view.
  std::array<size_t, kMaxTensorDims> order;
  size_t dims = 0;
  for (size_t d = 0; d < first.dim; ++d) {
    if (first.sizes[d] == 0) empty_ = true;
    if (first.sizes[d] != 1) order[dims++] = d;
  }
  const auto step = [&](size_t d) { return std::abs(first.strides[d]); };
  // By insertion: there are few, and mostly in order.
  for (size_t i = 1; i < dims; ++i) {
    for (size_t j = i; j > 0 && step(order[j - 1]) < step(order[j]); --j) {
      std::swap(order[j - 1], order[j]);
    }
  }
  size_t joined = 0;
  for (size_t i = 0; i < dims; ++i) {
    const size_t d = order[i];
    bool join = joined > 0;
    for (size_t v = 0; v < 2 && join; ++v) {
      join = strides_[v][joined - 1] == views[v]->strides[d] * first.sizes[d];
    }
    if (!join) sizes_[joined++] = 1;
    sizes_[joined - 1] *= first.sizes[d];
    for (size_t v = 0; v < 2; ++v) strides_[v][joined - 1] = views[v]->strides[d];
  }
  std::fill_n(index_.begin(), joined, int64_t{0});
  if (joined > 0) {
    outer_dim_ = joined - 1;
    count_ = sizes_[outer_dim_];
    for (size_t v = 0; v < 2; ++v) steps_[v] = strides_[v][outer_dim_];
  }
}

bool Runs::next() {
  if (!started_) {
    started_ = true;
    return !empty_;
  }
  for (size_t d = outer_dim_; d-- > 0;) {
    if (++index_[d] < sizes_[d]) {
      for (size_t v = 0; v < 2; ++v) data_[v] += strides_[v][d];
      return true;
    }
    index_[d] = 0;
    for (size_t v = 0; v < 2; ++v) data_[v] -= strides_[v][d] * (sizes_[d] - 1);
  }
  return false;
}

template <size_t kSize>
void copy_run(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
              int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kSize);
}

void copy_runs(const View& from, const View& to) {
  const auto size = static_cast<int64_t>(element_size(to.dtype));
  for (Runs runs({&to, &from}); runs.next();) {
    if (runs.step(0) == size && runs.step(1) == size) {
      std::memmove(runs.data(0), runs.data(1), static_cast<size_t>(runs.count() * size));
      continue;
    }
    const auto copy = size == 1   ? copy_run<1>
                      : size == 2 ? copy_run<2>
                      : size == 4 ? copy_run<4>
                                  : copy_run<8>;
    copy(runs.data(1), runs.step(1), runs.data(0), runs.step(0), runs.count());
  }
}

// Where the bytes of a view begin and end; it has elements.
std::pair<uintptr_t, uintptr_t> ends_of(const View& view) {
  auto begin = reinterpret_cast<uintptr_t>(view.data);
  uintptr_t end = begin + element_size(view.dtype);
  for (size_t d = 0; d < view.dim; ++d) {
    const int64_t reach = view.strides[d] * (view.sizes[d] - 1);
    (reach < 0 ? begin : end) += static_cast<uintptr_t>(reach);
  }
  return {begin, end};
}

bool overlap(const View& a, const View& b) {
  const auto [a_begin, a_end] = ends_of(a);
  const auto [b_begin, b_end] = ends_of(b);
  return a_begin < b_end && b_begin < a_end;
}

}  // namespace

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
  copy_runs(from, to);
  return Error::Ok;
}

}  // namespace pteron
