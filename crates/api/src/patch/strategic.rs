//! Strategic merge patch: a merge patch with lists that merge by a key of the schema,
//! and with directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`).
//!
//! Fields that the schema does not have are copied unchanged. Directives are removed from merged values,
//! but not from values that replace others as a whole: conforming prunes those. Members are merged in order
//! of their names, so that deletions from a list come before additions to it.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::lists::{self, Items};
use super::{go_type, shown, shown_list};
use crate::by_content::{ByContent, set_of};
use crate::schema::{AnyForm, Field, Kind, Struct};
use crate::status::{Status, quoted};
use crate::value::{Map, Str, Value};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("invalid patch format of primitive list")]
    PrimitiveListFormat,
    #[error("invalid patch format of retainKeys")]
    RetainKeysFormat,
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrderFormat,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey { map: String, key: String },
    #[error("expected a {expected}, but received a {found}")]
    BadType { expected: &'static str, found: &'static str },
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective { directive: String, map: String },
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    #[error("list element types are not identical: {0}")]
    MixedElements(String),
    #[error("no elements in any of the given slices")]
    NoElements,
    #[error("cannot merge lists without merge key for {0}")]
    UndeclaredMergeKey(&'static str),
    #[error("value for key {0} is not a map")]
    ItemIsNoMap(usize),
    #[error("The order in patch list:\n{patch}\n doesn't match {SET_ELEMENT_ORDER} list:\n{order}\n")]
    OrderMismatch { patch: String, order: String },
    #[error("unable to find api field in struct {owner} for the json field {field}")]
    UnknownField { owner: String, field: String },
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    #[error("unexpected slice of slice")]
    SliceOfSlice,
}

impl Error {
    /// The server's response: in upstream only the format of directives is the client's mistake.
    pub fn to_status(&self) -> Status {
        match self {
            Error::PrimitiveListFormat | Error::RetainKeysFormat | Error::SetElementOrderFormat => {
                Status::bad_request(self.to_string())
            }
            Error::ListOfLists => Status::unprocessable(),
            _ => Status::unclassified(self.to_string()),
        }
    }

    pub(super) fn no_merge_key(map: &Map, key: &str) -> Error {
        Error::NoMergeKey { map: shown(&Value::Object(map.clone())), key: key.to_owned() }
    }

    pub(super) fn expected_map(found: &Value) -> Error {
        Error::BadType { expected: "map[string]interface {}", found: go_type(found) }
    }

    pub(super) fn expected_list(found: &Value) -> Error {
        Error::BadType { expected: "[]interface {}", found: go_type(found) }
    }
}

/// Applies a patch to an object of the given type.
pub fn apply(target: &mut Value, patch: &Value, schema: &Struct) -> Result<(), Error> {
    let Value::Object(patch) = patch else { return Err(Error::expected_map(patch)) };
    merge_map(target.make_object(), patch.clone(), Type::Struct(schema))
}

/// The Go type of a place, as far as patches distinguish types.
#[derive(Clone, Copy)]
pub(super) enum Type<'s> {
    Struct(&'s Struct),
    /// A Go struct whose fields are not those of its JSON.
    Opaque(&'static str),
    /// Not a struct; its `reflect.Kind`.
    Plain(&'static str),
}

impl<'s> Type<'s> {
    fn of(kind: &'s Kind) -> Type<'s> {
        match kind {
            Kind::Struct(schema) => Type::Struct(schema),
            Kind::Quantity => Type::Opaque("Quantity"),
            Kind::IntOrString => Type::Opaque("IntOrString"),
            Kind::Time => Type::Opaque("Time"),
            Kind::MicroTime => Type::Opaque("MicroTime"),
            Kind::Duration => Type::Opaque("Duration"),
            Kind::Raw => Type::Opaque("RawExtension"),
            Kind::FieldsV1 => Type::Opaque("FieldsV1"),
            Kind::Any(AnyForm::Json) => Type::Opaque("JSON"),
            Kind::Any(AnyForm::SchemaOrArray) => Type::Opaque("JSONSchemaPropsOrArray"),
            Kind::Any(AnyForm::SchemaOrBool) => Type::Opaque("JSONSchemaPropsOrBool"),
            Kind::Any(AnyForm::SchemaOrStringArray) => Type::Opaque("JSONSchemaPropsOrStringArray"),
            Kind::Any(AnyForm::Free) => Type::Plain("interface"),
            Kind::String => Type::Plain("string"),
            Kind::Bool => Type::Plain("bool"),
            Kind::Int32 => Type::Plain("int32"),
            Kind::Int64 => Type::Plain("int64"),
            Kind::Double => Type::Plain("float64"),
            Kind::Bytes | Kind::List(..) => Type::Plain("slice"),
            Kind::Map(..) => Type::Plain("map"),
        }
    }

    /// Upstream's name of the type in the error of a missing merge key.
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Struct(_) | Type::Opaque(_) => "struct",
            Type::Plain(kind) => kind,
        }
    }

    fn field(self, name: &str) -> Result<&'s Field, Error> {
        let owner = match self {
            Type::Struct(schema) => {
                let folded = || schema.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
                match schema.field(name).or_else(folded) {
                    Some(field) => return Ok(field),
                    None => schema.name.to_string(),
                }
            }
            Type::Opaque(owner) => owner.to_owned(),
            Type::Plain(kind) => return Err(Error::NotAStruct(kind)),
        };
        Err(Error::UnknownField { owner, field: quoted(name) })
    }

    /// A list field and the type of its items.
    fn list_field(self, name: &str) -> Result<(&'s Field, Type<'s>), Error> {
        let field = self.field(name)?;
        match &field.kind {
            Kind::List(item, _) if matches!(**item, Kind::List(..) | Kind::Bytes) => Err(Error::SliceOfSlice),
            Kind::List(item, _) => Ok((field, Type::of(item))),
            Kind::Bytes => Ok((field, Type::Plain("uint8"))),
            _ => Err(Error::NotAList),
        }
    }
}

