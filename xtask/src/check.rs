//! Checks on the repository itself.

mod layers;
mod paths;
mod text;

use crate::process;

pub(crate) fn all() -> anyhow::Result<()> {
    layers::check()?;
    paths::check()?;
    text::check()?;
    process::cargo(&["fmt", "--all", "--check"])
}
