/* The C API of libpteron.so, for C and for languages that call C.
 *
 *   pteron_module* module = NULL;
 *   const int64_t sizes[] = {1, 4};
 *   float data[4] = {1, 2, 3, 4};
 *   const pteron_value x = {.kind = PTERON_KIND_TENSOR, .dtype = PTERON_FLOAT32, .rank = 2,
 *                           .sizes = sizes, .data = data, .nbytes = sizeof data};
 *   pteron_value y;
 *   if (pteron_load("model.pte", NULL, &module) != 0 ||
 *       pteron_execute(module, "forward", &x, 1, NULL) != 0 ||
 *       pteron_output(module, "forward", 0, &y) != 0)
 *     fprintf(stderr, "%s\n", pteron_last_error());
 *   else
 *     fwrite(y.data, 1, y.nbytes, stdout);
 *   pteron_free(module);
 *
 * Errors: a function that can fail returns a pteron_status, 0 for success; then pteron_last_error()
 * says what was found, what was expected and what to try. Null pointers, unknown enumerators, and
 * sizes that do not fit are errors. A failed call changes no output argument and leaves the module
 * usable. Not detectable: a pointer to freed or wrong memory. No C++ exception leaves a function.
 *
 * Ownership: a module belongs to the caller until pteron_free(). Arguments are borrowed for the
 * call, inputs until the method is executed again or freed (memory of unplanned inputs is used
 * in place). Names and sizes in a pteron_info belong to the module; outputs belong to it and are
 * valid until the method runs again.
 *
 * Threads: a module is used by one thread at a time, except pteron_cancel(). For another thread,
 * pteron_clone() makes a module that shares code and weights and has its own state.
 *
 * Versions: functions, structures and values stay as they are while PTERON_ABI_VERSION stays; new
 * functions may be added. A caller that loads the library at run time compares it with
 * pteron_abi_version(). Set structures to zero before their fields.
 */
#ifndef PTERON_RUNTIME_PTERON_H_
#define PTERON_RUNTIME_PTERON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTERON_ABI_VERSION 1

uint32_t pteron_abi_version(void);
/* "0.2.0". */
const char* pteron_version(void);

/* A code of runtime/core/error.h, 0 for success. */
typedef uint32_t pteron_status;
/* "InvalidArgument"; "Unknown" for other numbers. Never NULL. */
const char* pteron_status_name(pteron_status status);
/* The message of this thread's last failed call, UTF-8; "" if none failed. Valid until a further
 * call fails on this thread. Never NULL. */
const char* pteron_last_error(void);

typedef struct pteron_module pteron_module;

/* Numbers are those of torch's ScalarType. */
typedef int32_t pteron_dtype;
enum {
  PTERON_UINT8 = 0,
  PTERON_INT8 = 1,
  PTERON_INT16 = 2,
  PTERON_INT32 = 3,
  PTERON_INT64 = 4,
  PTERON_FLOAT16 = 5,
  PTERON_FLOAT32 = 6,
  PTERON_FLOAT64 = 7,
  PTERON_COMPLEX64 = 9,   /* real and imaginary part, two float32 */
  PTERON_COMPLEX128 = 10, /* two float64 */
  PTERON_BOOL = 11,       /* one byte, 0 or 1 */
  PTERON_BFLOAT16 = 15,
  PTERON_FLOAT8_E5M2 = 23,
  PTERON_FLOAT8_E4M3FN = 24,
  PTERON_UINT16 = 27,
  PTERON_UINT32 = 28,
  PTERON_UINT64 = 29,
};
/* "float32"; "unknown" for other numbers. Never NULL. */
const char* pteron_dtype_name(pteron_dtype dtype);
/* Bytes of an element; 0 for other numbers. */
size_t pteron_dtype_size(pteron_dtype dtype);

typedef int32_t pteron_kind;
enum {
  PTERON_KIND_NONE = 0,
  PTERON_KIND_INT = 1,
  PTERON_KIND_DOUBLE = 2,
  PTERON_KIND_BOOL = 3,
  PTERON_KIND_TENSOR = 4,
  PTERON_KIND_STRING = 5,
  PTERON_KIND_LIST = 6, /* only in a pteron_info and an output; see pteron_output_item() */
};

enum { PTERON_DEVICE_CPU = 0, PTERON_DEVICE_CUDA = 1 };

/* An input or an output. Fields that the kind does not name are ignored in inputs, 0 in outputs. */
typedef struct pteron_value {
  pteron_kind kind;
  pteron_dtype dtype;   /* of a tensor */
  int32_t device_type;  /* of a tensor's memory */
  int32_t device_index; /* 0 for the CPU */
  int64_t integer;      /* an int or a bool */
  double number;        /* a double */
  const int64_t* sizes; /* of a tensor: `rank` sizes, in elements */
  size_t rank;          /* at most 16 */
  /* Of a tensor: `rank` dimensions, outermost first, a permutation of 0 to rank - 1. NULL in an
   * input: row-major. Must be the one in pteron_info. */
  const uint8_t* dim_order;
  /* Of a tensor: its elements, without gaps. Of a string: UTF-8, no final zero. A method that
   * changes its argument in place writes to an input's `data`. */
  const void* data;
  size_t nbytes;     /* of `data`; of an input tensor exactly the bytes of its elements */
  uint64_t reserved; /* 0 */
} pteron_value;

