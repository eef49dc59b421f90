//! Benchmarks: the load that corten bench puts on a server.
