//! `corten bench admission`: the CPU time that admission policies add to a create.
//!
//! Config maps are created without being stored (`dryRun`), so that the disk plays no part: first without policies, then with
//! many that do not match, then with some that do. The difference of the server's CPU time per request is what policies
//! cost. Webhooks would be another phase beside them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use crate::http::{Target, write_request};
use crate::load::{self, Job, WriteRequest, excerpt};
use crate::process::{self, ServerProcess};
use crate::report::Report;
use crate::usage;

const JSON: &str = "application/json";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Parts of the server that would use the machine during the measurement.
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";
/// Rounds of each phase; the fastest counts, because other processes only add to it.
const ROUNDS: usize = 3;

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    /// Policies that match no request.
    pub unmatched: usize,
    /// Policies that match every request.
    pub matched: usize,
    /// Creates of each round.
    pub creates: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// The server binary to measure; this program if none is given.
    pub server_binary: Option<PathBuf>,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        AdmissionOptions {
            unmatched: 1_000,
            matched: 100,
            creates: 20_000,
            connections: 8,
            server_binary: None,
            work_dir: env::temp_dir(),
        }
    }
}

/// Runs the whole benchmark. Takes about a minute, and a temporary directory that is removed at the end.
pub async fn admission(options: AdmissionOptions) -> anyhow::Result<Report> {
    ensure!(options.creates > 0 && options.connections > 0, "there must be creates and connections");
    process::raise_open_files_limit()?;
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let outcome = measure(&options, dir.path(), &mut report).await;
    outcome.with_context(|| format!("the benchmark stopped; measured so far:\n{}", report.table()))?;
    Ok(report)
}

async fn measure(options: &AdmissionOptions, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    report
        .phase("options")
        .set("unmatched", options.unmatched as f64)
        .set("matched", options.matched as f64)
        .set("creates", options.creates as f64)
        .set("connections", options.connections as f64);
    let server = start(options, dir).await?;
    let (target, pid) = (Arc::clone(&server.target), server.pid);
    let bare = creates(options, &target, pid, "bare", report).await?;
    let mut phase = async |name: &'static str, count: usize, resource: &str| -> anyhow::Result<()> {
        for at in 0..count {
            install(&target, &format!("{name}-{at}"), resource).await?;
        }
        let cost = creates(options, &target, pid, name, report).await?;
        report.phase(name).set("policies", count as f64).set("added_us", cost - bare);
        for at in 0..count {
            remove(&target, &format!("{name}-{at}")).await?;
        }
        Ok(())
    };
    phase("unmatched", options.unmatched, "secrets").await?;
    phase("matched", options.matched, "configmaps").await?;
    server.stop().await?;
    Ok(())
}

async fn start(options: &AdmissionOptions, dir: &Path) -> anyhow::Result<ServerProcess> {
    let binary = match &options.server_binary {
        Some(binary) => binary.clone(),
        None => env::current_exe().context("cannot find this program")?,
    };
    let (kubeconfig, data_dir) = (dir.join("kubeconfig"), dir.join("data"));
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--bind-address", "127.0.0.1", "--secure-port", "0"].map(OsString::from));
    arguments.extend(["--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    ServerProcess::start(&binary, &arguments, &kubeconfig, "/readyz", &dir.join("server.log")).await
}

/// Creates config maps in several rounds. Returns the least CPU time of the server per request, in microseconds.
async fn creates(
    options: &AdmissionOptions,
    target: &Arc<Target>,
    pid: u32,
    name: &'static str,
    report: &mut Report,
) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    // The first round only compiles and warms up.
    for round in 0..=ROUNDS {
        let host = target.host.clone();
        let request: WriteRequest = Box::new(move |index, out| {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{index}","labels":{{"app":"web"}}}},"data":{{"key":"value"}}}}"#
            );
            let path = format_args!("{CONFIG_MAPS}?dryRun=All");
            write_request(out, &host, "POST", path, Some((JSON, body.as_bytes())));
        });
        let total = if round == 0 { options.creates.min(1000) } else { options.creates };
        let job = Job { connections: options.connections, total, request, observe: None };
        let before = usage::cpu_seconds(pid)?;
        let outcome = load::run(target, job).await?;
        let cost = (usage::cpu_seconds(pid)? - before) * 1e6 / total as f64;
        let phase = report.phase(name);
        phase.set_first_error(outcome.first_error.clone());
        if round > 0 && cost < least {
            least = cost;
            phase
                .set("per_s", outcome.per_second())
                .set("p50_ms", outcome.latency_ms(0.5))
                .set("p99_ms", outcome.latency_ms(0.99))
                .set("cpu_us", cost);
        }
    }
    Ok(least)
}

/// Creates a policy with a binding.
async fn install(target: &Target, name: &str, resource: &str) -> anyhow::Result<()> {
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"{name}"}},"spec":{{"matchConstraints":{{"resourceRules":[{{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["{resource}"]}}]}},"validations":[{{"expression":"has(object.metadata.labels) && object.metadata.labels.app == 'web'"}}]}}}}"#
    );
    let binding = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{{"name":"{name}"}},"spec":{{"policyName":"{name}","validationActions":["Deny"]}}}}"#
    );
    send(target, "POST", &format!("{GROUP}/validatingadmissionpolicies"), &policy).await?;
    send(target, "POST", &format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await
}

async fn remove(target: &Target, name: &str) -> anyhow::Result<()> {
    for resource in ["validatingadmissionpolicybindings", "validatingadmissionpolicies"] {
        send(target, "DELETE", &format!("{GROUP}/{resource}/{name}"), "{}").await?;
    }
    Ok(())
}

async fn send(target: &Target, method: &str, path: &str, body: &str) -> anyhow::Result<()> {
    let mut request = Vec::new();
    write_request(&mut request, &target.host, method, format_args!("{path}"), Some((JSON, body.as_bytes())));
    let (status, answer) = load::once(target, &request).await?;
    if !matches!(status, 200..300) {
        bail!("{method} {path}: {status}: {}", excerpt(&answer));
    }
    Ok(())
}
