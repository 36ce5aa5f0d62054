"""What a release of torch does to lowering."""
