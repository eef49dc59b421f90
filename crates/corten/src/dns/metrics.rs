//! The metrics and health endpoints of the DNS server, where CoreDNS has them: HTTP on port 9153 of its own address.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_dns::{ClientFilter, Dns};
use corten_serving::http::{self as serving, HttpServer};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;

const PORT: u16 = 9153;
const RETRY: Duration = Duration::from_secs(5);

/// Serves until the returned future is dropped. Binding is retried, because an earlier process may still have the port.
pub(super) async fn serve(dns: Arc<Dns>, address: IpAddr, accepts: ClientFilter, clock: Clock) {
    let listener = loop {
        match TcpListener::bind((address, PORT)).await {
            Ok(listener) => break listener,
            Err(err) => tracing::debug!(%address, %err, "cannot bind DNS metrics listener; retrying"),
        }
        clock.sleep(RETRY).await;
    };
    let handler = move |request: Request<Incoming>| std::future::ready(respond(request.uri().path(), &dns));
    let connect = move |peer: serving::Peer<'_>| accepts(peer.address.ip()).then(|| handler.clone());
    HttpServer::for_health().serve(listener, connect).await;
}

fn respond(path: &str, dns: &Dns) -> Response<String> {
    match path {
        "/metrics" => serving::metrics(dns.metrics()),
        "/health" => serving::text(StatusCode::OK, "OK"),
        "/ready" if dns.is_synced() => serving::text(StatusCode::OK, "OK"),
        "/ready" => serving::text(StatusCode::SERVICE_UNAVAILABLE, "kubernetes"),
        _ => serving::not_found(),
    }
}
