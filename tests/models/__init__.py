"""The models that Pteron is tested and measured with: real shapes, seeded random weights."""
