//! The native runtime with real containers. Needs root, and Debian's `busybox-static`.

mod lifecycle;
mod security;
mod streams;
mod support;
