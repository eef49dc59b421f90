//! `proxy` of pods, services and nodes: requests to their servers.
//!
//! The address that was checked is the one that is dialed ([`super::address`]). The kubelet's own port is the exception, as
//! it is for logs and sessions: there the kubelet's certificate is verified.

use std::net::{IpAddr, SocketAddr};

use corten_api::{Status, Value};
use http::header::{HeaderName, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};

use super::address::{is_proxyable, resolve};
use super::backend::ProxyBackend;
use super::forward::Sent;
use super::links::{self, Place};
use super::object;
use crate::aggregation::encoded_path;
use crate::body::ResponseBody;
use crate::call::{Backend, Call};
use crate::random;
use crate::respond::Answer;

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// Proxies a request, to its own path unless admission chose another one.
pub(super) async fn answer(call: &Call, sent: Sent, path: Option<&str>) -> Result<Answer, Status> {
    let backend = match call.served.name() {
        "pods" => of_pod(call)?,
        "services" => of_service(call)?,
        _ => of_node(call).await?,
    };
    if let Some(path) = path {
        let path = encoded_path(&format!("/{}", path.trim_start_matches('/')));
        return forward(sent, &backend, &path).await;
    }
    let Some(path) = rest(sent.uri.path(), !call.at.namespace.is_empty()) else {
        if matches!(*sent.method(), Method::GET | Method::HEAD) && !sent.is_upgrade() {
            return redirect(&sent);
        }
        return forward(sent, &backend, "/").await;
    };
    let path = format!("/{path}");
    forward(sent, &backend, &path).await
}

async fn forward(mut sent: Sent, backend: &ProxyBackend, path: &str) -> Result<Answer, Status> {
    let query = sent.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let failed = |why| Status::unavailable(format!("error trying to reach service: {why}"));
    let place = (!sent.is_upgrade()).then(|| place(&mut sent, backend, path));
    let answer = sent.send_to(backend, &format!("{path}{query}")).await.map_err(failed)?;
    Ok(match place {
        Some(place) => links::rewrite_links(answer, place),
        None => answer,
    })
}

/// The location of the response, as both ends see it. Sets the `X-Forwarded-*` headers for the server.
fn place(sent: &mut Sent, backend: &ProxyBackend, path: &str) -> Place {
    let whole = sent.uri.path();
    let prefix = whole.strip_suffix(path).unwrap_or(whole).to_owned();
    let forwarded = HeaderValue::from_str(whole).ok();
    let asked = sent.host().to_owned();
    sent.set_header(FORWARDED_URI, forwarded);
    Place { prefix, host: backend.authority(), asked }
}

/// Redirects to the path with a trailing slash: relative links only work below a directory.
fn redirect(sent: &Sent) -> Result<Answer, Status> {
    let query = sent.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let to = format!("{}/{query}", sent.uri.path()).parse().map_err(Status::internal)?;
    answer.headers_mut().insert(LOCATION, to);
    Ok(answer)
}

/// The part of a path after the proxy's own; `None` without a slash.
fn rest(path: &str, namespaced: bool) -> Option<&str> {
    // `api/v1/namespaces/N/pods/P/proxy`, or `api/v1/nodes/N/proxy`.
    let own = if namespaced { 7 } else { 5 };
    path.trim_start_matches('/').splitn(own + 1, '/').nth(own)
}

/// `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    secure: bool,
    name: &'a str,
    port: &'a str,
}

impl Target<'_> {
    fn parse(text: &str) -> Option<Target<'_>> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let known = matches!(scheme, "" | "http" | "https");
        (known && !name.is_empty()).then_some(Target { secure: scheme == "https", name, port })
    }

    fn backend(&self, call: &Call, host: &str, port: u16, resolved: Vec<SocketAddr>) -> ProxyBackend {
        let tls = self.secure.then(|| call.backend.kubelets.any_certificate());
        ProxyBackend { host: host.to_owned(), port, resolved, tls }
    }

    fn default_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

type Found = Result<ProxyBackend, Status>;

fn of_pod(call: &Call) -> Found {
    let asked = &*call.at.name;
    let target =
        Target::parse(asked).ok_or_else(|| Status::bad_request(format!("invalid pod request {asked:?}")))?;
    let pod = object(call, target.name)?;
    let ip = pod.str_at(&["status", "podIP"]).unwrap_or_default();
    let address = proxyable(ip).ok_or_else(|| Status::bad_request("address not allowed"))?;
    let port = match target.port {
        "" => first_port(&pod).unwrap_or_else(|| target.default_port()),
        port => port.parse().map_err(|_| Status::bad_request(format!("invalid pod request {asked:?}")))?,
    };
    Ok(target.backend(call, ip, port, vec![SocketAddr::new(address, port)]))
}

