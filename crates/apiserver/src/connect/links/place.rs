//! Where an answer comes from, as its server and as the client of the proxy see it, and what links in it become. Pure.

/// The place of an answer.
pub(in crate::connect) struct Place {
    /// The path of the proxy that leads to the root of the server.
    pub(in crate::connect) prefix: String,
    /// The server, with its port.
    pub(in crate::connect) host: String,
    /// The host that the client asked.
    pub(in crate::connect) asked: String,
}

impl Place {
    /// What a link becomes: one to elsewhere, or that is relative to where it stands, is as good as it was.
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

/// A link taken apart; empty is what it does not say.
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

/// How long a link's scheme is with its colon; 0 without.
fn scheme(link: &str) -> usize {
    let Some((scheme, _)) = link.split_once(':') else { return 0 };
    let good = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(good);
    if is_one { scheme.len() + 1 } else { 0 }
}

/// An absolute path without empty steps, steps on the spot and steps back. Only its last slash stays.
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
            // What has the prefix is not given it again.
            (&proxied("/a"), proxied("/a")),
            // What leads elsewhere, or to beside where it stands.
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
