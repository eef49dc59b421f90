//! Front proxies: a client with a front proxy's certificate names the user in headers.

use std::collections::BTreeMap;

use crate::User;

/// The headers of front proxies. Names are case-insensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    /// The common names of front-proxy certificates; empty for any.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_header_prefixes: Vec<String>,
}

impl FrontProxy {
    /// The standard headers.
    pub fn standard(allowed_names: Vec<String>) -> FrontProxy {
        FrontProxy {
            allowed_names,
            username_headers: vec!["X-Remote-User".into()],
            uid_headers: vec!["X-Remote-Uid".into()],
            group_headers: vec!["X-Remote-Group".into()],
            extra_header_prefixes: vec!["X-Remote-Extra-".into()],
        }
    }

    pub fn allows(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }

    /// The user in a front proxy's request headers, in their order; `None` without a user header.
    pub fn user(&self, headers: &[(&str, &str)]) -> Option<User> {
        let first = |names: &[String]| {
            names.iter().find_map(|name| {
                // Only the first of several headers of one name counts.
                let found = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
                found.map(|(_, value)| *value).filter(|value| !value.is_empty())
            })
        };
        let name = first(&self.username_headers)?.to_owned();
        let uid = first(&self.uid_headers).unwrap_or_default().to_owned();
        let mut groups = Vec::new();
        for name in &self.group_headers {
            let named = headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
            groups.extend(named.map(|(_, value)| (*value).to_owned()).filter(|group| !group.is_empty()));
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_header_prefixes {
            for (header, value) in headers {
                if let Some(key) = without_prefix(header, prefix) {
                    extra.entry(unescape(&key.to_ascii_lowercase())).or_default().push((*value).to_owned());
                }
            }
        }
        Some(User { name, uid, groups, extra })
    }

    /// True for a header that only a front proxy may send.
    pub fn owns(&self, header: &str) -> bool {
        let names = [&self.username_headers, &self.uid_headers, &self.group_headers];
        names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(header))
            || self.extra_header_prefixes.iter().any(|prefix| without_prefix(header, prefix).is_some())
    }
}

fn without_prefix<'h>(header: &'h str, prefix: &str) -> Option<&'h str> {
    let (start, rest) = header.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Percent-decodes a key; an invalid encoding stays unchanged.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return key.to_owned() };
        bytes.push((high * 16 + low) as u8);
        rest = &after[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests;
