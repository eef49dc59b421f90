//! The API server: filters, verbs, watch cache, discovery.
