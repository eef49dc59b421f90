//! Requests in the identity of a service account: its token is asked for when it is first needed, and again before
//! it is over.

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

/// How long a token is asked for, and how much of that it is used.
const LIFETIME: i64 = 3600;
const USED: Duration = Duration::from_secs(48 * 60);

/// A way to a server as a service account.
#[derive(Clone)]
pub struct AccountTransport(Arc<Inner>);

struct Inner {
    /// The server, without any identity.
    remote: Remote,
    /// Who asks for tokens.
    client: Client,
    account: Key,
    clock: Clock,
    held: Mutex<Option<Held>>,
}

/// A token in use.
struct Held {
    remote: Remote,
    until: Timestamp,
}

impl AccountTransport {
    /// The account is made if it is not there. The way to the server must show no certificate: it would count
    /// before the token.
    pub fn new(remote: Remote, client: Client, account: Key, clock: Clock) -> AccountTransport {
        AccountTransport(Arc::new(Inner { remote, client, account, clock, held: Mutex::default() }))
    }
}

impl Inner {
    async fn remote(&self) -> Result<Remote, Error> {
        let mut held = self.held.lock().await;
        let now = self.clock.now();
        if let Some(held) = held.as_ref().filter(|held| now < held.until) {
            return Ok(held.remote.clone());
        }
        let token = match self.ask().await {
            Err(error) if error.is_not_found() => {
                self.make_account().await?;
                self.ask().await?
            }
            token => token?,
        };
        let remote = self.remote.with_token(&token).map_err(Error::transport)?;
        let used = SignedDuration::try_from(USED).unwrap_or(SignedDuration::ZERO);
        *held = Some(Held { remote: remote.clone(), until: now.checked_add(used).unwrap_or(now) });
        Ok(remote)
    }

    async fn ask(&self) -> Result<String, Error> {
        let request = value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME},
        });
        let kind = &kinds::SERVICE_ACCOUNTS;
        let answer = self.client.create_subresource(kind, &self.account, "token", &request).await?;
        let token = answer.str_at(&["status", "token"]).map(str::to_owned);
        token.ok_or_else(|| Error::transport("the server gave no token"))
    }

    async fn make_account(&self) -> Result<(), Error> {
        let kind = &kinds::SERVICE_ACCOUNTS;
        let account = kind.new_object(&self.account.namespace, &self.account.name);
        match self.client.create(kind, &account).await {
            Err(error) if !error.already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// A token that is believed no longer is not used again: the account may be a new one of the same name.
    async fn forget_if(&self, refused: bool) {
        if refused {
            *self.held.lock().await = None;
        }
    }
}

impl Transport for AccountTransport {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let answer = inner.remote().await?.call(request).await?;
            inner.forget_if(answer.status() == StatusCode::UNAUTHORIZED).await;
            Ok(answer)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let events = inner.remote().await?.watch(request).await;
            let refused = events.as_ref().err().is_some_and(|error| error.code() == 401);
            inner.forget_if(refused).await;
            events
        })
    }
}
