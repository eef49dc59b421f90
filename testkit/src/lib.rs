//! A whole Corten for tests: starts servers, speaks to them, ends them.
