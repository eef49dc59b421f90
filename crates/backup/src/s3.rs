//! A client of S3: the four requests that backups need, signed with Signature Version 4.
//!
//! It uses the HTTP and TLS libraries that the rest of Corten uses. Paths name the bucket (`https://host/bucket/key`), which every
//! S3-compatible server understands. Bodies are streamed; responses have limits, because the server may be hostile.
//!
//! *Invariant:* credentials and archives are sent over verified TLS, or to a loopback address.

mod credentials;
pub(crate) mod listing;
mod signature;
mod transport;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

pub use credentials::S3Credentials;
use signature::{Unsigned, hex};
use transport::{Body, Http};

/// The largest object of a single request.
const MAX_OBJECT: u64 = 5 << 30;
/// The largest listing, and the largest error that is shown.
const MAX_PAGE: usize = 4 << 20;
const MAX_ERROR: usize = 512;
const MAX_PAGES: usize = 100;
const RETRIES: usize = 3;
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The time until a response begins, and between two parts of it.
const RESPONSE: Duration = Duration::from_secs(60);
/// The slowest upload that is waited for, in bytes a second.
const SLOWEST: u64 = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    #[error("{0}")]
    Address(String),
    #[error("cannot read credentials in {}", path.display())]
    CredentialsFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "no S3 credentials: give --s3-credentials-file, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    NoCredentials,
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    #[error("the S3 server did not respond in time")]
    Timeout,
    #[error("cannot reach the S3 server: {0}")]
    Connect(String),
    #[error("the S3 server responded {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("the S3 server sent an invalid response: {0}")]
    Response(&'static str),
    #[error("an archive of {0} bytes is too large for S3, which takes 5 GiB at a time")]
    TooLarge(u64),
    #[error("cannot read or write a file")]
    File(#[from] io::Error),
}

/// The settings of a bucket.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// `https://host:port`; empty for Amazon's.
    pub endpoint: String,
    pub region: String,
    /// A PEM file of further certificate authorities.
    pub ca_file: Option<PathBuf>,
    pub credentials: S3Credentials,
}

/// A folder of a bucket.
pub(crate) struct Bucket {
    http: Http,
    /// `https://host:port`.
    base: String,
    host: String,
    bucket: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    region: String,
    credentials: S3Credentials,
}

