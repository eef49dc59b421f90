//! `autoscaling`.

pub(crate) mod horizontalpodautoscalers;
