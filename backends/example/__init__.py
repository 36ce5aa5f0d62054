"""Small working backends as examples."""
