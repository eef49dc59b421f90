//! The layout of one inflated block, shared by the build script that writes it and the crate that reads it.
//!
//! A block is a sequence of records in ascending order of (type, field). A record is
//!
//! ```text
//! type UNIT_END field UNIT_END description RECORD_END
//! ```
//!
//! where `type` has no group prefix, and `field` is empty in the record of the type itself.
//!
//! Invariant: none of the three parts contains a control character other than newline and tab, so the two
//! separators need no escaping. The build script checks this.

pub(crate) const UNIT_END: char = '\u{1f}';
pub(crate) const RECORD_END: char = '\u{1e}';
