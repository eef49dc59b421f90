//! The figures of the server of names where CoreDNS has them: plainly over HTTP, on port 9153 of its own address.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{Clock, ConnectionLimits, Connections};
use corten_dns::{Dns, MayAsk};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

const PORT: u16 = 9153;
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(5);

/// Serves them until it is dropped. A predecessor may still have the port.
pub(super) async fn serve(dns: Arc<Dns>, address: IpAddr, may_ask: MayAsk, clock: Clock) {
    let listener = loop {
        match TcpListener::bind((address, PORT)).await {
            Ok(listener) => break listener,
            Err(error) => tracing::debug!(%address, %error, "figures cannot be served yet"),
        }
        clock.sleep(RETRY).await;
    };
    let connections = Connections::new(ConnectionLimits::FEW);
    loop {
        match listener.accept().await {
            Ok((_, asker)) if !may_ask(asker.ip()) => {}
            Ok((stream, asker)) => {
                let Some(place) = connections.enter(asker.ip()) else { continue };
                let connection = connection(stream, dns.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                clock.sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, dns: Arc<Dns>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path(), &dns);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection ended");
    }
}

fn answer(path: &str, dns: &Dns) -> Response<Full<Bytes>> {
    let (code, text) = match path {
        "/metrics" => (StatusCode::OK, dns.metrics()),
        "/health" => (StatusCode::OK, "OK".to_owned()),
        "/ready" if dns.is_synced() => (StatusCode::OK, "OK".to_owned()),
        "/ready" => (StatusCode::SERVICE_UNAVAILABLE, "kubernetes".to_owned()),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = code;
    answer
}
