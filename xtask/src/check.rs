//! Checks on the repository itself.

mod layers;
mod modes;
mod paths;
mod text;

use crate::process;

pub(crate) fn all() -> anyhow::Result<()> {
    layers::check()?;
    modes::check()?;
    paths::check()?;
    text::check()?;
    process::cargo(&["fmt", "--all", "--check"])
}
