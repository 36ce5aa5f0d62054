"""Graph passes for the CPU."""
