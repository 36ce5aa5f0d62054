"""Tests of exir, and what they share: backends in Python and an interpreter of program files."""
