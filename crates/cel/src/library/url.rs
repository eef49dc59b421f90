//! URLs: `url`, `isURL` and the parts of a URL.

mod model;
mod parts;

use std::any::Any;

pub use model::{Url, check_request_uri};

use super::arguments::{declare, opaque, text};
use crate::declare::{Declaration, Library};
use crate::error::Result;
use crate::value::{Entries, Map, Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("url", "string_to_url", "(string) kubernetes.URL", url),
    declare("isURL", "is_url_string", "(string) bool", is_url),
    declare("getScheme", "url_get_scheme", "kubernetes.URL.() string", scheme),
    declare("getHost", "url_get_host", "kubernetes.URL.() string", host),
    declare("getHostname", "url_get_hostname", "kubernetes.URL.() string", hostname),
    declare("getPort", "url_get_port", "kubernetes.URL.() string", port),
    declare("getEscapedPath", "url_get_escaped_path", "kubernetes.URL.() string", escaped_path),
    declare("getQuery", "url_get_query", "kubernetes.URL.() map(string, list(string))", query),
];

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        "kubernetes.URL"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn Any).downcast_ref().map(|other| self == other)
    }
}

fn url<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let url = Url::parse(text(arguments, 0)?)
        .map_err(|error| format!("URL parse error during conversion from string: {error}"))?;
    Ok(Value::opaque(url))
}

fn is_url<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(check_request_uri(text(arguments, 0)?).is_ok().into())
}

fn scheme<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(&*opaque::<Url>(arguments, 0)?.scheme))
}

fn host<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(opaque::<Url>(arguments, 0)?.host()))
}

fn hostname<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(opaque::<Url>(arguments, 0)?.hostname()))
}

fn port<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(opaque::<Url>(arguments, 0)?.port()))
}

fn escaped_path<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(opaque::<Url>(arguments, 0)?.escaped_path()))
}

fn query<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let mut entries = Entries::default();
    for (key, values) in opaque::<Url>(arguments, 0)?.query() {
        let values: Vec<Value<'a>> = values.into_iter().map(Value::text).collect();
        entries.insert(Value::text(key), Value::list(values));
    }
    Ok(Value::Map(Map::of(entries)))
}
