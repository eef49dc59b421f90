//! What Kubernetes is, without I/O: schema, codecs, metadata, selectors, patches.
