//! The location of a proxied response, as its server and as the proxy's client see it, and the rewriting of links in it. Pure.

/// The location of a response.
pub(in crate::connect) struct Place {
    /// The path of the proxy that leads to the root of the server.
    pub(in crate::connect) prefix: String,
    /// The server, with its port.
    pub(in crate::connect) host: String,
    /// The host that the client requested.
    pub(in crate::connect) asked: String,
}

impl Place {
    /// Rewrites a link. A link to another host and a relative link stay unchanged.
    pub(super) fn link(&self, link: &str) -> String {
        let parts = Parts::of(link);
        let elsewhere = !parts.host.is_empty() && parts.host != self.host && parts.host != self.asked;
        if elsewhere || !parts.path.starts_with('/') {
            return link.to_owned();
        }
        let origin = if parts.host == self.asked { parts.origin } else { "" };
        if parts.path.starts_with(&self.prefix) {
            return format!("{origin}{}{}", parts.path, parts.rest);
        }
        let path = cleaned(&format!("{}{}", self.prefix, parts.path));
        format!("{origin}{path}{}", parts.rest)
    }
}

/// The parts of a link; empty if absent.
struct Parts<'a> {
    /// Scheme and host, as they are written.
    origin: &'a str,
    host: &'a str,
    path: &'a str,
    /// The query and the fragment.
    rest: &'a str,
}

impl Parts<'_> {
    fn of(link: &str) -> Parts<'_> {
        let ends = link.find(['?', '#']).unwrap_or(link.len());
        let (before, rest) = link.split_at(ends);
        let begins = scheme(before);
        let Some(authority) = before[begins..].strip_prefix("//") else {
            let (origin, path) = before.split_at(begins);
            return Parts { origin, host: "", path, rest };
        };
        let length = authority.find('/').unwrap_or(authority.len());
        let (origin, path) = before.split_at(begins + 2 + length);
        let host = &authority[..length];
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Parts { origin, host, path, rest }
    }
}

/// The length of a link's scheme with its colon; 0 without one.
fn scheme(link: &str) -> usize {
    let Some((scheme, _)) = link.split_once(':') else { return 0 };
    let good = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(good);
    if is_one { scheme.len() + 1 } else { 0 }
}

/// An absolute path without empty, `.` and `..` segments. A trailing slash stays.
fn cleaned(path: &str) -> String {
    let mut steps = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let last = if path.ends_with('/') && !steps.is_empty() { "/" } else { "" };
    format!("/{}{last}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_through_the_proxy() {
        let place = Place {
            prefix: "/api/v1/namespaces/n/pods/p/proxy".into(),
            host: "10.0.0.1:80".into(),
            asked: "localhost:8001".into(),
        };
        let proxied = |path: &str| format!("/api/v1/namespaces/n/pods/p/proxy{path}");
        for (link, expected) in [
            ("/", proxied("/")),
            ("/a", proxied("/a")),
            ("/a/?b=/c#d", proxied("/a/?b=/c#d")),
            ("/a//b/../c/", proxied("/a/c/")),
            ("http://10.0.0.1:80/a", proxied("/a")),
            ("//10.0.0.1:80/a", proxied("/a")),
            ("http://localhost:8001/a", format!("http://localhost:8001{}", proxied("/a"))),
            // A link with the prefix stays unchanged.
            (&proxied("/a"), proxied("/a")),
            // Links to other hosts and relative links.
            ("http://10.0.0.2:80/a", "http://10.0.0.2:80/a".into()),
            ("https://example.com", "https://example.com".into()),
            ("a/b", "a/b".into()),
            ("?a=/b", "?a=/b".into()),
            ("#a", "#a".into()),
            ("", String::new()),
            ("mailto:a@b", "mailto:a@b".into()),
            ("data:text/html,/a", "data:text/html,/a".into()),
        ] {
            assert_eq!(place.link(link), expected, "{link}");
        }
    }
}
