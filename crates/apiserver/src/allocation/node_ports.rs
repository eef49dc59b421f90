//! The node ports that a write of a service allocates and releases.

use corten_api::status::ErrorList;
use corten_api::{Status, Value};

use super::port_record::{Operation, PortError};

fn kind(service: &Value) -> &str {
    service.str_at(&["spec", "type"]).unwrap_or_default()
}

/// True if services of this type have node ports.
pub(super) fn has_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

/// True if node ports are allocated for ports that do not name one.
fn wants_any(service: &Value) -> bool {
    kind(service) == "NodePort"
        || kind(service) == "LoadBalancer"
            && service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]).unwrap_or(true)
}

fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == Some("Local")
}

fn ports(service: &Value) -> &[Value] {
    service.items_at(&["spec", "ports"])
}

/// The node port of a service port; zero if it has none.
fn node_port(port: &Value) -> i64 {
    port.int_at(&["nodePort"]).unwrap_or_default()
}

fn health_check_port(service: &Value) -> i64 {
    service.int_at(&["spec", "healthCheckNodePort"]).unwrap_or_default()
}

fn set_node_port(service: &mut Value, index: usize, node_port: i64) {
    let ports = service.get_mut("spec").and_then(|spec| spec.get_mut("ports")).and_then(Value::as_array_mut);
    if let Some(port) = ports.and_then(|ports| ports.get_mut(index)) {
        port.set(&["nodePort"], node_port);
    }
}

/// All node ports a stored service holds.
pub(super) fn held(service: &Value) -> Vec<i64> {
    let mut held: Vec<i64> = ports(service).iter().map(node_port).filter(|port| *port != 0).collect();
    if needs_health_check(service) && health_check_port(service) != 0 {
        held.push(health_check_port(service));
    }
    held.sort_unstable();
    held.dedup();
    held
}

/// Allocates the node ports of a new service.
pub(super) fn take(service: &mut Value, name: &str, operation: &mut Operation<'_>) -> Result<(), Status> {
    if has_node_ports(service) {
        take_new(service, name, operation)?;
    }
    if needs_health_check(service) {
        take_health_check(service, operation)?;
    }
    Ok(())
}

/// Allocates node ports. A service port with several protocols gets one node port for all of them, unless the service
/// names others.
fn take_new(service: &mut Value, name: &str, operation: &mut Operation<'_>) -> Result<(), Status> {
    let mut by_port: Vec<(i64, i64)> = Vec::new();
    for index in 0..ports(service).len() {
        let port = &ports(service)[index];
        let (number, asked) = (port.int_at(&["port"]).unwrap_or_default(), node_port(port));
        if asked == 0 && !wants_any(service) {
            continue;
        }
        match by_port.iter().find(|(known, _)| *known == number) {
            Some((_, taken)) if asked == *taken => {}
            Some((_, taken)) if asked == 0 => set_node_port(service, index, *taken),
            Some(_) => take_requested(asked, index, name, operation)?,
            None => {
                let same = |port: &&Value| port.int_at(&["port"]) == Some(number) && node_port(port) != 0;
                let taken = match ports(service).iter().find(same).map(node_port) {
                    Some(asked) => {
                        take_requested(asked, index, name, operation)?;
                        asked
                    }
                    None => take_any(operation)?,
                };
                set_node_port(service, index, taken);
                by_port.push((number, taken));
            }
        }
    }
    Ok(())
}

fn take_requested(port: i64, index: usize, name: &str, operation: &mut Operation<'_>) -> Result<(), Status> {
    operation.take(port).map_err(|error| {
        let mut errors = ErrorList::new();
        let field = format!("spec.ports[{index}].nodePort");
        errors.invalid(field, &Value::from(port), error.to_string());
        Status::invalid("", "Service", name, &errors)
    })
}

fn take_any(operation: &mut Operation<'_>) -> Result<i64, Status> {
    operation.take_any().map_err(|error| Status::internal(format!("failed to allocate a nodePort: {error}")))
}