/* What a method expects or returns. */
typedef struct pteron_info {
  const char* name; /* of the module's argument, or the output's key; may be "" */
  pteron_kind kind;
  pteron_dtype dtype;
  int32_t device_type;
  int32_t device_index;
  const int64_t* sizes;     /* `rank` upper bounds */
  const uint8_t* dim_order; /* `rank` dimensions, outermost first */
  size_t rank;
  size_t nbytes;   /* of the upper bounds */
  int32_t dynamic; /* 1 if sizes may be smaller */
  int32_t padding;
  uint64_t reserved;
} pteron_info;

/* Zero everywhere, or a null pointer: the default. */
typedef struct pteron_load_options {
  const char* const* data_paths; /* .ptd files */
  size_t data_paths_size;
  const char* const* allowed_backends; /* ids; used if restrict_backends is 1. See SECURITY.md. */
  size_t allowed_backends_size;
  int32_t restrict_backends;
  int32_t verify_digests; /* 1: digests of all segments, which reads the whole file; 2: they must be
                             there, for every byte of all files (Verification::Required) */
  uint64_t planned_bytes; /* limits, of runtime/core/limits.h; 0: the default */
  uint64_t load_bytes;
  uint64_t instructions;
  double run_time; /* in seconds */
  uint64_t reserved;
} pteron_load_options;

typedef struct pteron_execute_options {
  double timeout; /* in seconds; 0: none */
  uint64_t reserved;
} pteron_execute_options;

/* Opens a program file, which is mapped: it must not change while a module uses it. */
pteron_status pteron_load(const char* path, const pteron_load_options* options,
                          pteron_module** module);
/* The same from memory, which is copied. */
pteron_status pteron_load_bytes(const void* bytes, size_t nbytes,
                                const pteron_load_options* options, pteron_module** module);
/* A module over the same program, with its own state and nothing loaded. May be called while
 * another thread executes `module`. */
pteron_status pteron_clone(const pteron_module* module, pteron_module** clone);
/* NULL is allowed. */
void pteron_free(pteron_module* module);

/* NULL if there is no such method, or no module. Methods are counted from 0, in file order. */
const char* pteron_method_name(const pteron_module* module, size_t index);

/* Loads a method, which pteron_execute() does otherwise. */
pteron_status pteron_load_method(pteron_module* module, const char* method);

pteron_status pteron_sizes(pteron_module* module, const char* method, size_t* inputs,
                           size_t* outputs);
pteron_status pteron_input_info(pteron_module* module, const char* method, size_t index,
                                pteron_info* info);
pteron_status pteron_output_info(pteron_module* module, const char* method, size_t index,
                                 pteron_info* info);

/* Runs a method on inputs in order. */
pteron_status pteron_execute(pteron_module* module, const char* method, const pteron_value* inputs,
                             size_t inputs_size, const pteron_execute_options* options);
/* An output of the method's last run. InvalidState: it has not run, or its last run failed. */
pteron_status pteron_output(pteron_module* module, const char* method, size_t index,
                            pteron_value* output);

/* The number of items of an output of kind PTERON_KIND_LIST, and an item: a tensor, an int, a double
 * or a bool, or none. Otherwise as pteron_output(). InvalidType: the output is no list. */
pteron_status pteron_output_size(pteron_module* module, const char* method, size_t index,
                                 size_t* items);
pteron_status pteron_output_item(pteron_module* module, const char* method, size_t index,
                                 size_t item, pteron_value* value);
/* Makes later runs write an output, a tensor, to `data`: memory of the caller on the output's device,
 * of at least the `nbytes` of its pteron_info, which stays valid until it is set again or the module
 * is freed. Loads the method; what its last run returned is no longer known. InvalidState: the method
 * has its own memory for the output, which must be copied. */
pteron_status pteron_set_output(pteron_module* module, const char* method, size_t index, void* data,
                                size_t nbytes);

/* Ends the method's run with status Cancelled. From any thread while the module exists; waits while
 * a method is loaded. `cancelled` (may be NULL) is set to 1, or to 0 if it was not running. */
pteron_status pteron_cancel(pteron_module* module, const char* method, int32_t* cancelled);
/* Resets the state (a KV cache) of all methods to its initial value. */
pteron_status pteron_reset_state(pteron_module* module);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PTERON_RUNTIME_PTERON_H_ */
