//! `corten bench cluster`: the time from the first start of the program on a machine until a Deployment answers by the DNS
//! name of its Service.
//!
//! The machine is a network namespace with an empty data directory. The image is imported before, because the time of a pull
//! depends on the registry. Nothing is left behind, even after a failure.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use corten_api::{Value, json, value};
use corten_base::Clock;
use corten_client::{Caches, Client, DeleteOptions, Key, Remote, kinds};
use corten_container::image::{Store, busybox_archive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

use crate::dns::query;
use crate::line::Line;
use crate::process::{self, ServerProcess};
use crate::report::Report;

const NAMESPACE: &str = "default";
const NAME: &str = "web";
const IMAGE: &str = "corten.local/web:1";
/// The container's script: answers every request with the pod's name.
const SCRIPT: &str = "hostname > /tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp";
/// The DNS Service's address, which the node can query, too.
const DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)), 53);
/// The timeout of one request.
const PATIENCE: Duration = Duration::from_millis(200);
/// The delay between requests.
const PACE: Duration = Duration::from_millis(5);
/// The deadline of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The number of pods that have to answer.
    pub replicas: usize,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions { replicas: 2, work_dir: env::temp_dir() }
    }
}

/// Runs the benchmark in a network namespace of its own.
pub fn cluster(options: &ClusterOptions) -> anyhow::Result<Report> {
    ensure!(options.replicas > 0, "there must be at least one replica");
    let line = Line::new().context("cannot create network namespaces")?;
    let measured = line.client.run(|| {
        // One thread, so that everything it does and starts is in that namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(measure(options)))
    });
    measured.context("cannot run in a network namespace")?
}

async fn measure(options: &ClusterOptions) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let data_dir = dir.path().join("data");
    import(&data_dir)?;
    let started = Instant::now();
    let server = start(dir.path(), &data_dir).await?;
    let mut report = Report::default();
    report.phase("cluster").set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let client = client(&data_dir)?;
    let outcome = answers(options, &client, started, &mut report).await;
    let state = if outcome.is_err() { state(&client).await } else { String::new() };
    let cleared = clear(&client).await;
    outcome.with_context(|| format!("{state}{}", process::tail(&dir.path().join("log"))))?;
    cleared?;
    server.stop().await?;
    Ok(report)
}

/// Imports the image into the node's store.
fn import(data_dir: &Path) -> anyhow::Result<()> {
    let archive = busybox_archive(&[IMAGE], &["sh", "-c", SCRIPT]).context("cannot create an image")?;
    let store = Store::open(corten_container::folder(data_dir)).context("cannot open the images")?;
    store.import(archive.as_slice()).context("cannot import the image")?;
    Ok(())
}

async fn start(dir: &Path, data_dir: &Path) -> anyhow::Result<ServerProcess> {
    let this_program = env::current_exe().context("cannot find this program")?;
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--pod-network", "built-in", "--pod-manifest-path", ""].map(Into::into));
    arguments.extend(process::ON_FULL_DISKS.map(Into::into));
    let kubeconfig = data_dir.join("admin.kubeconfig");
    ServerProcess::start(&this_program, &arguments, &kubeconfig, "/readyz", &dir.join("log")).await
}

fn client(data_dir: &Path) -> anyhow::Result<Client> {
    let text =
        std::fs::read_to_string(data_dir.join("admin.kubeconfig")).context("cannot read the kubeconfig")?;
    let remote = Remote::new(&corten_pki::parse_kubeconfig(&text)?)?;
    Ok(Client::new(Arc::new(remote), "corten-bench"))
}

/// Creates a Deployment and its Service, and sends requests until every pod has answered.
async fn answers(
    options: &ClusterOptions,
    client: &Client,
    started: Instant,
    report: &mut Report,
) -> anyhow::Result<()> {
    client.create(&kinds::DEPLOYMENTS, &deployment(options.replicas)).await?;
    client.create(&kinds::SERVICES, &service()).await?;
    let mut seen = BTreeSet::new();
    let all_answer = async {
        while seen.len() < options.replicas {
            match timeout(PATIENCE, ask()).await {
                Ok(Ok(pod)) => {
                    if seen.is_empty() {
                        report.phase("cluster").set("first_answer_ms", started.elapsed().as_secs_f64() * 1e3);
                    }
                    seen.insert(pod);
                }
                _ => sleep(PACE).await,
            }
        }
        report.phase("cluster").set("all_answer_ms", started.elapsed().as_secs_f64() * 1e3);
    };
    let answered = timeout(LIMIT, all_answer).await;
    answered.with_context(|| format!("only {seen:?} answered within {LIMIT:?}"))
}

/// The state of the pods, for an error message.
async fn state(client: &Client) -> String {
    let mut state = String::new();
    for kind in [&kinds::PODS, &kinds::ENDPOINT_SLICES, &kinds::EVENTS] {
        let mut listed = client.list(kind, NAMESPACE).await.unwrap_or_default();
        let objects = listed.get_mut("items").and_then(Value::as_array_mut);
        for object in objects.into_iter().flatten() {
            object.remove(&["metadata", "managedFields"]);
            state.push_str(&format!("{}: {}\n", kind.kind, json::write_to_string(object)));
        }
    }
    state
}

/// Sends one request to the Service by its DNS name; returns the name of the pod that answered.
async fn ask() -> io::Result<String> {
    let mut stream = TcpStream::connect((look_up().await?, 80)).await?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let name = answer.rsplit("\r\n\r\n").next().unwrap_or_default().trim().to_owned();
    if name.starts_with(NAME) { Ok(name) } else { Err(io::Error::other("the response does not name a pod")) }
}

/// Resolves the Service's DNS name.
async fn look_up() -> io::Result<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket.connect(DNS).await?;
    socket.send(&query(&format!("{NAME}.{NAMESPACE}.svc.cluster.local"))).await?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await?;
    let found = buffer[3] & 15 == 0 && buffer[7] == 1;
    // The response ends with the only address.
    let address = buffer[..length].last_chunk::<4>().filter(|_| found);
    address.map(|address| Ipv4Addr::from(*address)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Deletes all pods and waits until they are gone.
async fn clear(client: &Client) -> anyhow::Result<()> {
    let options = DeleteOptions::default();
    client.delete(&kinds::DEPLOYMENTS, &Key::new(NAMESPACE, NAME), &options).await?;
    let caches = Caches::new(client.clone(), Clock::real());
    let pods = caches.of(&kinds::PODS);
    let gone = async {
        pods.synced().await;
        pods.until(|pods| pods.has_none_in(NAMESPACE)).await;
    };
    timeout(LIMIT, gone).await.context("some pods were not deleted in time")
}

fn deployment(replicas: usize) -> Value {
    let mut deployment = kinds::DEPLOYMENTS.new_object(NAMESPACE, NAME);
    let container = value!({"name": "web", "image": (IMAGE), "imagePullPolicy": "Never"});
    deployment.set(
        &["spec"],
        value!({
            "replicas": (replicas as i64), "selector": {"matchLabels": {"app": (NAME)}},
            "template": {
                "metadata": {"labels": {"app": (NAME)}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [(container)]},
            },
        }),
    );
    deployment
}

fn service() -> Value {
    let mut service = kinds::SERVICES.new_object(NAMESPACE, NAME);
    let port = value!({"port": 80, "targetPort": 8080});
    service.set(&["spec"], value!({"selector": {"app": (NAME)}, "ports": [(port)]}));
    service
}
