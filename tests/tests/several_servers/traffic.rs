//! Traffic to the pods through a Service, on each node: it must never stop, whatever happens to servers and agents.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use corten_e2e::{PORT, eventually};
use serde_json::json;

use crate::cluster::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The pause between connections.
const PAUSE: Duration = Duration::from_millis(100);

/// The running traffic.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Creates the Service and starts to use it in every pod.
    pub(crate) fn start(cluster: &Cluster) -> Traffic {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "local"},
            "spec": {
                "selector": {"app": "local"}, "internalTrafficPolicy": "Local",
                "ports": [{"port": 80, "targetPort": PORT}],
            },
        });
        let client = cluster.client(0);
        let made = cluster.outside.run(|| client.post(SERVICES, &service).expect(201));
        let address: IpAddr =
            made["spec"]["clusterIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
        let to = SocketAddr::new(address, 80);
        for (number, pod) in cluster.pods.iter().enumerate() {
            let own = format!("p{number}");
            eventually("the service works", || pod.ask(to).is_ok_and(|answer| answer.who == own));
        }
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = cluster.pods.iter().enumerate().map(|(number, pod)| {
            let (stop, asked, pod, own) = (stop.clone(), asked.clone(), pod.again(), format!("p{number}"));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = pod.ask(to).unwrap_or_else(|error| panic!("{own} does not serve: {error}"));
                    assert_eq!(answer.who, own, "the pod of the node answers");
                    asked.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PAUSE);
                }
            })
        });
        let threads = threads.collect();
        Traffic { stop, asked, threads }
    }

    /// Ends the traffic; fails if a connection failed. Returns the number of connections.
    pub(crate) fn finish(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.asked.load(Ordering::Relaxed)
    }
}
