//! The native runtime with real containers. Needs root, and Debian's `busybox-static`.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod handlers;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod security;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod version2;
