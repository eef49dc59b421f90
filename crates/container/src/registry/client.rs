//! The registry protocol: manifests and blobs of one repository at one endpoint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use rustls::ClientConfig;
use serde::Deserialize;

use super::RegistriesConfig;
use super::auth::{Challenge, Identity, challenge};
use crate::image::{Digest, LARGEST_DOCUMENT, Reference, media};
use crate::{AuthConfig, Error, Result};

mod trust;

const CONNECT: Duration = Duration::from_secs(30);
/// Maximum time without received bytes.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MOST_REDIRECTS: usize = 5;
const LARGEST_TOKEN: usize = 1 << 20;

pub(super) struct Repository {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// Scheme, host and any path before `/v2/`.
    base: String,
    path: String,
    /// The registry of the image, which mirrors get as `ns`.
    namespace: Option<String>,
    identity: Option<Identity>,
    /// The header that the registry accepts, after its challenge was answered.
    authorization: Mutex<Option<String>>,
}

/// A response body, read in chunks.
pub(super) struct Body(Incoming);

impl Repository {
    pub(super) fn new(
        config: &RegistriesConfig,
        endpoint: &str,
        reference: &Reference,
        auth: Option<&AuthConfig>,
    ) -> Result<Repository> {
        let uri: Uri = endpoint
            .parse()
            .map_err(|_| Error::InvalidArgument(format!("invalid registry endpoint {endpoint:?}")))?;
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let settings = config.host(&host);
        let tls = trust::config(settings.map(|settings| &settings.tls))?;
        let is_itself =
            host == reference.domain || (reference.domain == "docker.io" && host == "registry-1.docker.io");
        Ok(Repository {
            client: client(tls),
            base: endpoint.trim_end_matches("/v2").to_owned(),
            path: reference.path.clone(),
            namespace: (!is_itself).then(|| reference.domain.clone()),
            // The pod's credentials are only for the registry that its image names.
            identity: Identity::choose(auth.filter(|_| is_itself), settings),
            authorization: Mutex::default(),
        })
    }

    /// A manifest or index by tag or digest, and its media type.
    pub(super) async fn manifest(&self, by: &str) -> Result<(Vec<u8>, String)> {
        let response = self.get(&format!("manifests/{by}"), &media::MANIFESTS.join(", ")).await?;
        let reported = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type =
            reported.unwrap_or(media::OCI_MANIFEST).split(';').next().unwrap_or_default().trim().to_owned();
        let body = Limited::new(response.into_body(), LARGEST_DOCUMENT as usize).collect();
        let body = tokio::time::timeout(READ_TIMEOUT, body).await.map_err(|_| silent())?;
        let bytes = body.map_err(|error| Error::Internal(format!("cannot read {by}: {error}")))?.to_bytes();
        Ok((bytes.into(), media_type))
    }

    pub(super) async fn blob(&self, digest: &Digest) -> Result<Body> {
        Ok(Body(self.get(&format!("blobs/{digest}"), "*/*").await?.into_body()))
    }