/// Merges a patch into a map.
pub(super) fn merge_map(original: &mut Map, mut patch: Map, schema: Type<'_>) -> Result<(), Error> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => *original = patch,
            Some("delete") => *original = Map::new(),
            _ => return Err(unknown_directive(directive, patch)),
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    set_element_orders(original, &mut patch, schema)?;
    // Additions and removals are collected: each by itself would move all members after it.
    let (mut added, mut removed) = (Vec::new(), HashSet::new());
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM_LIST) {
            Some(list) => {
                let list = list.strip_prefix('/').ok_or(Error::PrimitiveListFormat)?;
                if delete_from_list(original, list, value, schema)? {
                    removed.insert(Str::new(list));
                }
            }
            None => {
                let current = original.get_mut(&key).filter(|_| !removed.contains(&key));
                match merge_member(current, &key, value, schema)? {
                    Merged::InPlace => {}
                    Merged::Set(value) => added.push((key, value)),
                    Merged::Removed => drop(removed.insert(key)),
                }
            }
        }
    }
    if !removed.is_empty() {
        original.retain(|key, _| !removed.contains(key));
    }
    original.extend(added);
    Ok(())
}

/// The outcome of a member.
enum Merged {
    InPlace,
    Set(Value),
    Removed,
}

pub(super) fn unknown_directive(directive: Value, mut map: Map) -> Error {
    let text = match &directive {
        Value::String(text) => text.to_string(),
        other => format!("%!s({}={})", go_type(other), shown(other)),
    };
    map.insert(DIRECTIVE, directive);
    Error::UnknownDirective { directive: text, map: shown(&Value::Object(map)) }
}

fn merge_member(
    current: Option<&mut Value>,
    key: &str,
    value: Value,
    schema: Type<'_>,
) -> Result<Merged, Error> {
    if value.is_null() {
        return Ok(Merged::Removed);
    }
    match (current, value) {
        (Some(Value::Object(current)), Value::Object(value)) => {
            let field = schema.field(key)?;
            if field.patch.replace {
                *current = value;
            } else {
                merge_map(current, value, Type::of(&field.kind))?;
            }
            Ok(Merged::InPlace)
        }
        (Some(Value::Array(current)), Value::Array(value)) => {
            let (field, item) = schema.list_field(key)?;
            merge_list(current, value, field, item)?;
            Ok(Merged::InPlace)
        }
        (_, mut value) => {
            discard_nulls(&mut value);
            Ok(without_directives(value).map_or(Merged::Removed, Merged::Set))
        }
    }
}

/// Merges lists, or replaces them, as the field requires. Returns the previous order.
fn merge_list(
    current: &mut Vec<Value>,
    patch: Vec<Value>,
    field: &Field,
    item: Type<'_>,
) -> Result<Vec<Value>, Error> {
    if !field.patch.merge {
        return Ok(std::mem::replace(current, patch));
    }
    lists::merge(current, patch, merge_key(field), item)
}

