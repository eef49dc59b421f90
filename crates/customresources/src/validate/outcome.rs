//! The errors of a validation, and paths in the notation of upstream's library.
//!
//! Invariant: paths and messages are formatted only for errors, so a valid object costs no allocation.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use corten_api::status::{ErrorList, FieldError, FieldErrorKind, quoted, shown};
use corten_api::{Value, go};

/// A path to a value: `spec.list[0].name`. An unnamed field of the root begins with a dot.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Property(&'p str),
    Unnamed(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(super) fn property<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Property(name) }
    }

    pub(super) fn unnamed<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Unnamed(name) }
    }

    pub(super) fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Property(name) if out.is_empty() => out.push_str(name),
            Step::Property(name) | Step::Unnamed(name) => {
                out.push('.');
                out.push_str(name);
            }
            // Cannot fail: the target is a string.
            Step::Index(index) => drop(write!(out, "[{index}]")),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

/// The errors of a value and of its parts.
pub(super) struct Outcome<'e> {
    pub(super) errors: ErrorList,
    /// The path of the root; empty for an object.
    pub(super) prefix: &'e str,
    /// True for defaults: upstream does not restrict their type where an integer or a string is expected.
    pub(super) is_default: bool,
    /// True for defaults below a junctor, where upstream does not restrict unnamed fields.
    pub(super) is_nested_default: bool,
    /// The number of satisfied checks: of failing branches of a junctor, the one with the most is reported.
    pub(super) matches: usize,
    /// True if a value with errors is known to differ from its old value.
    pub(super) is_changed: bool,
    /// Counts errors that were listed before as well.
    found: usize,
    seen: HashSet<u64>,
    /// The identities of `errors`.
    listed: Vec<u64>,
}

/// A state to return to.
pub(super) struct Mark {
    errors: usize,
    found: usize,
}

impl<'e> Outcome<'e> {
    pub(super) fn new(prefix: &'e str) -> Outcome<'e> {
        Outcome {
            errors: ErrorList::new(),
            prefix,
            is_default: false,
            is_nested_default: false,
            matches: 0,
            is_changed: false,
            found: 0,
            seen: HashSet::new(),
            listed: Vec::new(),
        }
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.found > 0
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { errors: self.errors.0.len(), found: self.found }
    }

    pub(super) fn has_errors_since(&self, mark: &Mark) -> bool {
        self.found > mark.found
    }

    #[expect(clippy::needless_pass_by_value, reason = "a mark is used once")]
    pub(super) fn forget_errors_since(&mut self, mark: Mark) {
        self.errors.0.truncate(mark.errors);
        for identity in self.listed.drain(mark.errors..) {
            self.seen.remove(&identity);
        }
        self.found = mark.found;
    }

    /// Adds the errors of a branch.
    pub(super) fn merge(&mut self, other: Outcome<'_>) {
        self.matches += other.matches;
        self.found += other.found;
        for (error, identity) in other.errors.0.into_iter().zip(other.listed) {
            self.list(error, identity);
        }
    }

    fn list(&mut self, error: FieldError, identity: u64) {
        if !self.errors.is_full() && self.seen.insert(identity) {
            self.errors.add(error);
            self.listed.push(identity);
        }
    }

    fn push(
        &mut self,
        kind: FieldErrorKind,
        path: &Path<'_>,
        made: impl FnOnce(&str) -> (Option<String>, String),
    ) {
        self.found += 1;
        if self.errors.is_full() {
            return;
        }
        let name = path.to_string();
        let (bad_value, detail) = made(&name);
        let identity = identity(kind, &name, &detail);
        let field = self.field(&name);
        self.list(FieldError { kind, field, bad_value, detail }, identity);
    }

    /// The field of an error by the name that the value has in messages.
    fn field(&self, name: &str) -> String {
        match (self.prefix, name.strip_prefix('.').unwrap_or(name)) {
            ("", "") => "<nil>".to_owned(),
            (prefix, "") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        }
    }

    /// An error whose message names the value and says what is wrong with it.
    pub(super) fn invalid(&mut self, path: &Path<'_>, shown: String, why: &str) {
        self.push(FieldErrorKind::Invalid, path, |name| (Some(shown), format!("{name} in body {why}")));
    }

    /// An error whose message does not begin with the name of the value.
    pub(super) fn invalid_text(&mut self, path: &Path<'_>, shown: String, text: impl Fn(&str) -> String) {
        self.push(FieldErrorKind::Invalid, path, |name| (Some(shown), text(name)));
    }

    /// An error of the object as a whole, which names the value only in its message.
    pub(super) fn unplaced(&mut self, path: &Path<'_>, text: impl Fn(&str) -> String) {
        self.found += 1;
        if self.errors.is_full() {
            return;
        }
        let detail = text(&path.to_string());
        let identity = identity(FieldErrorKind::Invalid, "", &detail);
        let (field, bad_value) = (self.field(""), Some(quoted("")));
        self.list(FieldError { kind: FieldErrorKind::Invalid, field, bad_value, detail }, identity);
    }

    /// An error of a junctor.
    pub(super) fn composite(&mut self, path: &Path<'_>, why: &str) {
        self.unplaced(path, |name| format!("{} {why}", quoted(name)));
    }

    pub(super) fn wrong_type(&mut self, path: &Path<'_>, expected: &str, found: &str) {
        self.push(FieldErrorKind::TypeInvalid, path, |name| {
            let found = quoted(found);
            (Some(found.clone()), format!("{name} in body must be of type {expected}: {found}"))
        });
    }

    pub(super) fn wrong_format(&mut self, path: &Path<'_>, format: &str, text: &str) {
        self.wrong_type(path, format, text);
    }

    pub(super) fn required(&mut self, path: &Path<'_>) {
        self.push(FieldErrorKind::Required, path, |_| (None, String::new()));
    }

    pub(super) fn too_long(&mut self, path: &Path<'_>, most: i64) {
        let why = match most {
            1 => "may not be more than 1 byte".to_owned(),
            0.. => format!("may not be more than {most} bytes"),
            _ => "value is too long".to_owned(),
        };
        self.push(FieldErrorKind::TooLong, path, |_| (None, why));
    }

    pub(super) fn too_many(&mut self, path: &Path<'_>, actual: usize, most: i64) {
        let why = match most {
            1 => "must have at most 1 item".to_owned(),
            0.. => format!("must have at most {most} items"),
            _ => "has too many items".to_owned(),
        };
        self.push(FieldErrorKind::TooMany, path, |_| (Some(actual.to_string()), why));
    }

    pub(super) fn forbidden_property(&mut self, path: &Path<'_>, key: &str) {
        self.push(FieldErrorKind::Invalid, path, |name| {
            (Some(quoted(key)), format!("{name}.{key} in body is a forbidden property"))
        });
    }

    pub(super) fn not_supported(&mut self, path: &Path<'_>, value: &Value, allowed: &[Value]) {
        self.push(FieldErrorKind::NotSupported, path, |_| {
            let text = |allowed: &Value| match allowed {
                Value::String(text) => quoted(text),
                other => quoted(&go::json(other)),
            };
            let allowed: Vec<String> = allowed.iter().map(text).collect();
            (Some(shown(value)), format!("supported values: {}", allowed.join(", ")))
        });
    }
}

/// Errors with the same message are listed once.
fn identity(kind: FieldErrorKind, name: &str, detail: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (std::mem::discriminant(&kind), name, detail).hash(&mut hasher);
    hasher.finish()
}
