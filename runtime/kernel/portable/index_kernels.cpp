// Elements chosen by other tensors.
#include <algorithm>
#include <cstring>
#include <vector>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

bool is_index_dtype(ScalarType dtype) {
  return dtype == ScalarType::Long || dtype == ScalarType::Int || dtype == ScalarType::Short ||
         dtype == ScalarType::Char || dtype == ScalarType::Byte;
}

Error check_index_dtype(const Tensor& index) {
  PTERON_CHECK_OR_RETURN(is_index_dtype(index.dtype()), Error::InvalidType,
                         "an index is %s, expected an integer dtype", name_of(index.dtype()));
  return Error::Ok;
}

Error out_of_range(int64_t index, int64_t size, size_t dim) {
  return make_error(Error::InvalidArgument,
                    "index %lld is out of range in dimension %zu, which has %lld elements",
                    static_cast<long long>(index), dim, static_cast<long long>(size));
}

// Counts through all coordinates of a shape, the last dimension fastest.
class Coordinates final {
 public:
  explicit Coordinates(Span<const int64_t> sizes) : shape_(sizes) {
    for (const int64_t size : sizes) done_ |= size == 0;
  }
  bool done() const { return done_; }
  void next() {
    for (size_t d = shape_.dim; d-- > 0;) {
      if (++at_[d] < shape_.sizes[d]) return;
      at_[d] = 0;
    }
    done_ = true;
  }
  int64_t operator[](size_t d) const { return at_[d]; }
  // Of the element in a view of this shape.
  std::byte* in(const View& view) const {
    std::byte* data = view.data;
    for (size_t d = 0; d < shape_.dim; ++d) data += at_[d] * view.strides[d];
    return data;
  }

 private:
  Shape shape_;
  std::array<int64_t, kMaxTensorDims> at_{};
  bool done_ = false;
};

// How an element goes from one address to another of the same dtype.
enum class Write { Set, Add, Multiply, Largest, Smallest };

template <typename Number>
Number combined(Write write, Number old, Number added) {
  switch (write) {
    case Write::Set:
      break;
    case Write::Add:
      return old + added;
    case Write::Multiply:
      return old * added;
    case Write::Largest:
      return old > added || old != old ? old : added;
    case Write::Smallest:
      return old < added || old != old ? old : added;
  }
  return added;
}

void write_element(Write write, ScalarType to_dtype, std::byte* to, ScalarType from_dtype,
                   const std::byte* from) {
  if (write == Write::Set && to_dtype == from_dtype) {
    std::memcpy(to, from, element_size(to_dtype));
    return;
  }
  dispatch_number(to_dtype, [&](auto number) {
    using Number = decltype(number);
    store_one(to_dtype, to,
              combined(write, load_one<Number>(to_dtype, to), load_one<Number>(from_dtype, from)));
  });
}

// --- index.Tensor and index_put ---------------------------------------------------------------

// One dimension of the indexed tensor, and the index for it.
struct IndexedDim {
  size_t dim;
  View index;                    // broadcast to the common shape of all indices
  std::vector<int64_t> of_mask;  // what `index` looks at, if it came from a mask
};

// Which elements `indices` choose: for each index of `shape` one slice of the dimensions left over.
struct Selection {
  std::vector<IndexedDim> dims;
  Shape shape;          // of the indices
  View rest;            // the tensor without the indexed dimensions
  size_t position = 0;  // of the indices' dimensions in the result
  Shape result;
};

// The coordinates of what is set in `mask`, one IndexedDim a dimension.
void append_mask(const Tensor& mask, size_t first_dim, std::vector<IndexedDim>& dims) {
  const size_t start = dims.size();
  for (size_t d = 0; d < mask.dim(); ++d) dims.push_back({first_dim + d, {}, {}});
  const View view = view_of(mask);
  for (Coordinates at(mask.sizes()); !at.done(); at.next()) {
    if (!load_one<int64_t>(view.dtype, at.in(view))) continue;
    for (size_t d = 0; d < mask.dim(); ++d) dims[start + d].of_mask.push_back(at[d]);
  }
  for (size_t d = 0; d < mask.dim(); ++d) {
    IndexedDim& dim = dims[start + d];
    const int64_t sizes[] = {static_cast<int64_t>(dim.of_mask.size())};
    dim.index = contiguous_view(ScalarType::Long, sizes, dim.of_mask.data());
  }
}