fn first_port(pod: &Value) -> Option<u16> {
    let containers = pod.items_at(&["spec", "containers"]).iter();
    let mut ports = containers.filter_map(|container| container.items_at(&["ports"]).first());
    u16::try_from(ports.next()?.int_at(&["containerPort"])?).ok()
}

/// The address, if requests may be proxied to it.
fn proxyable(ip: &str) -> Option<IpAddr> {
    ip.parse().ok().filter(|address| is_proxyable(*address))
}

fn of_service(call: &Call) -> Found {
    let asked = &*call.at.name;
    let target = Target::parse(asked)
        .ok_or_else(|| Status::bad_request(format!("invalid service request {asked:?}")))?;
    let service = object(call, target.name)?;
    let port = service_port(&service, target.port).ok_or_else(|| {
        let (port, name) = (target.port, target.name);
        Status::unavailable(format!("no service port {port:?} found for service {name:?}"))
    })?;
    let slices = call.backend.catalog.cache("discovery.k8s.io", "endpointslices");
    let slices = slices.map(|cache| cache.snapshot(&call.at.namespace, None).objects).unwrap_or_default();
    let slices = slices.iter().map(|slice| slice.parsed());
    let pod = |name: &str| {
        let pods = call.backend.catalog.cache("", "pods")?;
        pods.get(&call.at.namespace, name).map(|pod| pod.tree())
    };
    let mut ready = ready_endpoints(slices, target.name, &port);
    ready.retain(|endpoint| is_of_pod(endpoint, &call.at.namespace, pod));
    let ready: Vec<SocketAddr> = ready
        .iter()
        .filter_map(|endpoint| Some(SocketAddr::new(proxyable(&endpoint.ip)?, endpoint.port)))
        .collect();
    if ready.is_empty() {
        let name = target.name;
        return Err(Status::unavailable(format!("no endpoints available for service {name:?}")));
    }
    let any = usize::try_from(random::below(ready.len() as u128)).unwrap_or(0);
    let address = ready[any];
    Ok(target.backend(call, &address.ip().to_string(), address.port(), vec![address]))
}

/// True if an endpoint is a pod of the namespace with the pod's own address. A user who may write endpoints must not be able
/// to choose other destinations for this server's requests.
fn is_of_pod(endpoint: &Endpoint, namespace: &str, pod: impl Fn(&str) -> Option<Value>) -> bool {
    let Some((of, name)) = &endpoint.target else { return false };
    let Some(pod) = Some(name).filter(|_| of == namespace).and_then(|name| pod(name)) else { return false };
    let mut ips = pod.items_at(&["status", "podIPs"]).iter().filter_map(|ip| ip.str_at(&["ip"]));
    ips.any(|ip| ip == endpoint.ip)
}

/// The ready endpoints of a service's port, for the server's own requests.
pub(crate) fn service_endpoints(
    backend: &Backend,
    namespace: &str,
    name: &str,
    port: i64,
) -> Result<Vec<SocketAddr>, String> {
    let services = backend.catalog.cache("", "services");
    let service = services.and_then(|cache| cache.get(namespace, name));
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?.tree();
    let port_name = service_port(&service, &port.to_string())
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let slices = backend.catalog.cache("discovery.k8s.io", "endpointslices");
    let slices = slices.map(|cache| cache.snapshot(namespace, None).objects).unwrap_or_default();
    let ready = ready_endpoints(slices.iter().map(|slice| slice.parsed()), name, &port_name);
    let address = |endpoint: &Endpoint| Some(SocketAddr::new(endpoint.ip.parse().ok()?, endpoint.port));
    let mut addresses: Vec<SocketAddr> = ready.iter().filter_map(address).collect();
    if addresses.is_empty() {
        return Err(format!("no endpoints available for service {name:?}"));
    }
    // Each call begins with another endpoint.
    let first = usize::try_from(random::below(addresses.len() as u128)).unwrap_or(0);
    addresses.rotate_left(first);
    Ok(addresses)
}

/// The name of the requested port of a service: by name, by number, or the only one.
fn service_port(service: &Value, asked: &str) -> Option<String> {
    let ports = service.items_at(&["spec", "ports"]);
    let name = |port: &Value| port.str_at(&["name"]).unwrap_or_default().to_owned();
    match (asked, ports) {
        ("", [only]) => Some(name(only)),
        ("", _) => ports.iter().map(name).find(String::is_empty),
        _ => {
            let number = asked.parse::<i64>().ok();
            let is_it =
                |port: &&Value| name(port) == asked || (number.is_some() && port.int_at(&["port"]) == number);
            ports.iter().find(is_it).map(name)
        }
    }
}

/// An endpoint that is ready.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint {
    ip: String,
    port: u16,
    /// The namespace and name of its target reference.
    target: Option<(String, String)>,
}

