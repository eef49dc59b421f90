//! The function behind the macros that build maps. Only macros can call it; the evaluator implements it.

use crate::declare::{Declaration, Implementation, Library};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    Declaration::new(
        "cel.@mapInsert",
        "@mapInsert_map_key_value",
        "(map(K, V), K, V) map(K, V)",
        Implementation::Special,
    ),
    Declaration::new(
        "cel.@mapInsert",
        "@mapInsert_map_map",
        "(map(K, V), map(K, V)) map(K, V)",
        Implementation::Special,
    ),
];
