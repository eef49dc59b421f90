//! Manifests from a URL, polled periodically.

use std::time::Duration;

use super::StaticPods;
use super::decode::{self, Origin};
use crate::pod::Source;
use crate::probes::http::{self, Answer, Request};

const TIMEOUT: Duration = Duration::from_secs(10);
/// The user agent of requests for manifests.
const AGENT: &str = "kubelet/v1.37.0";

/// The maximum size of a response.
const LONGEST: usize = 10 << 20;

/// A manifest URL that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestUrlError {
    /// The URL has invalid syntax.
    #[error("invalid manifest URL {url:?}: {err}")]
    Invalid {
        /// The text of the URL.
        url: String,
        /// The reason.
        err: ::http::uri::InvalidUri,
    },
    /// The URL's scheme is neither `http` nor `https`.
    #[error("{0:?} is not an HTTP URL; give one such as http://server/pods.yaml")]
    Scheme(String),
}

/// The manifests could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Http(#[from] http::HttpError),
    #[error("zero-length data received from {0}")]
    Empty(String),
    #[error("{url}: {status}")]
    Status { url: String, status: u16 },
}

/// The URL of static pod manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestUrl {
    url: String,
    request: Request,
}

impl ManifestUrl {
    /// Parses a URL such as `http://server/pods.yaml`; the headers go with every request.
    pub fn parse(url: &str, headers: Vec<(String, String)>) -> Result<ManifestUrl, ManifestUrlError> {
        let uri: ::http::Uri =
            url.parse().map_err(|err| ManifestUrlError::Invalid { url: url.to_owned(), err })?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(ManifestUrlError::Scheme(url.to_owned())),
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

/// Reads the manifests periodically, for good.
pub(super) async fn poll(from: ManifestUrl, period: Duration, mut sink: StaticPods) {
    let mut last = String::new();
    let mut failing = false;
    loop {
        match read(&from).await {
            Ok(text) if text == last => failing = false,
            Ok(text) => {
                failing = false;
                let origin = Origin { source: Source::Http, place: &from.url, node: sink.node_name() };
                match decode::pods(text.as_bytes(), &origin) {
                    Ok(pods) => {
                        let now = sink.kubelet.clock.now();
                        sink.set(pods.iter().map(|pod| decode::with_first_seen(pod, now)).collect());
                    }
                    Err(err) => tracing::warn!(url = from.url, %err, "cannot use static pod manifests"),
                }
                last = text;
            }
            // One warning for each outage.
            Err(err) if failing => {
                tracing::debug!(url = from.url, %err, "cannot read static pod manifests; retrying");
            }
            Err(err) => {
                failing = true;
                tracing::warn!(url = from.url, %err, "cannot read static pod manifests; retrying");
            }
        }
        sink.kubelet.clock.sleep(period).await;
    }
}

async fn read(from: &ManifestUrl) -> Result<String, ReadError> {
    let Answer { status, body, .. } = http::fetch(&from.request, TIMEOUT, LONGEST).await?;
    match (status, body.is_empty()) {
        (200, false) => Ok(body),
        (200, true) => Err(ReadError::Empty(from.url.clone())),
        (status, _) => Err(ReadError::Status { url: from.url.clone(), status }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
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
