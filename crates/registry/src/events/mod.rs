//! `events.k8s.io`.

pub(crate) mod events;
