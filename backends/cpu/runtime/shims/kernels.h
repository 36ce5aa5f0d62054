// What a CPU does for the operators of backends/aoti/ops. Calls are defined there.
#pragma once

#include "pteron/backends/aoti/ops/kernels.h"

namespace pteron::cpu {

const aoti::Kernels& kernels();

Error arithmetic(const aoti::ArithmeticCall& call);
Error convolution(const aoti::ConvolutionCall& call);
Error count(const aoti::CountCall& call);
Error distance(const aoti::DistanceCall& call);
Error embedding_bag(const aoti::EmbeddingBagCall& call);
Error fft(const aoti::FftCall& call);
Error fill(const slim::SlimTensor& out, const slim::Scalar& value);
std::optional<int64_t> find_outside(const slim::SlimTensor& numbers, int64_t low, int64_t end);
Error histogram(const aoti::HistogramCall& call);
Error index(const aoti::IndexCall& call);
Error int8_weight(const aoti::Int8WeightCall& call);
Error linalg(const aoti::LinalgCall& call);
Error mark_runs(const slim::SlimTensor& rows, const slim::SlimTensor* order,
                const slim::SlimTensor& starts);
Error masked_scatter(const aoti::MaskedScatterCall& call);
Error nonzero(const slim::SlimTensor& self, slim::TensorPtr& coordinates);
Error number_runs(const aoti::RunsCall& call);
Error order_rows(const slim::SlimTensor& rows, const slim::SlimTensor& order);
Error pool(const aoti::PoolingCall& call);
Error multinomial(const aoti::MultinomialCall& call);
Error product(const aoti::ProductCall& call);
Error random_integers(const aoti::RandomIntegersCall& call);
Error random_permutation(const aoti::PermutationCall& call);
Error range(const aoti::RangeCall& call);
Error scan(const aoti::ScanCall& call);
Error search(const aoti::SearchCall& call);
Error select(const aoti::SelectCall& call);
Error sort(const aoti::SortCall& call);

}  // namespace pteron::cpu
