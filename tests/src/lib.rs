//! End to end: the real binary and real clients.