fn merge_key(field: &Field) -> &str {
    field.patch.merge_key.as_deref().unwrap_or_default()
}

/// Deletes values from a list; returns true if the list itself is removed.
fn delete_from_list(original: &mut Map, key: &str, values: Value, schema: Type<'_>) -> Result<bool, Error> {
    if values.is_null() {
        return Ok(true);
    }
    let (Some(Value::Array(current)), Value::Array(values)) = (original.get_mut(key), values) else {
        return Ok(false);
    };
    let (field, item) = schema.list_field(key)?;
    if current.is_empty() && values.is_empty() {
        return Ok(false);
    }
    match lists::elements(current, &values)? {
        Items::Scalars => {
            let values = set_of(&values);
            current.retain(|value| !values.contains(&ByContent(value)));
        }
        Items::Maps => drop(lists::merge(current, values, merge_key(field), item)?),
    }
    Ok(false)
}

/// Removes the members that a `$retainKeys` directive does not list.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = directive else { return Err(Error::RetainKeysFormat) };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let listed = |key: &str| retained.contains(key);
    let aside = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !aside(key) && !listed(key)) {
        return Err(Error::RetainKeysFormat);
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// Merges the lists that a `$setElementOrder` directive orders, and orders them.
fn set_element_orders(original: &mut Map, patch: &mut Map, schema: Type<'_>) -> Result<(), Error> {
    let mut directives = Vec::new();
    patch.retain(|key, value| {
        let directs = key.starts_with(SET_ELEMENT_ORDER);
        if directs {
            directives.push((key.clone(), std::mem::take(value)));
        }
        !directs
    });
    let mut ordered: Vec<(Str, Value)> = Vec::with_capacity(directives.len());
    for (directive, order) in directives {
        let order = match order {
            Value::Array(order) => order,
            other => return Err(Error::expected_list(&other)),
        };
        let key =
            directive[SET_ELEMENT_ORDER.len()..].strip_prefix('/').ok_or(Error::SetElementOrderFormat)?;
        let list = |map: &Map| match map.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(Error::expected_list(other)),
        };
        let (before, patched) = (list(original)?, list(patch)?);
        let (field, item) = schema.list_field(key)?;
        if let Some(list) = order_list(before, patched, &order, field, item)? {
            ordered.push((Str::new(key), Value::Array(list)));
        }
    }
    if !ordered.is_empty() {
        let done: HashSet<&str> = ordered.iter().map(|(key, _)| key.as_str()).collect();
        patch.retain(|key, _| !done.contains(key.as_str()));
        original.extend(ordered);
    }
    Ok(())
}

/// A list merged and ordered; nothing if neither the object nor the patch has it.
fn order_list(
    before: Option<Vec<Value>>,
    patched: Option<Vec<Value>>,
    order: &[Value],
    field: &Field,
    item: Type<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    let merge_key = merge_key(field);
    check_order(patched.as_deref().unwrap_or_default(), order, merge_key)?;
    let items = match (&before, &patched) {
        (None, None) => return Ok(None),
        _ => lists::elements(before.as_deref().unwrap_or_default(), patched.as_deref().unwrap_or_default()),
    };
    let (merged, before) = match (before, patched) {
        (before, None) => (before.clone().unwrap_or_default(), before.unwrap_or_default()),
        (None, Some(patched)) => (patched.into_iter().filter_map(without_directives).collect(), Vec::new()),
        (Some(mut merged), Some(patched)) => {
            let before = merge_list(&mut merged, patched, field, item)?;
            (merged, before)
        }
    };
    let (listed, others) = lists::partition(merged, order, merge_key)?;
    lists::interleave(listed, others, order, &before, merge_key, items?).map(Some)
}

/// The items of a patch must be in the order that the patch itself requires.
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deleted = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    if let Some(odd) = patch.iter().find(|item| !merge_key.is_empty() && !matches!(item, Value::Object(_))) {
        return Err(Error::expected_map(odd));
    }
    let mut named = patch.iter().filter(|item| merge_key.is_empty() || !deleted(item)).peekable();
    let mut order_left = order.iter().peekable();
    while let (Some(item), Some(next)) = (named.peek(), order_left.peek()) {
        if item.get(DIRECTIVE).is_some() {
            named.next();
            continue;
        }
        if lists::same(item, next, merge_key)? {
            named.next();
        }
        order_left.next();
    }
    match named.peek() {
        Some(_) => Err(Error::OrderMismatch { patch: shown_list(patch), order: shown_list(order) }),
        None => Ok(()),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The rest of a value without the maps that have a directive.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}
