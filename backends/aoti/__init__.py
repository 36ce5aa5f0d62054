"""What all backends share that compile with AOTInductor and run without libtorch."""
