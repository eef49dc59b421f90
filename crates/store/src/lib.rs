//! The revisioned store: bytes under keys, revisions, compare-and-set, watch, leases.
