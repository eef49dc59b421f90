//! Names of images, in short and in full.

use std::fmt;
use std::str::FromStr;

use super::{Digest, ImageError};

/// A name in full: `busybox` is `docker.io/library/busybox:latest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The registry's host, with its port if it has one.
    pub domain: String,
    /// The repository within the registry.
    pub path: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

const HUB: &str = "docker.io";

impl Reference {
    /// The repository in full, without tag and digest.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    /// The repository with this digest.
    pub fn by_digest(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.repository())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Reference, ImageError> {
        parse(text).ok_or_else(|| ImageError::InvalidReference(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Reference> {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest.parse().ok()?)),
        None => (text, None),
    };
    let (domain, rest) = match name.split_once('/') {
        Some((first, rest)) if is_domain(first) => (first, rest),
        _ => (HUB, name),
    };
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let domain = if domain == "index.docker.io" { HUB } else { domain };
    let path = match path {
        path if domain == HUB && !path.contains('/') => format!("library/{path}"),
        path => path.to_owned(),
    };
    let valid = is_host(domain) && path.split('/').all(is_component) && tag.is_none_or(is_tag);
    let tag = tag.map(str::to_owned).or_else(|| digest.is_none().then(|| "latest".to_owned()));
    (valid && path.len() + domain.len() < 255).then(|| Reference {
        domain: domain.to_owned(),
        path,
        tag,
        digest,
    })
}

/// A first component that cannot be part of a repository's path is a host.
fn is_domain(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let named = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    let numbered = |host: &str| host.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    let port_is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    address.map_or_else(|| named(host), numbered) && port.is_none_or(port_is_number)
}

/// Lower-case letters and digits, with single separators between.
fn is_component(component: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends_well = |byte: Option<&u8>| byte.is_some_and(|&byte| is_letter(byte));
    let known = bytes.iter().all(|&byte| is_letter(byte) || b"._-".contains(&byte));
    let separated = !["..", "._", "_.", "-.", ".-", "-_", "_-", "___"].iter().any(|s| component.contains(s));
    known && separated && ends_well(bytes.first()) && ends_well(bytes.last())
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = text.parse::<Reference>();
        assert_eq!(found.as_ref().map(ToString::to_string).ok().as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn names_are_completed() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        check("busybox", "docker.io/library/busybox:latest");
        check("index.docker.io/busybox", "docker.io/library/busybox:latest");
        check("bitnami/redis:7.0", "docker.io/bitnami/redis:7.0");
        check("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10");
        check("localhost/a/b", "localhost/a/b:latest");
        check("localhost:5000/a", "localhost:5000/a:latest");
        check("[::1]:5000/a:1", "[::1]:5000/a:1");
        check(&format!("busybox@{digest}"), &format!("docker.io/library/busybox@{digest}"));
        check(&format!("x.io/a:1@{digest}"), &format!("x.io/a:1@{digest}"));
        check("a__b/c-d.e", "docker.io/a__b/c-d.e:latest");
    }

    #[test]
    fn invalid_input_is_refused() {
        let long = "a".repeat(256);
        for text in
            ["", ":", "UPPER", "a:", "a//b", "/a", "a@sha256:12", "a b", "-a", "a:-b", "x.io/..", &long]
        {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
