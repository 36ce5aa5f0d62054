// An alias for a shim: torch's name for it.
//
//   PTERON_TORCH_NAME(get_dim)
//
// defines aoti_torch_get_dim, which jumps to ptrn_torch_get_dim. Registers and stack are unchanged,
// so no signature is needed. A name without a shim is a link error. For the sources named
// torch_named_shims.cpp.
#pragma once

#if defined(__x86_64__)
// The first instruction is a valid target of indirect calls (BTI, IBT).
#define PTERON_JUMP_TO(symbol) "  endbr64\n  jmp " symbol "@PLT\n"
#elif defined(__aarch64__)
#define PTERON_JUMP_TO(symbol) "  hint #34\n  b " symbol "\n"  // bti c
#else
#error "no jump for this processor: add it to PTERON_JUMP_TO"
#endif

// `name` is what follows "aoti_torch_".
#define PTERON_TORCH_NAME(name) \
  __asm__(                                    \
      ".pushsection .text\n"                  \
      ".p2align 4\n"                          \
      ".globl aoti_torch_" #name              \
      "\n"                                    \
      ".type aoti_torch_" #name               \
      ", %function\n"                         \
      "aoti_torch_" #name                     \
      ":\n"                                   \
      "  .cfi_startproc\n"                    \
      PTERON_JUMP_TO("ptrn_torch_" #name)     \
      "  .cfi_endproc\n"                      \
      ".size aoti_torch_" #name               \
      ", .-aoti_torch_" #name                 \
      "\n"                                    \
      ".popsection\n");
