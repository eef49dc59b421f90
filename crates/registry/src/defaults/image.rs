//! The default pull policy of an image.
//!
//! A name with the tag `latest`, or with neither tag nor digest, may refer to another image later: it is always
//! pulled. An invalid name is left to validation, and gets the other policy. Names are parsed by the
//! grammar of image references: a Docker-style name without a domain is on Docker Hub.

/// The policy of a container or volume without one.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image, `latest` if that is implied; `None` if there is only a digest or the name is invalid.
fn tag(image: &str) -> Option<&str> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // An image id is not a name.
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return None;
    }
    // A colon before the last slash belongs to a port.
    let after_slash = rest.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match rest[after_slash..].find(':') {
        Some(at) => (&rest[..after_slash + at], Some(&rest[after_slash + at + 1..])),
        None => (rest, None),
    };
    let readable = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (readable, tag, digest) {
        (false, ..) => None,
        (true, None, None) => Some("latest"),
        (true, tag, _) => tag,
    }
}

const MAX_PATH: usize = 255;

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, path)) if is_domain_like(first) => (Some(first), path),
        _ => (None, name),
    };
    // Docker Hub's own images are in `library`.
    let on_hub = matches!(domain, None | Some("docker.io" | "index.docker.io"));
    let implied = if on_hub && !path.contains('/') { "library/".len() } else { 0 };
    implied + path.len() <= MAX_PATH && domain.is_none_or(is_domain) && path.split('/').all(is_path_component)
}

/// Returns true if the first part of a name is a domain rather than a user on Docker Hub.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[') {
        Some(bracketed) => {
            let Some((address, after)) = bracketed.split_once(']') else { return false };
            let is_address =
                !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            if !is_address {
                return false;
            }
            (None, after)
        }
        None => {
            let end = domain.find(':').unwrap_or(domain.len());
            (Some(&domain[..end]), &domain[end..])
        }
    };
    let is_port = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
    host.is_none_or(|host| host.split('.').all(is_domain_component))
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

fn is_domain_component(part: &str) -> bool {
    let bytes = part.as_bytes();
    let inner = bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
    inner && !bytes.is_empty() && bytes.first() != Some(&b'-') && bytes.last() != Some(&b'-')
}

/// Lower-case letters and digits, with separators between them: `.`, `_`, `__` or any number of `-`.
fn is_path_component(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends_well = |b: Option<&u8>| b.is_some_and(|b| is_word(*b));
    if !ends_well(bytes.first()) || !ends_well(bytes.last()) {
        return false;
    }
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    separators.into_iter().all(|s| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts_well = tag.bytes().next().is_some_and(is_word);
    starts_well && tag.len() <= 128 && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let digits = match digest.split_once(':') {
        Some(("sha256", digits)) if digits.len() == 64 => digits,
        Some(("sha384", digits)) if digits.len() == 96 => digits,
        Some(("sha512", digits)) if digits.len() == 128 => digits,
        _ => return false,
    };
    digits.bytes().all(is_lower_hex)
}

fn is_lower_hex(b: u8) -> bool {
    b.is_ascii_digit() || (b'a'..=b'f').contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_follow_the_tag() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        let always = [
            "nginx".to_owned(),
            "nginx:latest".to_owned(),
            "library/nginx".to_owned(),
            "registry.k8s.io/pause".to_owned(),
            "localhost:5000/a/b".to_owned(),
            "[::1]:5000/a".to_owned(),
            "Upper.example/a__b/c--d".to_owned(),
            "UPPER/a".to_owned(),
            format!("nginx:latest@{digest}"),
        ];
        let if_not_present = [
            String::new(),
            "nginx:1.27".to_owned(),
            "localhost:5000/a:v1".to_owned(),
            "Nginx".to_owned(),
            "a/Upper".to_owned(),
            "nginx:".to_owned(),
            "a//b".to_owned(),
            "a..b".to_owned(),
            "a___b".to_owned(),
            "-a".to_owned(),
            "nginx latest".to_owned(),
            "a1".repeat(32),
            format!("nginx@{digest}"),
            "nginx:latest@sha256:short".to_owned(),
            format!("x/{}", "a".repeat(256)),
            format!("nginx:{}", "a".repeat(129)),
        ];
        for image in always {
            assert_eq!(pull_policy(&image), "Always", "{image}");
        }
        for image in if_not_present {
            assert_eq!(pull_policy(&image), "IfNotPresent", "{image}");
        }
    }
}
