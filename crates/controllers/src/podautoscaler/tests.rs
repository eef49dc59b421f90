//! What autoscalers make of metrics, step by step.

mod behaviors;
mod calculations;
mod reports;
mod scene;
