//! Tests of the autoscaler.

mod behaviors;
mod calculations;
mod reports;
mod scene;
