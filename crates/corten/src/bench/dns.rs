//! `corten bench dns`: a DNS server with a large cluster in memory, on one thread, queried over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::Context;
use corten_api::{Value, value};
use corten_base::Clock;
use corten_bench::{DnsOptions, Report};
use corten_client::{Change, Kind, Object, kinds};
use corten_dns::{Bound, Dns, Options, all_clients};

const ENDPOINTS: usize = 10;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
    /// Number of Services, every other one headless with ten endpoints.
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Seconds to send queries.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Report> {
    let options = Options {
        domain: "cluster.local".to_owned(),
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        resolv_conf: PathBuf::from("/dev/null"),
    };
    let dns = Arc::new(Dns::new(&options, Clock::real())?);
    fill(&dns, args.services);
    let server = serve(dns)?;
    // Half of the Services have a cluster IP, as most have; the other half have ten endpoints each.
    let names = (0..args.services).map(|number| format!("s{number}.default.svc.cluster.local")).collect();
    corten_bench::dns(&DnsOptions { server, names, seconds: args.seconds, clients: 2 })
}

/// Runs the server on one thread, so that it uses one core.
fn serve(dns: Arc<Dns>) -> anyhow::Result<SocketAddr> {
    let (ready, address) = channel();
    let serve = move || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let bound = Bound::bind(Ipv4Addr::LOCALHOST.into(), 0).await.context("cannot bind a port")?;
            ready.send(bound.address()?).context("cannot report the address")?;
            bound.serve(dns, all_clients()).await;
            Ok(())
        })
    };
    std::thread::Builder::new().name("dns".to_owned()).spawn(serve).context("cannot start a thread")?;
    address.recv().context("the DNS server did not start")
}

fn fill(dns: &Dns, services: usize) {
    put(dns, &kinds::NAMESPACES, &kinds::NAMESPACES.new_object("", "default"));
    for number in 0..services {
        let name = format!("s{number}");
        let headless = number % 2 == 1;
        let (high, low) = (number / 250, number % 250 + 1);
        let address =
            if headless { "None".to_owned() } else { format!("10.{}.{}.{low}", 96 + high / 250, high % 250) };
        let mut service = kinds::SERVICES.new_object("default", &name);
        let ports = || value!([{"name": "http", "protocol": "TCP", "port": 80}]);
        service.set(
            &["spec"],
            value!({"clusterIP": (address.as_str()), "clusterIPs": [(address.as_str())], "ports": (ports())}),
        );
        put(dns, &kinds::SERVICES, &service);
        let endpoint = |at: usize| {
            let number = number * ENDPOINTS + at;
            let address =
                format!("10.{}.{}.{}", 128 + number / 62500 % 100, number / 250 % 250, number % 250 + 1);
            value!({"addresses": [(address)]})
        };
        let mut slice = kinds::ENDPOINT_SLICES.new_object("default", &name);
        slice.set(&["metadata", "labels", "kubernetes.io/service-name"], name.as_str());
        slice.set(&["endpoints"], Value::Array((0..ENDPOINTS).map(endpoint).collect()));
        slice.set(&["ports"], ports());
        put(dns, &kinds::ENDPOINT_SLICES, &slice);
    }
}

fn put(dns: &Dns, kind: &Kind, object: &Value) {
    dns.apply(kind, &Change { old: None, new: Some(Arc::new(Object::of(object))) });
}
