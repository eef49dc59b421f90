//! Checks on the repository itself.

mod crate_list;
mod fuzz;
mod language;
mod layers;
mod modes;
mod paths;
mod text;

use crate::process;

pub(crate) fn all() -> anyhow::Result<()> {
    fuzz::check()?;
    layers::check()?;
    crate_list::check()?;
    language::check()?;
    modes::check()?;
    paths::check()?;
    text::check()?;
    process::cargo(&["fmt", "--all", "--check"])
}