Error append_index(const Tensor& self, const Tensor& index, Selection& selection, size_t& next) {
  const bool is_mask = index.dtype() == ScalarType::Bool;
  const size_t used = is_mask ? index.dim() : 1;
  PTERON_CHECK_OR_RETURN(next + used <= self.dim(), Error::InvalidArgument,
                         "more indices than %s has dimensions", self.describe().c_str());
  if (!is_mask) {
    PTERON_RETURN_IF_ERROR(check_index_dtype(index));
    selection.dims.push_back({next++, view_of(index), {}});
    return Error::Ok;
  }
  PTERON_CHECK_OR_RETURN(index.dim() > 0, Error::NotSupported, "a mask without dimensions");
  for (size_t d = 0; d < used; ++d) {
    PTERON_CHECK_OR_RETURN(index.size(d) == self.size(next + d), Error::InvalidArgument,
                           "the mask %s does not fit %s at dimension %zu", index.describe().c_str(),
                           self.describe().c_str(), next + d);
  }
  append_mask(index, next, selection.dims);
  next += used;
  return Error::Ok;
}

Result<Selection> select(const Tensor& self, const OptionalTensors& indices) {
  Selection selection;
  size_t next = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) {
      PTERON_CHECK_OR_RETURN(next < self.dim(), Error::InvalidArgument,
                             "more indices than %s has dimensions", self.describe().c_str());
      ++next;
      continue;
    }
    PTERON_RETURN_IF_ERROR(append_index(self, *indices[i], selection, next));
  }
  std::vector<IndexedDim>& dims = selection.dims;
  PTERON_CHECK_OR_RETURN(!dims.empty(), Error::InvalidArgument, "no index at all");
  for (const IndexedDim& dim : dims) {
    PTERON_ASSIGN_OR_RETURN(selection.shape,
                            broadcast({selection.shape.span(), dim.index.shape()}));
  }
  for (IndexedDim& dim : dims) dim.index = dim.index.expanded(selection.shape.span());
  // Where the indexed dimensions are neighbours their result takes their place, otherwise it is
  // first.
  const bool neighbours = dims.back().dim - dims.front().dim + 1 == dims.size();
  selection.position = neighbours ? dims.front().dim : 0;
  selection.rest = view_of(self);
  for (size_t i = dims.size(); i-- > 0;) {
    selection.rest = selection.rest.selected(dims[i].dim, 0);
  }
  const View& rest = selection.rest;
  for (size_t d = 0; d <= rest.dim; ++d) {
    for (size_t k = 0; d == selection.position && k < selection.shape.dim; ++k) {
      PTERON_RETURN_IF_ERROR(selection.result.push_back(selection.shape.sizes[k]));
    }
    if (d < rest.dim) PTERON_RETURN_IF_ERROR(selection.result.push_back(rest.sizes[d]));
  }
  return selection;
}

// Bytes from the start of `self` to the slice that the indices choose at `at`.
Result<int64_t> offset_of(const Tensor& self, const Selection& selection, const Coordinates& at) {
  int64_t offset = 0;
  const auto element_nbytes = static_cast<int64_t>(element_size(self.dtype()));
  for (const IndexedDim& dim : selection.dims) {
    const int64_t size = self.size(dim.dim);
    const auto index = load_one<int64_t>(dim.index.dtype, at.in(dim.index));
    if (index < -size || index >= size) return out_of_range(index, size, dim.dim);
    offset += (index < 0 ? index + size : index) * self.strides()[dim.dim] * element_nbytes;
  }
  return offset;
}

// The slice of a tensor shaped like the result that belongs to `at`.
View slice_at(View view, const Selection& selection, const Coordinates& at) {
  for (size_t k = 0; k < selection.shape.dim; ++k) view = view.selected(selection.position, at[k]);
  return view;
}

Error check_offsets(const Tensor& self, const Selection& selection) {
  for (Coordinates at(selection.shape.span()); !at.done(); at.next()) {
    Result<int64_t> offset = offset_of(self, selection, at);
    if (!offset.ok()) return offset.take_error();
  }
  return Error::Ok;
}

void write_slice(Write write, const View& from, const View& to) {
  for (Runs<2> runs({&to, &from}); runs.next();) {
    for (int64_t i = 0; i < runs.count(); ++i) {
      write_element(write, to.dtype, runs.data(0) + i * runs.step(0), from.dtype,
                    runs.data(1) + i * runs.step(1));
    }
  }
}

// Writes `values` over the elements that `indices` choose. Nothing is written unless all are in
// range.
Error put(Tensor& target, const OptionalTensors& indices, const Tensor& values, bool accumulate) {
  PTERON_ASSIGN_OR_RETURN(Selection selection, select(target, indices));
  PTERON_CHECK_OR_RETURN(values.dtype() == target.dtype(), Error::InvalidType,
                         "values are %s, expected %s", name_of(values.dtype()),
                         name_of(target.dtype()));
  PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({values.sizes(), selection.result.span()}));
  PTERON_CHECK_OR_RETURN(
      shape.dim == selection.result.dim && shape.numel() == selection.result.numel(),
      Error::InvalidArgument, "values %s do not fit %s", values.describe().c_str(),
      describe(selection.result.span()).c_str());
  PTERON_RETURN_IF_ERROR(check_offsets(target, selection));
  const View source = view_of(values).expanded(shape.span());
  for (Coordinates at(selection.shape.span()); !at.done(); at.next()) {
    PTERON_ASSIGN_OR_RETURN(const int64_t offset, offset_of(target, selection, at));
    View to = selection.rest;
    to.data += offset;
    write_slice(accumulate ? Write::Add : Write::Set, slice_at(source, selection, at), to);
  }
  return Error::Ok;
}

