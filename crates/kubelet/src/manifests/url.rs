//! Manifests that a server has: asked for now and then.

use std::time::Duration;

use super::Wanted;
use super::decode::{self, Origin};
use crate::http::{self, Answer, Request};
use crate::pod::Source;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Who asks for manifests.
const AGENT: &str = "kubelet/v1.37.0";

/// No list of manifests is longer.
const LONGEST: usize = 10 << 20;

/// Where manifests are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestUrl {
    url: String,
    request: Request,
}

impl ManifestUrl {
    /// Reads a URL such as `http://server/pods.yaml`; the headers go with every request.
    pub fn parse(url: &str, headers: Vec<(String, String)>) -> Result<ManifestUrl, String> {
        let uri: ::http::Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{url:?} is no URL; give one such as http://server/pods.yaml")),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(ManifestUrl {
            url: url.to_owned(),
            request: Request { secure, host, port, path, headers, agent: AGENT },
        })
    }
}

/// Asks for good.
pub(super) async fn follow(from: ManifestUrl, period: Duration, mut wanted: Wanted) {
    let mut last = String::new();
    let mut failing = false;
    loop {
        match ask(&from).await {
            Ok(text) if text == last => failing = false,
            Ok(text) => {
                failing = false;
                let origin = Origin { source: Source::Http, place: &from.url, node: wanted.node() };
                match decode::pods(text.as_bytes(), &origin) {
                    Ok(pods) => {
                        let now = wanted.machine.clock.now();
                        wanted.take(pods.iter().map(|pod| decode::seen(pod, now)).collect());
                    }
                    Err(why) => tracing::warn!(url = from.url, why, "manifests cannot be used"),
                }
                last = text;
            }
            // Said once, however long it lasts.
            Err(why) if failing => tracing::debug!(url = from.url, why, "manifests cannot be read"),
            Err(why) => {
                failing = true;
                tracing::warn!(url = from.url, why, "manifests cannot be read");
            }
        }
        wanted.machine.clock.sleep(period).await;
    }
}

async fn ask(from: &ManifestUrl) -> Result<String, String> {
    let Answer { status, body, .. } = http::fetch(&from.request, TIMEOUT, LONGEST).await?;
    match (status, body.is_empty()) {
        (200, false) => Ok(body),
        (200, true) => Err(format!("zero-length data received from {}", from.url)),
        (status, _) => Err(format!("{}: {status}", from.url)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let read = |url: &str| ManifestUrl::parse(url, Vec::new()).map(|url| url.request);
        let plain = read("http://example.com/a?b=c").unwrap();
        assert_eq!(
            (plain.secure, plain.host.as_str(), plain.port, plain.path.as_str()),
            (false, "example.com", 80, "/a?b=c")
        );
        let secure = read("https://[::1]:8443").unwrap();
        assert_eq!(
            (secure.secure, secure.host.as_str(), secure.port, secure.path.as_str()),
            (true, "::1", 8443, "/")
        );
        assert!(read("/etc/pods").is_err());
        assert!(read("ftp://example.com/a").is_err());
    }
}
