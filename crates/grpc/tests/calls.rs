//! Calls between the client and the server of this crate, over real sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corten_grpc::health::{CHECK, HealthCheckRequest, HealthCheckResponse, ServingStatus, WATCH};
use corten_grpc::{
    CallOptions, Channel, ChannelOptions, Code, Endpoint, Receiver, Router, Sender, ServerLimits, Status,
    serve_connection, serve_unix,
};
use http::Extensions;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(30);
/// A method that echoes a stream.
const ECHO: &str = "/test.Service/Echo";
/// A method that never responds.
const HANG: &str = "/test.Service/Hang";
const PANIC: &str = "/test.Service/Panic";

fn request(service: impl Into<String>) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

/// A server's methods; `ended` is told about every call of [`HANG`] that ends.
fn router(ended: mpsc::UnboundedSender<()>) -> Router {
    Router::default()
        .with_max_message(1 << 20)
        .unary(CHECK, |_, request: HealthCheckRequest| async move {
            match request.service.as_str() {
                "missing" => Err(Status::new(Code::NotFound, "unknown service: 100% \"missing\"")),
                _ => Ok(HealthCheckResponse { status: ServingStatus::Serving }),
            }
        })
        .server_streaming(WATCH, |_, request: HealthCheckRequest, sender| async move {
            for number in 0..request.service.len() as i32 {
                sender.send(&HealthCheckResponse { status: ServingStatus::from(number) }).await?;
            }
            Err(Status::new(Code::Aborted, "enough"))
        })
        .streaming(ECHO, |_, mut requests: Receiver<HealthCheckRequest>, sender| async move {
            while let Some(request) = requests.next().await? {
                sender.send(&request).await?;
            }
            Ok(())
        })
        .streaming(HANG, move |call, requests: Receiver<HealthCheckRequest>, sender| {
            let guard = Guard(ended.clone());
            async move {
                let _held: (_, Receiver<_>, Sender<HealthCheckResponse>, _) = (guard, requests, sender, call);
                std::future::pending().await
            }
        })
        .unary(PANIC, |_, _: HealthCheckRequest| async move {
            Err::<HealthCheckResponse, _>(Status::internal(format!("{}", 1 / "".len())))
        })
}

struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

struct Server {
    _directory: tempfile::TempDir,
    path: PathBuf,
    ended: mpsc::UnboundedReceiver<()>,
    task: tokio::task::JoinHandle<()>,
}

fn listen(path: &Path) -> (tokio::task::JoinHandle<()>, mpsc::UnboundedReceiver<()>) {
    let (sender, ended) = mpsc::unbounded_channel();
    let listener = UnixListener::bind(path).expect("cannot bind");
    let router = Arc::new(router(sender));
    (tokio::spawn(serve_unix(listener, router, ServerLimits::default())), ended)
}

fn server() -> Server {
    let directory = tempfile::tempdir().expect("no directory");
    let path = directory.path().join("socket");
    let (task, ended) = listen(&path);
    Server { _directory: directory, path, ended, task }
}

fn channel(paths: &[&Path]) -> Channel {
    let endpoints = paths.iter().map(|path| Endpoint::Unix(path.to_path_buf())).collect();
    Channel::new(endpoints, ChannelOptions::default())
}

async fn check(channel: &Channel, service: &str) -> Result<ServingStatus, Status> {
    let call = channel.unary(CHECK, &request(service), CallOptions::default());
    let response: HealthCheckResponse = timeout(DEADLINE, call).await.expect("no response")?;
    Ok(response.status)
}

#[tokio::test]
async fn unary_calls_return_messages_and_statuses() {
    let server = server();
    let channel = channel(&[&server.path]);
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
    let missing = Err(Status::new(Code::NotFound, "unknown service: 100% \"missing\""));
    assert_eq!(check(&channel, "missing").await, missing);
    for (method, message) in [
        ("/other.Service/Check", "unknown service other.Service"),
        ("/test.Service/Other", "unknown method Other for service test.Service"),
    ] {
        let call = channel.unary::<_, HealthCheckResponse>(method, &request(""), CallOptions::default());
        assert_eq!(call.await, Err(Status::new(Code::Unimplemented, message)));
    }
}

#[tokio::test]
async fn a_server_stream_ends_with_its_status() {
    let server = server();
    let channel = channel(&[&server.path]);
    let mut responses: Receiver<HealthCheckResponse> =
        channel.server_streaming(WATCH, &request("x".repeat(100)), CallOptions::default()).unwrap();
    for number in 0..100 {
        let response = timeout(DEADLINE, responses.next()).await.expect("no message").unwrap().unwrap();
        assert_eq!(response.status, ServingStatus::from(number));
    }
    for _ in 0..2 {
        assert_eq!(responses.next().await, Err(Status::new(Code::Aborted, "enough")));
    }
}