fn take_health_check(service: &mut Value, operation: &mut Operation<'_>) -> Result<(), Status> {
    let asked = health_check_port(service);
    let failed =
        |what: String, error: PortError| Status::internal(format!("failed to allocate {what}: {error}"));
    if asked != 0 {
        return operation
            .take(asked)
            .map_err(|error| failed(format!("requested HealthCheck NodePort {asked}"), error));
    }
    let port = operation.take_any().map_err(|error| failed("a HealthCheck NodePort 0".to_owned(), error))?;
    service.set(&["spec", "healthCheckNodePort"], port);
    Ok(())
}

/// Allocates the new node ports of an updated service, and releases those that it no longer has.
pub(super) fn change(
    service: &mut Value,
    old: &Value,
    name: &str,
    operation: &mut Operation<'_>,
) -> Result<(), Status> {
    let had: Vec<i64> = ports(old).iter().map(node_port).filter(|port| *port != 0).collect();
    if has_node_ports(service) {
        take_changed(service, &had, name, operation)?;
        let has: Vec<i64> = ports(service).iter().map(node_port).collect();
        had.iter().filter(|port| !has.contains(port)).for_each(|port| operation.release(*port));
    } else if has_node_ports(old) {
        had.iter().for_each(|port| operation.release(*port));
    }
    match (needs_health_check(old), needs_health_check(service)) {
        (false, true) => take_health_check(service, operation)?,
        (true, false) => operation.release(health_check_port(old)),
        _ => {}
    }
    Ok(())
}

fn take_changed(
    service: &mut Value,
    had: &[i64],
    name: &str,
    operation: &mut Operation<'_>,
) -> Result<(), Status> {
    let mut seen: Vec<(String, i64)> = Vec::new();
    let mut taken: Vec<i64> = Vec::new();
    for index in 0..ports(service).len() {
        let port = &ports(service)[index];
        let protocol = port.str_at(&["protocol"]).unwrap_or_default().to_owned();
        let mut number = node_port(port);
        if number == 0 && !wants_any(service) {
            continue;
        }
        if number == 0 {
            number = take_any(operation)?;
            set_node_port(service, index, number);
        } else if !had.contains(&number) && !taken.contains(&number) {
            take_requested(number, index, name, operation)?;
            taken.push(number);
        }
        let entry = (protocol, number);
        if seen.contains(&entry) {
            return Err(Status::unexplained(format!("duplicate nodePort: {{{} {}}}", entry.0, entry.1)));
        }
        seen.push(entry);
    }
    Ok(())
}

/// Sets the node ports that an update leaves out to the old ones, so that a manifest can be applied again. Service ports
/// are matched by name.
pub(super) fn keep_omitted(service: &mut Value, old: &Value) {
    if wants_any(service) && wants_any(old) {
        let used = |service: &Value| -> Vec<i64> { ports(service).iter().map(node_port).collect() };
        let (new_ports, old_ports) = (used(service), used(old));
        let in_both = |port: i64| port != 0 && new_ports.contains(&port) && old_ports.contains(&port);
        for index in 0..new_ports.len() {
            let port = &ports(service)[index];
            let port_name = port.str_at(&["name"]).unwrap_or_default();
            // Of several ports with one name, upstream takes the last.
            let before = ports(old)
                .iter()
                .rfind(|port| port.str_at(&["name"]).unwrap_or_default() == port_name)
                .map_or(0, node_port);
            if node_port(port) == 0 && before != 0 && !in_both(before) {
                set_node_port(service, index, before);
            }
        }
    }
    if needs_health_check(service) && needs_health_check(old) && health_check_port(service) == 0 {
        let before = health_check_port(old);
        if before != 0 {
            service.set(&["spec", "healthCheckNodePort"], before);
        }
    }
}

#[cfg(test)]
#[path = "node_ports/tests.rs"]
mod tests;
