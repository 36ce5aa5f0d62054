"""Developer tools of the repository."""