fn ready_endpoints<'a>(slices: impl Iterator<Item = &'a Value>, service: &str, port: &str) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for slice in slices {
        if slice.str_at(&["metadata", "labels", "kubernetes.io/service-name"]) != Some(service) {
            continue;
        }
        let mut ports = slice.items_at(&["ports"]).iter();
        let number = ports.find(|p| p.str_at(&["name"]).unwrap_or_default() == port);
        let number = number.and_then(|p| u16::try_from(p.int_at(&["port"])?).ok());
        let Some(number) = number else { continue };
        for endpoint in slice.items_at(&["endpoints"]) {
            if endpoint.bool_at(&["conditions", "ready"]).unwrap_or(true)
                && let Some(ip) = endpoint.items_at(&["addresses"]).first().and_then(Value::as_str)
            {
                let text =
                    |field: &str| endpoint.str_at(&["targetRef", field]).unwrap_or_default().to_owned();
                let target = endpoint.at(&["targetRef"]).map(|_| (text("namespace"), text("name")));
                found.push(Endpoint { ip: ip.to_owned(), port: number, target });
            }
        }
    }
    found
}

async fn of_node(call: &Call) -> Found {
    let asked = &*call.at.name;
    let target =
        Target::parse(asked).ok_or_else(|| Status::bad_request(format!("invalid node request {asked:?}")))?;
    let kubelet = call.backend.kubelets.find(call, target.name, true)?;
    if target.port.is_empty() || target.port == kubelet.port.to_string() {
        return Ok(kubelet);
    }
    let port =
        target.port.parse().map_err(|_| Status::bad_request(format!("invalid node request {asked:?}")))?;
    let resolved = resolve(&kubelet.host, port).await?;
    Ok(target.backend(call, &kubelet.host, port, resolved))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn targets() {
        let target = |secure, name, port| Some(Target { secure, name, port });
        assert_eq!(Target::parse("a"), target(false, "a", ""));
        assert_eq!(Target::parse("a:80"), target(false, "a", "80"));
        assert_eq!(Target::parse("https:a:"), target(true, "a", ""));
        assert_eq!(Target::parse("ftp:a:1"), None);
        assert_eq!(Target::parse(":80"), None);
    }

    #[test]
    fn paths() {
        assert_eq!(rest("/api/v1/namespaces/n/pods/p/proxy", true), None);
        assert_eq!(rest("/api/v1/namespaces/n/pods/p/proxy/", true), Some(""));
        assert_eq!(rest("/api/v1/namespaces/n/pods/p/proxy/a/b/", true), Some("a/b/"));
        assert_eq!(rest("/api/v1/nodes/n/proxy/pods", false), Some("pods"));
    }

    #[test]
    fn services_are_proxied_to_ready_endpoints() {
        let service = value!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53}]}});
        assert_eq!(service_port(&service, "80"), Some("web".to_owned()));
        assert_eq!(service_port(&service, "dns"), Some("dns".to_owned()));
        assert_eq!(service_port(&service, ""), None);
        let slice = value!({
            "metadata": {"labels": {"kubernetes.io/service-name": "s"}},
            "ports": [{"name": "web", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            ],
        });
        let found = ready_endpoints([&slice].into_iter(), "s", "web");
        let endpoint = |target| Endpoint { ip: "10.0.0.1".to_owned(), port: 8080, target };
        assert_eq!(found, [endpoint(None)]);
        assert!(ready_endpoints([&slice].into_iter(), "other", "web").is_empty());
    }

    #[test]
    fn endpoints_without_a_pod_are_not_proxied_to() {
        let pods = |name: &str| {
            (name == "p").then(|| value!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}))
        };
        let check = |ip: &str, target: Option<(&str, &str)>| {
            let target = target.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
            is_of_pod(&Endpoint { ip: ip.to_owned(), port: 80, target }, "n", pods)
        };
        assert!(check("10.0.0.1", Some(("n", "p"))));
        assert!(check("fd00::1", Some(("n", "p"))));
        assert!(!check("10.0.0.1", None), "an endpoint without a target reference");
        assert!(!check("10.0.0.1", Some(("other", "p"))), "a pod of another namespace");
        assert!(!check("10.0.0.1", Some(("n", "q"))), "no pod");
        assert!(!check("192.0.2.1", Some(("n", "p"))), "not the pod's address");
    }

    #[test]
    fn invalid_addresses_are_not_proxied_to() {
        for ip in ["", "localhost", "127.1", "127.0.0.1", "::ffff:127.0.0.1", "0177.0.0.1"] {
            assert_eq!(proxyable(ip), None, "{ip}");
        }
        assert!(proxyable("10.0.0.1").is_some());
    }
}
