"""Style: `tools/bazel run //tools/lint:format`, and the test `//tools/lint:check`."""
