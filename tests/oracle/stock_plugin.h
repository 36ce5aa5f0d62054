// Our backends inside the stock ExecuTorch runtime.
//
//   // Python: import executorch.runtime; plugin = ctypes.CDLL("libstock_plugin.so")
//   plugin.plug_in(b"libblas_backend.so", b"BlasBackend")
//
// Opens the backend's library, which registers it with our runtime, and registers a stock backend
// of the same id that passes init, execute and destroy on. Tensors are passed as views, nothing is
// copied.
#pragma once

extern "C" {

// Returns 0, or the number of an error (pteron::Error::Code) after printing what is wrong. The
// library stays open. Not thread-safe, as the stock registry is not.
int plug_in(const char* library, const char* backend_id);
}
