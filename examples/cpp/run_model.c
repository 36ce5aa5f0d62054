/* Runs the method "forward" of a program on tensors of zeros and prints the outputs' first elements.
 *
 *   tools/bazel run //examples/cpp:run_model_c -- $PWD/model.pte
 *
 * With the SDK, without Bazel: CMakeLists.txt, or
 *
 *   cc run_model.c $(pkg-config --cflags --libs pteron)
 */
#include <stdio.h>
#include <stdlib.h>

#include "pteron/runtime/pteron.h"

static void print_output(const pteron_value* y) {
  printf("%s[", pteron_dtype_name(y->dtype));
  for (size_t i = 0; i < y->rank; ++i) printf(i ? ", %lld" : "%lld", (long long)y->sizes[i]);
  printf("]");
  if (y->dtype == PTERON_FLOAT32) {
    const size_t count = y->nbytes / sizeof(float);
    printf(":");
    for (size_t i = 0; i < count && i < 8; ++i) printf(" %g", ((const float*)y->data)[i]);
  }
  printf("\n");
}

/* Inputs of the largest sizes that the method takes. */
static pteron_status run(pteron_module* module, pteron_value* inputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    pteron_info info;
    const pteron_status status = pteron_input_info(module, "forward", i, &info);
    if (status) return status;
    inputs[i].kind = info.kind;
    inputs[i].dtype = info.dtype;
    inputs[i].sizes = info.sizes;
    inputs[i].rank = info.rank;
    inputs[i].dim_order = info.dim_order;
    inputs[i].data = calloc(info.nbytes + 1, 1);
    inputs[i].nbytes = info.nbytes;
  }
  return pteron_execute(module, "forward", inputs, count, NULL);
}

int main(int argc, char** argv) {
  pteron_module* module = NULL;
  pteron_value* inputs = NULL;
  size_t inputs_size = 0, outputs_size = 0;
  pteron_status status = pteron_load(argc > 1 ? argv[1] : "model.pte", NULL, &module);
  if (!status) status = pteron_sizes(module, "forward", &inputs_size, &outputs_size);
  if (!status) {
    inputs = calloc(inputs_size + 1, sizeof *inputs);
    status = inputs ? run(module, inputs, inputs_size) : 1;
  }
  for (size_t i = 0; !status && i < outputs_size; ++i) {
    pteron_value y;
    status = pteron_output(module, "forward", i, &y);
    if (!status) print_output(&y);
  }
  if (status) fprintf(stderr, "%s: %s\n", pteron_status_name(status), pteron_last_error());
  for (size_t i = 0; inputs && i < inputs_size; ++i) free((void*)inputs[i].data);
  free(inputs);
  pteron_free(module);
  return status ? 1 : 0;
}
