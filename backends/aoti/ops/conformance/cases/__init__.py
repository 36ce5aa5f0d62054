"""Cases of the operators' conformance suite, a module for each family."""
