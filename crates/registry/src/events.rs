//! `events.k8s.io`.

#[expect(clippy::module_inception, reason = "a resource's file is named after it")]
pub(crate) mod events;
