"""Where repository rules keep what outlives one checkout."""

def cache_directory(repository_ctx):
    """The project's directory in the user's cache: $XDG_CACHE_HOME/pteron or ~/.cache/pteron.

    Args:
        repository_ctx: context of the repository rule that asks.

    Returns:
        an absolute path as a string; the directory may not exist yet.
    """
    base = repository_ctx.getenv("XDG_CACHE_HOME")
    if base:
        return base + "/pteron"
    home = repository_ctx.getenv("HOME")
    if not home:
        fail("Neither HOME nor XDG_CACHE_HOME is set, so there is no user cache to keep wheels " +
             "in. Set HOME (or XDG_CACHE_HOME) to a writable directory.")
    return home + "/.cache/pteron"

def wheel_store(repository_ctx):
    """The directory that holds installed wheels: $PTERON_WHEEL_STORE or one in the user's cache.

    Args:
        repository_ctx: context of the repository rule that asks.

    Returns:
        an absolute path as a string; the directory may not exist yet.
    """
    return repository_ctx.getenv("PTERON_WHEEL_STORE") or cache_directory(repository_ctx) + "/wheels"
