//! Paths to fields as error messages write them: `spec.containers[0].ports[1].name`, `metadata.labels[a/b]`.
//!
//! A path is a chain of steps on the stack, formatted only when there is an error to report:
//! walking a valid object allocates nothing.

use std::fmt;

/// One step, and the steps that lead to it.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    parent: Option<&'a Field<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// The object itself, which has no name.
    Root,
    Member(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Field<'a> {
    /// The path of the object as a whole.
    pub const ROOT: Field<'static> = Field { parent: None, step: Step::Root };

    /// A field of the object itself.
    pub const fn new(name: &'a str) -> Field<'a> {
        Field { parent: None, step: Step::Member(name) }
    }

    /// A field of the value at this path.
    pub const fn child<'b>(&'b self, name: &'b str) -> Field<'b> {
        Field { parent: Some(self), step: Step::Member(name) }
    }

    /// An item of the list at this path.
    pub const fn index(&self, index: usize) -> Field<'_> {
        Field { parent: Some(self), step: Step::Index(index) }
    }

    /// An entry of the map at this path.
    pub const fn key<'b>(&'b self, key: &'b str) -> Field<'b> {
        Field { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rooted = match self.parent {
            Some(parent) => {
                parent.fmt(f)?;
                matches!(parent.step, Step::Root)
            }
            None => true,
        };
        match self.step {
            Step::Root => Ok(()),
            Step::Member(name) if rooted => f.write_str(name),
            Step::Member(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl From<Field<'_>> for String {
    fn from(field: Field<'_>) -> String {
        field.to_string()
    }
}

impl From<&Field<'_>> for String {
    fn from(field: &Field<'_>) -> String {
        field.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_words() {
        let spec = Field::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        assert_eq!(first.child("name").to_string(), "spec.containers[0].name");
        let metadata = Field::ROOT.child("metadata");
        assert_eq!(metadata.child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(Field::ROOT.to_string(), "");
    }
}