// --- gather and scatter -------------------------------------------------------------------------

// f(position in `index`'s shape, index) for all of them, once all are known to be in range.
template <typename F>
Error for_each_index(const Tensor& index, int64_t size, size_t dim, F f) {
  PTERON_RETURN_IF_ERROR(check_index_dtype(index));
  const View view = view_of(index);
  for (Coordinates at(index.sizes()); !at.done(); at.next()) {
    const auto i = load_one<int64_t>(view.dtype, at.in(view));
    if (i < 0 || i >= size) return out_of_range(i, size, dim);
  }
  for (Coordinates at(index.sizes()); !at.done(); at.next()) {
    f(at, load_one<int64_t>(view.dtype, at.in(view)));
  }
  return Error::Ok;
}

// The element of `view` at `at`, with `index` in place of coordinate `dim`.
std::byte* element_at(const View& view, const Coordinates& at, size_t dim, int64_t index) {
  if (view.dim == 0) return view.data;
  return at.in(view) + (index - at[dim]) * view.strides[dim];
}

// `index` has the rank of `tensor` and is nowhere larger, except along `dim` if `dim` is given.
Error check_index_shape(const Tensor& index, const Tensor& tensor, std::optional<size_t> dim) {
  bool fits = index.dim() == tensor.dim();
  for (size_t d = 0; d < index.dim() && fits; ++d) {
    fits = d == dim || index.size(d) <= tensor.size(d);
  }
  PTERON_CHECK_OR_RETURN(fits || index.numel() == 0, Error::InvalidArgument,
                         "the index %s does not fit %s", index.describe().c_str(),
                         tensor.describe().c_str());
  return Error::Ok;
}

Error scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor* source,
              const Scalar& value, Write write, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, self.sizes()));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  PTERON_RETURN_IF_ERROR(check_index_shape(index, self, d));
  if (source) PTERON_RETURN_IF_ERROR(check_index_shape(index, *source, std::nullopt));
  PTERON_RETURN_IF_ERROR(copy_elements(view_of(self), view_of(out)));
  const View to = view_of(out);
  const View from = source ? view_of(*source) : View();
  const int64_t size = self.dim() > 0 ? self.size(d) : 1;
  return for_each_index(index, size, d, [&](const Coordinates& at, int64_t i) {
    const std::byte* element = source ? at.in(from) : static_cast<const std::byte*>(value.data());
    const ScalarType dtype = source                                ? from.dtype
                             : value.dtype() == ScalarType::Double ? ScalarType::Double
                                                                   : ScalarType::Long;
    write_element(write, to.dtype, element_at(to, at, d, i), dtype, element);
  });
}

Result<Write> reduction(std::string_view name) {
  if (name == "add" || name == "sum") return Write::Add;
  if (name == "multiply" || name == "prod") return Write::Multiply;
  if (name == "amax") return Write::Largest;
  if (name == "amin") return Write::Smallest;
  return make_error(Error::NotSupported,
                    "reduction \"%s\", expected add, sum, multiply, prod, amax or amin",
                    std::string(name).c_str());
}

