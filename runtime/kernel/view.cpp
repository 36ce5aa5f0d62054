#include "pteron/runtime/kernel/view.h"

#include <algorithm>
#include <cstring>

#include "pteron/runtime/kernel/convert.h"

namespace pteron {

int64_t View::numel() const {
  int64_t numel = 1;
  for (size_t d = 0; d < dim; ++d) numel *= sizes[d];
  return numel;
}

View View::permuted(Span<const int64_t> dims) const {
  View view = *this;
  for (size_t d = 0; d < dim; ++d) {
    view.sizes[d] = sizes[static_cast<size_t>(dims[d])];
    view.strides[d] = strides[static_cast<size_t>(dims[d])];
  }
  return view;
}

View View::sliced(size_t d, int64_t start, int64_t count, int64_t step) const {
  View view = *this;
  if (count > 0) view.data += start * strides[d];
  view.sizes[d] = count;
  view.strides[d] = strides[d] * step;
  return view;
}

View View::selected(size_t d, int64_t index) const {
  View view = *this;
  view.data += index * strides[d];
  std::copy(sizes.begin() + d + 1, sizes.begin() + dim, view.sizes.begin() + d);
  std::copy(strides.begin() + d + 1, strides.begin() + dim, view.strides.begin() + d);
  --view.dim;
  return view;
}

View View::unsqueezed(size_t d) const {
  View view = *this;
  std::copy_backward(sizes.begin() + d, sizes.begin() + dim, view.sizes.begin() + dim + 1);
  std::copy_backward(strides.begin() + d, strides.begin() + dim, view.strides.begin() + dim + 1);
  view.sizes[d] = 1;
  view.strides[d] = 0;
  ++view.dim;
  return view;
}

View View::expanded(Span<const int64_t> shape) const {
  View view = *this;
  view.dim = shape.size();
  const size_t added = shape.size() - dim;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool broadcast = d < added || (sizes[d - added] == 1 && shape[d] != 1);
    view.sizes[d] = shape[d];
    view.strides[d] = broadcast ? 0 : strides[d - added];
  }
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

template <size_t N>
Runs<N>::Runs(const std::array<const View*, N>& views) {
  const View& first = *views[0];
  for (size_t v = 0; v < N; ++v) data_[v] = views[v]->data;
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
    for (size_t v = 0; v < N && join; ++v) {
      join = strides_[v][joined - 1] == views[v]->strides[d] * first.sizes[d];
    }
    if (!join) sizes_[joined++] = 1;
    sizes_[joined - 1] *= first.sizes[d];
    for (size_t v = 0; v < N; ++v) strides_[v][joined - 1] = views[v]->strides[d];
  }
  std::fill_n(index_.begin(), joined, int64_t{0});
  if (joined > 0) {
    outer_dim_ = joined - 1;
    count_ = sizes_[outer_dim_];
    for (size_t v = 0; v < N; ++v) steps_[v] = strides_[v][outer_dim_];
  }
}

template <size_t N>
bool Runs<N>::next() {
  if (!started_) {
    started_ = true;
    return !empty_;
  }
  for (size_t d = outer_dim_; d-- > 0;) {
    if (++index_[d] < sizes_[d]) {
      for (size_t v = 0; v < N; ++v) data_[v] += strides_[v][d];
      return true;
    }
    index_[d] = 0;
    for (size_t v = 0; v < N; ++v) data_[v] -= strides_[v][d] * (sizes_[d] - 1);
  }
  return false;
}

template class Runs<1>;
template class Runs<2>;
template class Runs<3>;
template class Runs<4>;

namespace {

template <size_t kSize>
void copy_run(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
              int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kSize);
}

void copy_same_dtype(const View& from, const View& to) {
  const auto size = static_cast<int64_t>(element_size(to.dtype));
  for (Runs<2> runs({&to, &from}); runs.next();) {
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

}  // namespace

Error copy_elements(const View& from, const View& to) {
  const bool same_shape =
      from.dim == to.dim &&
      std::equal(from.sizes.begin(), from.sizes.begin() + from.dim, to.sizes.begin());
  PTERON_CHECK_OR_RETURN(same_shape, Error::InvalidArgument,
                         "cannot copy %lld elements to %lld: the sizes differ",
                         static_cast<long long>(from.numel()), static_cast<long long>(to.numel()));
  if (from.dtype == to.dtype) {
    const bool same_place =
        from.data == to.data &&
        std::equal(from.strides.begin(), from.strides.begin() + from.dim, to.strides.begin());
    if (!same_place) copy_same_dtype(from, to);
    return Error::Ok;
  }
  dispatch_number(from.dtype, [&](auto number) {
    using Number = decltype(number);
    Number buffer[kBlock];
    for (Runs<2> runs({&to, &from}); runs.next();) {
      for (int64_t i = 0; i < runs.count(); i += kBlock) {
        const int64_t count = std::min(kBlock, runs.count() - i);
        const Number* numbers =
            load_block(from.dtype, runs.data(1) + i * runs.step(1), runs.step(1), count, buffer);
        store_block(to.dtype, runs.data(0) + i * runs.step(0), runs.step(0), count, numbers);
      }
    }
  });
  return Error::Ok;
}

}  // namespace pteron
