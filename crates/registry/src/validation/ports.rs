//! Ports of containers.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::fields::one_of;
use crate::validation::number::int;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, port_number, text};

pub(crate) fn validate_ports(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let ports = list(container, "ports");
    let repeats = Repeats::of(ports, |port| text(port, "name"));
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        validate_name(text(port, "name"), repeats.at(i), &at, errors);
        match int(port, "containerPort") {
            0 => errors.required(at.child("containerPort"), ""),
            number => port_number(number, &at.child("containerPort"), errors),
        }
        match int(port, "hostPort") {
            0 => {}
            number => port_number(number, &at.child("hostPort"), errors),
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
    }
}

fn validate_name(name: &str, is_repeated: bool, at: &Field<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return;
    }
    let complaints = names::port_name(name);
    if complaints.is_empty() && is_repeated {
        errors.duplicate(at.child("name"), &Value::from(name));
    }
    complain(&at.child("name"), name, complaints, errors);
}

/// Validates a port number or name.
pub(crate) fn validate_port_number_or_name(port: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    match port {
        Some(Value::String(name)) => complain(at, name, names::port_name(name), errors),
        other => port_number(other.and_then(Value::as_int).unwrap_or(0), at, errors),
    }
}

/// Host ports are unique, in containers that run together.
pub(crate) fn validate_unique_host_ports(containers: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(container, "ports").iter().enumerate() {
            let number = int(port, "hostPort");
            if number != 0 && !seen.insert((number, text(port, "protocol"), text(port, "hostIP"))) {
                let at = at.index(i);
                let shown = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
                errors.duplicate(at.child("ports").index(j).child("hostPort"), &Value::from(shown));
            }
        }
    }
}