#[tokio::test]
async fn streams_run_in_both_directions() {
    let server = server();
    let channel = channel(&[&server.path]);
    let (sender, mut receiver) = channel.streaming(ECHO, CallOptions::default());
    // One at a time: the response comes before the request has ended.
    for number in 0..3 {
        sender.send(&request(format!("{number}"))).await.unwrap();
        let echo: HealthCheckRequest = timeout(DEADLINE, receiver.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(echo.service, number.to_string());
    }
    // More than the windows of HTTP/2 hold, so both sides wait for each other.
    let text = "x".repeat(1 << 19);
    let sending = async {
        for _ in 0..40 {
            sender.send(&request(text.clone())).await.unwrap();
        }
        drop(sender);
    };
    let receiving = async {
        let mut received = 0;
        while let Some(echo) = receiver.next().await.unwrap() {
            assert_eq!(echo.service.len(), text.len());
            received += 1;
        }
        received
    };
    let ((), received) = timeout(DEADLINE, async { tokio::join!(sending, receiving) }).await.unwrap();
    assert_eq!(received, 40);
}

#[tokio::test]
async fn deadlines_end_calls_on_both_sides() {
    let mut server = server();
    let channel = channel(&[&server.path]);
    let options = CallOptions::with_timeout(Duration::from_millis(50));
    let (_sender, mut receiver) = channel.streaming::<HealthCheckRequest, HealthCheckResponse>(HANG, options);
    let ended = timeout(DEADLINE, receiver.next()).await.unwrap();
    assert_eq!(ended.unwrap_err().code, Code::DeadlineExceeded);
    timeout(DEADLINE, server.ended.recv()).await.expect("the handler runs on").unwrap();
}

#[tokio::test]
async fn a_dropped_call_ends_its_handler() {
    let mut server = server();
    let channel = channel(&[&server.path]);
    let (sender, mut receiver) =
        channel.streaming::<HealthCheckRequest, HealthCheckResponse>(HANG, CallOptions::default());
    let waiting = tokio::spawn(async move { receiver.next().await.map(|_| ()) });
    // The queue has room again only once the server has begun to serve the call.
    timeout(DEADLINE, async {
        for _ in 0..8 {
            sender.send(&request("x")).await.unwrap();
        }
    })
    .await
    .unwrap();
    assert!(server.ended.try_recv().is_err());
    waiting.abort();
    timeout(DEADLINE, server.ended.recv()).await.expect("the handler runs on").unwrap();
    timeout(DEADLINE, sender.closed()).await.expect("the sender is still open");
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving), "the connection goes on");
}

#[tokio::test]
async fn a_message_over_a_limit_is_refused_on_either_side() {
    let server = server();
    let channel = channel(&[&server.path]);
    let refused = check(&channel, &"x".repeat(2 << 20)).await.unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(refused.message, "grpc: received message larger than max (2097157 vs. 1048576)");
    let options = CallOptions { max_message: 1, ..CallOptions::default() };
    let refused = channel.unary::<_, HealthCheckResponse>(CHECK, &request("x"), options).await.unwrap_err();
    assert_eq!(refused.message, "grpc: received message larger than max (2 vs. 1)");
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_a_missing_endpoint_skipped() {
    let first = server();
    let second = server();
    let channel = channel(&[Path::new("/nonexistent/socket"), &first.path, &second.path]);
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
    let (_sender, mut stream) =
        channel.streaming::<HealthCheckRequest, HealthCheckResponse>(HANG, CallOptions::default());
    // Both the socket and its connections are gone.
    first.task.abort();
    std::fs::remove_file(&first.path).unwrap();
    channel.fail_over().await;
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
    let (task, _ended) = {
        second.task.abort();
        std::fs::remove_file(&second.path).unwrap();
        listen(&first.path)
    };
    channel.fail_over().await;
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
    task.abort();
    drop(channel);
    assert!(timeout(Duration::from_millis(1), stream.next()).await.is_err(), "old streams go on");
}

#[tokio::test]
async fn unreachable_endpoints_are_reported() {
    let channel = channel(&[Path::new("/nonexistent/socket")]);
    let failed = check(&channel, "web").await.unwrap_err();
    assert_eq!(failed.code, Code::Unavailable);
    assert!(failed.message.starts_with("cannot connect to /nonexistent/socket: No such file"), "{failed}");
    let none = Channel::new(Vec::new(), ChannelOptions::default());
    assert_eq!(check(&none, "web").await, Err(Status::unavailable("no endpoints")));
}

#[tokio::test]
async fn a_panic_ends_only_its_own_call() {
    let server = server();
    let channel = channel(&[&server.path]);
    let call = channel.unary::<_, HealthCheckResponse>(PANIC, &request(""), CallOptions::default());
    timeout(DEADLINE, call).await.expect("no response").unwrap_err();
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
}

#[tokio::test]
async fn calls_run_over_tls_and_a_stopped_server_completes_them() {
    let certified = rcgen::generate_simple_self_signed(["etcd.test".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        let router = Arc::new(router(mpsc::unbounded_channel().0));
        let stop = async move { stopped.await.unwrap() };
        serve_connection(stream, router, Extensions::new(), ServerLimits::default(), stop).await;
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let endpoint = Endpoint::parse(&format!("https://127.0.0.1:{port}"), Some(&Arc::new(tls))).unwrap();
    let options = ChannelOptions { server_name: Some("etcd.test".to_owned()), ..ChannelOptions::default() };
    let channel = Channel::new(vec![endpoint], options);
    assert_eq!(check(&channel, "web").await, Ok(ServingStatus::Serving));
    let (sender, mut receiver) = channel.streaming(ECHO, CallOptions::default());
    sender.send(&request("before")).await.unwrap();
    receiver.next().await.unwrap().unwrap();
    stop.send(()).unwrap();
    sender.send(&request("after")).await.unwrap();
    let echo: HealthCheckRequest = timeout(DEADLINE, receiver.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(echo.service, "after");
    drop(sender);
    assert_eq!(receiver.next().await, Ok(None));
    timeout(DEADLINE, serving).await.expect("the connection is still open").unwrap();
}
