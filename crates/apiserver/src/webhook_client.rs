//! Calls to webhooks: a JSON document is posted to a service or a URL, and a JSON document comes back.
//!
//! A service is resolved through EndpointSlices in this process, so that calls do not depend on the node's proxy. The
//! webhook may be dead, slow or hostile: every call has a deadline, and an answer a size limit in proportion to the request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use corten_api::{Value, json};
use corten_pki::BundleVerifier;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use rustls::ClientConfig;

use crate::call::Backend;
use crate::connect::{Outgoing, ProxyBackend, service_endpoints};

/// The smallest limit of an answer; larger requests have larger ones.
const LEAST_ANSWER: usize = 3 * 1024 * 1024;
/// The limit of an answer, in sizes of the request.
const ANSWER_RATIO: usize = 4;
/// The bundles of system CAs, for webhooks without a CA of their own.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The address of a webhook and the way to verify it.
pub(crate) struct WebhookClient {
    target: Target,
    path: String,
    authorities: Option<Vec<u8>>,
}

enum Target {
    Service { namespace: String, name: String, port: i64 },
    Url { host: String, port: u16 },
}

impl WebhookClient {
    /// From a `clientConfig`.
    pub(crate) fn new(config: &Value) -> Result<WebhookClient, String> {
        let authorities = config.str_at(&["caBundle"]).map(|bundle| STANDARD.decode(bundle));
        let authorities = authorities.transpose().map_err(|e| format!("unable to decode caBundle: {e}"))?;
        let authorities = authorities.filter(|bundle| !bundle.trim_ascii().is_empty());
        if let Some(service) = config.get("service").filter(|service| !service.is_null()) {
            let text = |key: &str| service.str_at(&[key]).unwrap_or_default().to_owned();
            let target = Target::Service {
                namespace: text("namespace"),
                name: text("name"),
                port: service.int_at(&["port"]).unwrap_or(443),
            };
            return Ok(WebhookClient { target, path: text("path"), authorities });
        }
        let url = config.str_at(&["url"]).unwrap_or_default();
        let parsed: http::Uri = url.parse().map_err(|e| format!("Unparsable URL: {e}"))?;
        let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let path = parsed.path_and_query().map(ToString::to_string).unwrap_or_default();
        Ok(WebhookClient {
            target: Target::Url { host, port: parsed.port_u16().unwrap_or(443) },
            path,
            authorities,
        })
    }

    /// The URL, as errors show it.
    fn url(&self, timeout: Duration) -> String {
        let path = self.request_path();
        let query = format!("timeout={}s", timeout.as_secs());
        let separator = if path.contains('?') { '&' } else { '?' };
        match &self.target {
            Target::Service { namespace, name, port } => {
                format!("https://{name}.{namespace}.svc:{port}{path}{separator}{query}")
            }
            Target::Url { host, port } if host.contains(':') => {
                format!("https://[{host}]:{port}{path}{separator}{query}")
            }
            Target::Url { host, port: 443 } => format!("https://{host}{path}{separator}{query}"),
            Target::Url { host, port } => format!("https://{host}:{port}{path}{separator}{query}"),
        }
    }

    fn request_path(&self) -> String {
        if self.path.starts_with('/') { self.path.clone() } else { format!("/{}", self.path) }
    }

    /// Posts a document and returns the answer.
    pub(crate) async fn post(
        &self,
        backend: &Backend,
        body: &Value,
        timeout: Duration,
    ) -> Result<Value, String> {
        let failed = |why: String| format!("Post {:?}: {why}", self.url(timeout));
        let call = self.exchange(backend, body, timeout);
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    async fn exchange(&self, backend: &Backend, body: &Value, timeout: Duration) -> Result<Value, String> {
        let backend = self.backend(backend)?;
        let body = json::write_to_string(body);
        let limit = LEAST_ANSWER.max(body.len().saturating_mul(ANSWER_RATIO));
        let path = self.request_path();
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut request = Request::post(format!("{path}{separator}timeout={}s", timeout.as_secs()))
            .body(outgoing(body))
            .map_err(|error| error.to_string())?;
        let json_type = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json_type.clone());
        request.headers_mut().insert(ACCEPT, json_type);
        let answer = backend.send(request).await?;
        let code = answer.status();
        let body =
            Limited::new(answer.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
        let body = body.to_bytes();
        if code != StatusCode::OK {
            return Err(format!(
                "the server responded with the status code {} but did not return more information",
                code.as_u16()
            ));
        }
        json::parse(&body).map_err(|error| error.to_string())
    }

    /// The server to dial.
    fn backend(&self, backend: &Backend) -> Result<ProxyBackend, String> {
        let tls = Some(Arc::new(self.tls()?));
        match &self.target {
            Target::Url { host, port } => {
                Ok(ProxyBackend { host: host.clone(), port: *port, resolved: Vec::new(), tls })
            }
            Target::Service { namespace, name, port } => {
                let resolved: Vec<SocketAddr> = service_endpoints(backend, namespace, name, *port)?;
                let port = u16::try_from(*port).map_err(|_| format!("invalid port {port}"))?;
                Ok(ProxyBackend { host: format!("{name}.{namespace}.svc"), port, resolved, tls })
            }
        }
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        let bundle = match &self.authorities {
            Some(bundle) => String::from_utf8_lossy(bundle).into_owned(),
            None => {
                let bundle = SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read_to_string(path).ok());
                bundle.unwrap_or_default()
            }
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = BundleVerifier::new(&bundle, provider.clone()).map_err(|e| e.to_string())?;
        let verifier = verifier.ok_or_else(|| match &self.authorities {
            Some(_) => "unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
            None => {
                "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
            }
        })?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn outgoing(body: String) -> Outgoing {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn urls() {
        let second = Duration::from_secs(30);
        for (config, expected) in [
            (
                value!({"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 8443}}),
                "https://s.n.svc:8443/convert?timeout=30s",
            ),
            (value!({"service": {"namespace": "n", "name": "s"}}), "https://s.n.svc:443/?timeout=30s"),
            (value!({"url": "https://example.com/a?b=c"}), "https://example.com/a?b=c&timeout=30s"),
            (value!({"url": "https://[::1]:9443"}), "https://[::1]:9443/?timeout=30s"),
        ] {
            assert_eq!(WebhookClient::new(&config).unwrap().url(second), expected);
        }
        assert!(WebhookClient::new(&value!({"service": {}, "caBundle": "!"})).is_err());
    }
}