    async fn get(&self, what: &str, accept: &str) -> Result<Response<Incoming>> {
        let namespace = self.namespace.as_ref().map(|name| format!("?ns={name}")).unwrap_or_default();
        let uri = format!("{}/v2/{}/{what}{namespace}", self.base, self.path);
        let authorization = self.authorization.lock().clone();
        let mut response = self.follow(&uri, accept, authorization).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let authorization = self.authorize(&response).await?;
            *self.authorization.lock() = Some(authorization.clone());
            response = self.follow(&uri, accept, Some(authorization)).await?;
        }
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Error::NotFound(format!("{what}: not found"))),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Error::Internal(format!(
                "pull access denied, repository does not exist or may require authorization: {}",
                refusal(response).await
            ))),
            status => Err(Error::Internal(format!("unexpected status from GET request to {uri}: {status}"))),
        }
    }

    /// Follows redirects; credentials are for the registry's own host only.
    async fn follow(
        &self,
        uri: &str,
        accept: &str,
        authorization: Option<String>,
    ) -> Result<Response<Incoming>> {
        let mut uri: Uri = uri.parse().map_err(|_| Error::Internal(format!("invalid URL {uri:?}")))?;
        let own_host = uri.authority().cloned();
        for _ in 0..MOST_REDIRECTS {
            let mut request = Request::get(&uri).header(ACCEPT, accept);
            if let Some(authorization) =
                authorization.as_ref().filter(|_| uri.authority() == own_host.as_ref())
            {
                request = request.header(AUTHORIZATION, authorization);
            }
            let response = self.send(request).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location =
                response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
            uri = absolute(&uri, location)?;
        }
        Err(Error::Internal(format!("{uri} redirects too often")))
    }

    async fn send(&self, request: http::request::Builder) -> Result<Response<Incoming>> {
        let request =
            request.body(Empty::new()).map_err(|error| Error::internal("cannot build the request", error))?;
        let uri = request.uri().clone();
        let sent =
            tokio::time::timeout(READ_TIMEOUT, self.client.request(request)).await.map_err(|_| silent())?;
        sent.map_err(|error| Error::internal(format!("failed to do request to {uri}"), error))
    }

    async fn authorize(&self, response: &Response<Incoming>) -> Result<String> {
        let denied = |text: &str| Error::Internal(format!("authorization failed: {text}"));
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let wanted = headers.filter_map(|value| challenge(value.to_str().ok()?)).next();
        let identity = self.identity.clone().unwrap_or_default();
        match wanted.ok_or_else(|| denied("unsupported authentication scheme"))? {
            Challenge::Basic => identity.basic().ok_or_else(|| denied("no basic auth credentials")),
            Challenge::Bearer { .. } if !identity.token.is_empty() => {
                Ok(format!("Bearer {}", identity.token))
            }
            Challenge::Bearer { realm, service, scope } => {
                let scope = if scope.is_empty() { format!("repository:{}:pull", self.path) } else { scope };
                let token = self.token(&identity, &realm, &service, &scope).await?;
                Ok(format!("Bearer {token}"))
            }
        }
    }

    async fn token(&self, identity: &Identity, realm: &str, service: &str, scope: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Token {
            #[serde(default)]
            token: String,
            #[serde(default)]
            access_token: String,
        }
        let separator = if realm.contains('?') { '&' } else { '?' };
        let uri = format!("{realm}{separator}service={}&scope={}", escaped(service), escaped(scope));
        let mut request = Request::get(uri);
        if let Some(basic) = identity.basic() {
            request = request.header(AUTHORIZATION, basic);
        } else if !identity.refresh_token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {}", identity.refresh_token));
        }
        let response = self.send(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(Error::Internal(format!(
                "failed to fetch a token: unexpected status from {realm}: {status}"
            )));
        }
        let body = Limited::new(response.into_body(), LARGEST_TOKEN).collect();
        let body = tokio::time::timeout(READ_TIMEOUT, body).await.map_err(|_| silent())?;
        let bytes =
            body.map_err(|error| Error::Internal(format!("cannot read a token: {error}")))?.to_bytes();
        let token: Token = super::read(&bytes, "the token")?;
        Ok(if token.token.is_empty() { token.access_token } else { token.token })
    }
}

impl Body {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let frame = tokio::time::timeout(READ_TIMEOUT, self.0.frame()).await.map_err(|_| silent())?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Error::internal("cannot read from the registry", error)),
                // Trailers are ignored.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

fn client(tls: ClientConfig) -> Client<HttpsConnector<HttpConnector>, Empty<Bytes>> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT));
    let tls = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    Client::builder(TokioExecutor::new()).build(tls.wrap_connector(http))
}

fn silent() -> Error {
    Error::Internal("timed out waiting for data from the registry".to_owned())
}

/// The message of a registry that refuses a request.
async fn refusal(response: Response<Incoming>) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let status = response.status();
    let body = Limited::new(response.into_body(), 64 << 10).collect();
    let body =
        tokio::time::timeout(READ_TIMEOUT, body).await.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let reported = body.and_then(|bytes| serde_json::from_slice::<Errors>(&bytes).ok());
    match reported.and_then(|reported| reported.errors.into_iter().next()) {
        Some(reported) => format!("server message: {}: {}", reported.code.to_lowercase(), reported.message),
        None => status.to_string(),
    }
}

fn absolute(base: &Uri, location: &str) -> Result<Uri> {
    let bad = || Error::Internal(format!("the registry redirects to {location:?}"));
    let target: Uri = location.parse().map_err(|_| bad())?;
    if target.authority().is_some() {
        return Ok(target);
    }
    let mut parts = base.clone().into_parts();
    parts.path_and_query = target.into_parts().path_and_query;
    Uri::from_parts(parts).map_err(|_| bad())
}

/// Percent-encodes a value of a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Shared by every connection of a pull.
pub(super) type Verifier = Arc<dyn rustls::client::danger::ServerCertVerifier>;
