// Takes from a process what computing does not need, before it runs code that is not trusted.
//
//   if (fork() == 0) {
//     ...   // open what is needed, close all other descriptors
//     PTERON_RETURN_IF_ERROR(isolate(1 << 30));
//     ...   // results go to a pipe
//   }
//
// A process whose code makes a forbidden system call ends with SIGSYS. What is left: computing,
// memory, threads, clocks, descriptors that are open, code from memory (memfd), and whether a path
// exists.
#pragma once

#include <cstdint>

#include "pteron/runtime/core/error.h"

namespace pteron {

// For good, and for all threads that this one starts afterwards; call it while there is no other.
// No file, folder or device can be opened but what describes the processors; nothing is sent over a
// network; no process is started, signalled or examined. At most `nbytes` more of address space, and
// of files in memory together. NotSupported: not Linux 5.13 or newer with Landlock and seccomp; the
// process may then have lost part of its rights.
Error isolate(uint64_t nbytes);

}  // namespace pteron
