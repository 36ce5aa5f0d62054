/* Signatures in the C API (runtime/pteron.h), in a library of its own, which links a crypto library.
 *
 *   const char* keys[] = {pem};   // contents of pub.pem
 *   const pteron_load_policy policy = {.trusted_keys = keys, .trusted_keys_size = 1};
 *   pteron_module* module = NULL;
 *   if (pteron_load_trusted("model.pte", NULL, &policy, &module) != 0)
 *     fprintf(stderr, "%s\n", pteron_last_error());
 *
 * Errors, ownership and threads are as in pteron.h.
 */
#ifndef PTERON_RUNTIME_TRUST_PTERON_TRUST_H_
#define PTERON_RUNTIME_TRUST_PTERON_TRUST_H_

#include "pteron/runtime/pteron.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set it to zero before its fields; see LoadPolicy in load_policy.h. */
typedef struct pteron_load_policy {
  const char* const* trusted_keys; /* public keys in PEM (text, not paths); one is enough */
  size_t trusted_keys_size;
  uint64_t minimum_version; /* of the signature */
  int32_t allow_unsigned;   /* 1: a program without a signature is loaded, unverified */
  int32_t padding;
  uint64_t reserved;
} pteron_load_policy;

/* pteron_load() of what the policy takes: a program whose signature, beside it in
 * `path`.intoto.json, is by a trusted key. AccessFailed says what it refuses, before any code of the
 * program is opened. */
pteron_status pteron_load_trusted(const char* path, const pteron_load_options* options,
                                  const pteron_load_policy* policy, pteron_module** module);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PTERON_RUNTIME_TRUST_PTERON_TRUST_H_ */
