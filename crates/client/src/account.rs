//! Requests as a service account. Its token is requested when it is first needed, and again before it expires.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::value;
use corten_base::Clock;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::transport::{EventStream, Transport, WatchRequest};
use crate::{Client, Error, Key, Remote, kinds};

/// The requested lifetime of a token in seconds, and how long it is used.
const LIFETIME: i64 = 3600;
const USED: Duration = Duration::from_secs(48 * 60);

/// A transport that authenticates as a service account.
#[derive(Clone)]
pub struct AccountTransport(Arc<Inner>);

struct Inner {
    /// The server, without credentials.
    remote: Remote,
    /// The client that requests tokens.
    client: Client,
    account: Key,
    clock: Clock,
    token: Mutex<Option<Token>>,
}

/// The token in use.
struct Token {
    remote: Remote,
    until: Timestamp,
}

impl AccountTransport {
    /// The account is created if it does not exist. `remote` must have no client certificate: the server would prefer it to the
    /// token.
    pub fn new(remote: Remote, client: Client, account: Key, clock: Clock) -> AccountTransport {
        AccountTransport(Arc::new(Inner { remote, client, account, clock, token: Mutex::default() }))
    }
}

impl Inner {
    async fn remote(&self) -> Result<Remote, Error> {
        let mut current = self.token.lock().await;
        let now = self.clock.now();
        if let Some(token) = current.as_ref().filter(|token| now < token.until) {
            return Ok(token.remote.clone());
        }
        let token = match self.request_token().await {
            Err(error) if error.is_not_found() => {
                self.create_account().await?;
                self.request_token().await?
            }
            token => token?,
        };
        let remote = self.remote.with_token(&token).map_err(Error::transport)?;
        let used = SignedDuration::try_from(USED).unwrap_or(SignedDuration::ZERO);
        *current = Some(Token { remote: remote.clone(), until: now.checked_add(used).unwrap_or(now) });
        Ok(remote)
    }

    async fn request_token(&self) -> Result<String, Error> {
        let request = value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME},
        });
        let kind = &kinds::SERVICE_ACCOUNTS;
        let answer = self.client.create_subresource(kind, &self.account, "token", &request).await?;
        let token = answer.str_at(&["status", "token"]).map(str::to_owned);
        token.ok_or_else(|| Error::transport("the TokenRequest response has no token"))
    }

    async fn create_account(&self) -> Result<(), Error> {
        let kind = &kinds::SERVICE_ACCOUNTS;
        let account = kind.new_object(&self.account.namespace, &self.account.name);
        match self.client.create(kind, &account).await {
            Err(error) if !error.already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Drops a token that the server rejected: the account may be a new one of the same name.
    async fn drop_token_if(&self, rejected: bool) {
        if rejected {
            *self.token.lock().await = None;
        }
    }
}

impl Transport for AccountTransport {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let answer = inner.remote().await?.call(request).await?;
            inner.drop_token_if(answer.status() == StatusCode::UNAUTHORIZED).await;
            Ok(answer)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let events = inner.remote().await?.watch(request).await;
            let rejected = events.as_ref().err().is_some_and(|error| error.code() == 401);
            inner.drop_token_if(rejected).await;
            events
        })
    }
}
