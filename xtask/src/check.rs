//! Checks on the repository itself.

mod layers;
mod text;

use crate::process;

pub(crate) fn all() -> anyhow::Result<()> {
    layers::check()?;
    text::check()?;
    process::cargo(&["fmt", "--all", "--check"])
}