impl Bucket {
    /// The folder of `s3://BUCKET/PREFIX`. Nothing is sent.
    pub(crate) fn open(location: &str, options: &S3Options) -> Result<Bucket, S3Error> {
        let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_name) {
            return Err(S3Error::Address(format!("{bucket:?} is not the name of a bucket")));
        }
        let prefix = prefix.trim_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        let has_dots = prefix.split('/').any(|part| part == "." || part == "..");
        if !prefix.bytes().all(is_plain) || has_dots || prefix.len() > 512 {
            return Err(S3Error::Address(format!(
                "{prefix:?}: use letters, digits, dots, dashes and slashes"
            )));
        }
        let region = options.region.clone();
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(S3Error::Address(format!("{region:?} is not a region")));
        }
        let (base, host) = address(&options.endpoint, &region)?;
        let http = transport::http(options.ca_file.as_deref())?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let credentials = options.credentials.clone();
        Ok(Bucket { http, base, host, bucket: bucket.to_owned(), prefix, region, credentials })
    }

    /// Uploads a file, of which the digest is known.
    pub(crate) async fn put(&self, name: &str, file: &Path, sha256: [u8; 32]) -> Result<(), S3Error> {
        let mut retry = Retry::default();
        loop {
            match self.try_put(name, file, sha256).await {
                Err(error) if retry.waits(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_put(&self, name: &str, file: &Path, sha256: [u8; 32]) -> Result<(), S3Error> {
        let bytes = tokio::fs::metadata(file).await?.len();
        if bytes > MAX_OBJECT {
            return Err(S3Error::TooLarge(bytes));
        }
        let limit = RESPONSE + Duration::from_secs(bytes / SLOWEST);
        let body = transport::file(File::open(file).await?);
        let mut request = self.request(Method::PUT, name, &[], &hex(&sha256), body)?;
        request.headers_mut().insert(header::CONTENT_LENGTH, bytes.into());
        expect_success(self.send(request, limit).await?).await.map(drop)
    }

    /// Downloads an object into a new file.
    pub(crate) async fn get(&self, name: &str, to: &Path) -> Result<(), S3Error> {
        let mut retry = Retry::default();
        loop {
            match self.try_get(name, to).await {
                Err(error) if retry.waits(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_get(&self, name: &str, to: &Path) -> Result<(), S3Error> {
        let request = self.request(Method::GET, name, &[], EMPTY, transport::empty())?;
        let mut body = expect_success(self.send(request, RESPONSE).await?).await?.into_body();
        let mut file = File::from_std(corten_base::files::create_private(to)?);
        let mut received = 0;
        while let Some(part) = next_part(&mut body).await? {
            received += part.len() as u64;
            if received > MAX_OBJECT {
                return Err(S3Error::TooLarge(received));
            }
            file.write_all(&part).await?;
        }
        Ok(file.sync_all().await?)
    }

    /// The first bytes of an object.
    pub(crate) async fn beginning(&self, name: &str, bytes: usize) -> Result<Bytes, S3Error> {
        let mut retry = Retry::default();
        loop {
            match self.try_beginning(name, bytes).await {
                Err(error) if retry.waits(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_beginning(&self, name: &str, bytes: usize) -> Result<Bytes, S3Error> {
        let mut request = self.request(Method::GET, name, &[], EMPTY, transport::empty())?;
        let range = HeaderValue::from_str(&format!("bytes=0-{}", bytes - 1));
        request.headers_mut().insert(header::RANGE, range.map_err(|_| S3Error::Response("no range"))?);
        // A server that ignores ranges sends all of it, of which the rest is not read.
        let mut body = expect_success(self.send(request, RESPONSE).await?).await?.into_body();
        let mut beginning = Vec::new();
        while beginning.len() < bytes {
            let Some(part) = next_part(&mut body).await? else { break };
            beginning.extend_from_slice(&part);
        }
        beginning.truncate(bytes);
        Ok(beginning.into())
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), S3Error> {
        let mut retry = Retry::default();
        loop {
            let request = self.request(Method::DELETE, name, &[], EMPTY, transport::empty())?;
            let deleted = match self.send(request, RESPONSE).await {
                Ok(response) => expect_success(response).await.map(drop),
                Err(error) => Err(error),
            };
            match deleted {
                Err(error) if retry.waits(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    /// The names and sizes of all objects in the folder.
    pub(crate) async fn list(&self) -> Result<Vec<(String, u64)>, S3Error> {
        let mut objects = Vec::new();
        let mut token: Option<String> = None;
        let mut retry = Retry::default();
        for _ in 0..MAX_PAGES {
            let page = match self.page(token.as_deref()).await {
                Err(error) if retry.waits(&error).await => continue,
                page => page?,
            };
            let names = page.objects.into_iter();
            objects.extend(
                names.filter_map(|(key, size)| Some((key.strip_prefix(&self.prefix)?.to_owned(), size))),
            );
            match page.next {
                None => return Ok(objects),
                next => token = next,
            }
        }
        Err(S3Error::Response("its listing does not end"))
    }

    async fn page(&self, token: Option<&str>) -> Result<listing::Page, S3Error> {
        let mut query = vec![("delimiter", "/"), ("list-type", "2"), ("prefix", self.prefix.as_str())];
        if let Some(token) = token {
            query.insert(0, ("continuation-token", token));
        }
        let request = self.request(Method::GET, "", &query, EMPTY, transport::empty())?;
        let response = expect_success(self.send(request, RESPONSE).await?).await?;
        let body = timeout(RESPONSE, Limited::new(response.into_body(), MAX_PAGE).collect()).await;
        let body =
            body.map_err(|_| S3Error::Timeout)?.map_err(|error| S3Error::Connect(error.to_string()))?;
        let text =
            String::from_utf8(body.to_bytes().into()).map_err(|_| S3Error::Response("it is not text"))?;
        listing::parse(&text).map_err(S3Error::Response)
    }

    /// A signed request on an object of the folder, or on the bucket.
    fn request(
        &self,
        method: Method,
        name: &str,
        query: &[(&str, &str)],
        body_sha256: &str,
        body: Body,
    ) -> Result<Request<Body>, S3Error> {
        let path = match name {
            "" => format!("/{}", self.bucket),
            name => format!("/{}/{}{name}", self.bucket, self.prefix),
        };
        let unsigned = Unsigned {
            method: method.as_str(),
            host: &self.host,
            path: &path,
            query,
            body_sha256,
            at: Timestamp::now(),
        };
        let headers = signature::headers(&unsigned, &self.region, &self.credentials);
        let separator = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{path}{separator}{}", self.base, signature::query(query));
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(to) = request.headers_mut() {
            insert(to, headers)?;
        }
        request.body(body).map_err(|error| S3Error::Address(error.to_string()))
    }

    async fn send(&self, request: Request<Body>, limit: Duration) -> Result<Response<Incoming>, S3Error> {
        let response = timeout(limit, self.http.request(request)).await.map_err(|_| S3Error::Timeout)?;
        response.map_err(|error| S3Error::Connect(transport::with_sources(&error)))
    }
}

/// The further attempts of a request. Each of these requests can be sent again.
struct Retry {
    left: usize,
    backoff: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { left: RETRIES, backoff: FIRST_BACKOFF }
    }
}

impl Retry {
    /// Waits before the next attempt; false if there is none.
    async fn waits(&mut self, error: &S3Error) -> bool {
        if self.left == 0 || !error.is_passing() {
            return false;
        }
        tracing::debug!(err = %error, backoff = ?self.backoff, "S3 request failed; retrying");
        tokio::time::sleep(self.backoff).await;
        self.left -= 1;
        self.backoff *= 2;
        true
    }
}

/// The next part of a response's body.
async fn next_part(body: &mut Incoming) -> Result<Option<Bytes>, S3Error> {
    let Some(part) = timeout(RESPONSE, body.frame()).await.map_err(|_| S3Error::Timeout)? else {
        return Ok(None);
    };
    let part = part.map_err(|error| S3Error::Connect(error.to_string()))?;
    // A trailer is no data.
    Ok(Some(part.into_data().unwrap_or_default()))
}

impl S3Error {
    /// True if the same request may succeed later.
    fn is_passing(&self) -> bool {
        match self {
            S3Error::Connect(_) | S3Error::Timeout => true,
            S3Error::Refused { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}

/// The digest of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn insert(to: &mut HeaderMap, headers: Vec<(&'static str, String)>) -> Result<(), S3Error> {
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(&value).map_err(|_| S3Error::NoCredentials)?;
        value.set_sensitive(true);
        to.insert(name, value);
    }
    Ok(())
}

/// The base of URLs and the `Host` of an endpoint.
fn address(endpoint: &str, region: &str) -> Result<(String, String), S3Error> {
    let endpoint = match endpoint {
        "" => format!("https://s3.{region}.amazonaws.com"),
        endpoint => endpoint.trim_end_matches('/').to_owned(),
    };
    let invalid = || S3Error::Address(format!("{endpoint:?} is not https://HOST or https://HOST:PORT"));
    let uri: http::Uri = endpoint.parse().map_err(|_| invalid())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(invalid)?;
    let has_only_host = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
    match scheme {
        _ if !has_only_host => return Err(invalid()),
        "https" => {}
        "http" if is_loopback(authority.host()) => {}
        "http" => {
            let why = format!(
                "{endpoint}: without TLS, others on the network read the cluster's keys; use https://"
            );
            return Err(S3Error::Address(why));
        }
        _ => return Err(invalid()),
    }
    let default = if scheme == "https" { 443 } else { 80 };
    let host = match authority.port_u16() {
        Some(port) if port != default => authority.to_string(),
        _ => authority.host().to_owned(),
    };
    Ok((endpoint.clone(), host))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The response, or its error with the server's own words.
async fn expect_success(response: Response<Incoming>) -> Result<Response<Incoming>, S3Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = timeout(RESPONSE, Limited::new(response.into_body(), MAX_PAGE).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let message = element(&text, "Code").into_iter().chain(element(&text, "Message"));
    let message: String = message.collect::<Vec<_>>().join(": ");
    // Shown on terminals and in logs.
    let message = message.chars().filter(|c| !c.is_control()).take(MAX_ERROR).collect();
    Err(S3Error::Refused { status, message })
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(content, _)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoint: &str) -> S3Options {
        let credentials = S3Credentials::new("id", "secret");
        S3Options { endpoint: endpoint.into(), region: "us-east-1".into(), ca_file: None, credentials }
    }

    #[test]
    fn archives_are_sent_over_tls_or_to_loopback_only() {
        for good in
            ["", "https://s3.example.com", "http://127.0.0.1:9000/", "http://[::1]:9", "http://localhost"]
        {
            assert!(Bucket::open("bucket/a/b", &options(good)).is_ok(), "{good}");
        }
        for bad in
            ["http://s3.example.com", "http://10.0.0.1", "ftp://x", "x", "https://h/path", "https://u@h"]
        {
            assert!(Bucket::open("bucket", &options(bad)).is_err(), "{bad}");
        }
        assert_eq!(address("https://h:443", "r").unwrap().1, "h");
        assert_eq!(address("https://h:444/", "r").unwrap(), ("https://h:444".into(), "h:444".into()));
    }

    #[test]
    fn names_need_no_encoding() {
        for bad in ["", "ab", "Bucket", "bucket/a b", "bucket/../other", "bucket/a?b", "bu cket"] {
            assert!(Bucket::open(bad, &options("")).is_err(), "{bad}");
        }
    }
}
