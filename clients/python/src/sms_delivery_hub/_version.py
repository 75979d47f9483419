"""The version of this package, for its metadata and the User-Agent header. A test compares it with that of the hub."""

__version__ = "0.4.0"