// Rows of `self` along `dim`, one for each element of the 1-d `index`.
Error select_rows(const Tensor& self, size_t dim, const View& index, const View& out) {
  const int64_t size = self.size(dim);
  for (int64_t i = 0; i < index.sizes[0]; ++i) {
    const auto row = load_one<int64_t>(index.dtype, index.data + i * index.strides[0]);
    if (row < 0 || row >= size) return out_of_range(row, size, dim);
    PTERON_RETURN_IF_ERROR(copy_elements(view_of(self).selected(dim, row), out.selected(dim, i)));
  }
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(index_out, (const Tensor& self, OptionalTensors indices, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(Selection selection, select(self, indices));
  PTERON_RETURN_IF_ERROR(resize_out(out, selection.result.span()));
  for (Coordinates at(selection.shape.span()); !at.done(); at.next()) {
    PTERON_ASSIGN_OR_RETURN(const int64_t offset, offset_of(self, selection, at));
    View from = selection.rest;
    from.data += offset;
    write_slice(Write::Set, from, slice_at(view_of(out), selection, at));
  }
  return Error::Ok;
}
PTERON_DEFINE_KERNEL(index_put_out, (const Tensor& self, OptionalTensors indices,
                                     const Tensor& values, bool accumulate, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(resize_out(out, self.sizes()));
  PTERON_RETURN_IF_ERROR(copy_elements(view_of(self), view_of(out)));
  return put(out, indices, values, accumulate);
}
PTERON_DEFINE_KERNEL(index_put_, (Tensor & self, OptionalTensors indices, const Tensor& values,
                                  bool accumulate)) {
  return put(self, indices, values, accumulate);
}

PTERON_DEFINE_KERNEL(index_select_out,
                     (const Tensor& self, int64_t dim, const Tensor& index, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(check_index_dtype(index));
  PTERON_CHECK_OR_RETURN(index.dim() <= 1 && self.dim() > 0, Error::InvalidArgument,
                         "the index is %s of %s, expected one dimension", index.describe().c_str(),
                         self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  Shape shape(self.sizes());
  shape.sizes[d] = index.numel();
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const View rows = index.dim() == 0 ? view_of(index).unsqueezed(0) : view_of(index);
  return select_rows(self, d, rows, view_of(out));
}

PTERON_DEFINE_KERNEL(embedding_out,
                     (KernelContext & context, const Tensor& weight, const Tensor& indices, Ignored,
                      Ignored, Ignored, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(check_index_dtype(indices));
  PTERON_CHECK_OR_RETURN(weight.dim() == 2, Error::InvalidArgument,
                         "the weight is %s, expected two dimensions", weight.describe().c_str());
  Shape shape(indices.sizes());
  PTERON_RETURN_IF_ERROR(shape.push_back(weight.size(1)));
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const View to = view_of(out);
  PTERON_CHECK_OR_RETURN(is_contiguous(to), Error::NotSupported,
                         "an output that is not contiguous");
  PTERON_ASSIGN_OR_RETURN(const View chosen, contiguous(context, indices));
  const int64_t count[] = {indices.numel()};
  const int64_t rows[] = {indices.numel(), weight.size(1)};
  return select_rows(weight, 0, contiguous_view(chosen.dtype, count, chosen.data),
                     contiguous_view(to.dtype, rows, to.data));
}

PTERON_DEFINE_KERNEL(gather_out,
                     (const Tensor& self, int64_t dim, const Tensor& index, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  PTERON_RETURN_IF_ERROR(check_index_shape(index, self, d));
  PTERON_RETURN_IF_ERROR(resize_out(out, index.sizes()));
  const View from = view_of(self);
  const View to = view_of(out);
  const int64_t size = self.dim() > 0 ? self.size(d) : 1;
  return for_each_index(index, size, d, [&](const Coordinates& at, int64_t i) {
    write_element(Write::Set, to.dtype, at.in(to), from.dtype, element_at(from, at, d, i));
  });
}

PTERON_DEFINE_KERNEL(scatter_out, (const Tensor& self, int64_t dim, const Tensor& index,
                                   const Tensor& source, Tensor& out)) {
  return scatter(self, dim, index, &source, int64_t{0}, Write::Set, out);
}
PTERON_DEFINE_KERNEL(scatter_value_out, (const Tensor& self, int64_t dim, const Tensor& index,
                                         Scalar value, Tensor& out)) {
  return scatter(self, dim, index, nullptr, value, Write::Set, out);
}
PTERON_DEFINE_KERNEL(scatter_add_out, (const Tensor& self, int64_t dim, const Tensor& index,
                                       const Tensor& source, Tensor& out)) {
  return scatter(self, dim, index, &source, int64_t{0}, Write::Add, out);
}
PTERON_DEFINE_KERNEL(scatter_reduce_out,
                     (const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(include_self, Error::NotSupported,
                         "scatter_reduce without the input itself");
  PTERON_ASSIGN_OR_RETURN(const Write write, reduction(reduce));
  return scatter(self, dim, index, &source, int64_t{0}, write, out);
}

// Coordinates of what is not zero: [number of them, rank].
PTERON_DEFINE_KERNEL(nonzero_out, (const Tensor& self, Tensor& out)) {
  const View view = view_of(self);
  const auto is_set = [&](const Coordinates& at) {
    return load_one<double>(view.dtype, at.in(view)) != 0;
  };
  int64_t count = 0;
  for (Coordinates at(self.sizes()); !at.done(); at.next()) count += is_set(at);
  const int64_t sizes[] = {count, static_cast<int64_t>(self.dim())};
  PTERON_RETURN_IF_ERROR(resize_out(out, sizes));
  const View to = view_of(out);
  std::byte* row = to.data;
  for (Coordinates at(self.sizes()); !at.done(); at.next()) {
    if (!is_set(at)) continue;
    for (size_t d = 0; d < self.dim(); ++d) {
      store_one<int64_t>(to.dtype, row + static_cast<int64_t>(d) * to.strides[1], at[d]);
    }
    row += to.strides[0];
  }
  return Error::Ok;
}

}  // namespace pteron::kernels
