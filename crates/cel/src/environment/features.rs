//! The features of upstream's base environment, and the versions that they came with.

use std::sync::{Arc, LazyLock};

use super::{Environment, Shared};
use crate::declare::{Declaration, Functions, Library};
use crate::library;
use crate::parser::{self, Macro, OPTIONAL, SORT_BY, STANDARD, TWO_VARIABLES};
use crate::types::Type;
use crate::validate::Validators;

/// A minor version of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

/// A part of the base environment.
pub struct Feature {
    introduced: Version,
    removed: Option<Version>,
    contents: Contents,
}

enum Contents {
    Library(Library),
    Functions(&'static [&'static [Declaration]]),
    Macros(&'static [Macro]),
    OptionalSyntax,
    CrossTypeComparisons,
    LiteralValidators,
    FormatValidator,
    KeywordFields,
}

impl Feature {
    const fn since(version: u32, contents: Contents) -> Feature {
        Feature { introduced: Version(version), removed: None, contents }
    }

    const fn until(version: u32, contents: Contents) -> Feature {
        Feature { introduced: Version(0), removed: Some(Version(version)), contents }
    }

    /// True for new expressions at a compatibility version.
    pub fn enabled_at(&self, version: Version) -> bool {
        self.introduced <= version && self.removed.is_none_or(|removed| version < removed)
    }

    /// True for stored expressions.
    pub fn enabled_now(&self) -> bool {
        self.removed.is_none()
    }
}

/// Features in upstream's order.
const FEATURES: &[Feature] = &[
    Feature::since(0, Contents::Library(library::standard::LIBRARY)),
    Feature::since(0, Contents::Functions(&library::standard::TABLES)),
    Feature::since(0, Contents::Macros(STANDARD)),
    Feature::since(0, Contents::Library(library::url::LIBRARY)),
    Feature::since(0, Contents::Library(library::regex::LIBRARY)),
    Feature::since(0, Contents::Library(library::lists::LIBRARY)),
    Feature::since(27, Contents::Library(library::authz::LIBRARY)),
    Feature::since(28, Contents::CrossTypeComparisons),
    Feature::since(28, Contents::OptionalSyntax),
    Feature::since(28, Contents::Macros(OPTIONAL)),
    Feature::since(28, Contents::Library(library::optional::LIBRARY)),
    Feature::since(28, Contents::Library(library::quantity::LIBRARY)),
    Feature::since(29, Contents::LiteralValidators),
    Feature::until(29, Contents::Library(library::strings::OLD_LIBRARY)),
    Feature::since(29, Contents::Library(library::strings::LIBRARY)),
    Feature::since(29, Contents::FormatValidator),
    Feature::since(29, Contents::Library(library::sets::LIBRARY)),
    Feature::since(30, Contents::Library(library::ip::LIBRARY)),
    Feature::since(30, Contents::Library(library::cidr::LIBRARY)),
    Feature::since(31, Contents::Library(library::format::LIBRARY)),
    Feature::since(31, Contents::Library(library::authz::SELECTORS)),
    Feature::since(31, Contents::KeywordFields),
    Feature::since(32, Contents::Macros(TWO_VARIABLES)),
    Feature::since(32, Contents::Library(library::comprehensions::LIBRARY)),
    Feature::since(33, Contents::Library(library::semver::LIBRARY)),
    Feature::since(34, Contents::Library(library::ext_lists::LIBRARY)),
    Feature::since(34, Contents::Macros(SORT_BY)),
    Feature::since(37, Contents::Library(library::lists::INCLUDES)),
];

static STORED: LazyLock<Environment> = LazyLock::new(|| build(&Feature::enabled_now));

pub(super) fn environment(enabled: impl Fn(&Feature) -> bool) -> Environment {
    // Most servers are at a version with all features.
    match FEATURES.iter().all(|feature| enabled(feature) == feature.enabled_now()) {
        true => STORED.clone(),
        false => build(&enabled),
    }
}

fn build(enabled: &dyn Fn(&Feature) -> bool) -> Environment {
    let mut shared = Shared {
        functions: Functions::default(),
        types: Vec::new(),
        structs: Vec::new(),
        parser: parser::Options::default(),
        cross_type_comparisons: false,
        validators: Validators { mixed: true, literals: false, formats: false },
        keyword_fields: false,
        patch_types: false,
    };
    for feature in FEATURES.iter().filter(|feature| enabled(feature)) {
        match &feature.contents {
            Contents::Library(library) => {
                shared.functions.add(library.declarations);
                shared.types.extend(library.types.iter().map(|name| (type_name(name), Type::parse(name))));
            }
            Contents::Functions(tables) => tables.iter().for_each(|table| shared.functions.add(table)),
            Contents::Macros(macros) => shared.parser.macros.extend_from_slice(macros),
            Contents::OptionalSyntax => shared.parser.optional_syntax = true,
            Contents::CrossTypeComparisons => shared.cross_type_comparisons = true,
            Contents::LiteralValidators => shared.validators.literals = true,
            Contents::FormatValidator => shared.validators.formats = true,
            Contents::KeywordFields => shared.keyword_fields = true,
        }
    }
    Environment { shared: Arc::new(shared), variables: Arc::new([]), record: None }
}

/// The name by which expressions refer to a type of a table, such as `list` for `list(A)`.
fn type_name(text: &'static str) -> &'static str {
    text.split_once('(').map_or(text, |(name, _)| name)
}
