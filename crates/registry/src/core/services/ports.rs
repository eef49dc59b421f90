//! The ports of a service.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::endpoint::{PROTOCOLS, validate_app_protocol};
use crate::validation::fields::one_of;
use crate::validation::number::int;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, optional, port_number, text};

const SPEC: Field<'static> = Field::new("spec");

pub(super) fn validate(spec: &Value, errors: &mut ErrorList) {
    let (ports, at) = (list(spec, "ports"), SPEC.child("ports"));
    let repeats = Repeats::of(ports, |item| text(item, "name"));
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let (name, name_at) = (text(port, "name"), at.child("name"));
        if name.is_empty() && ports.len() > 1 {
            errors.required(name_at, "");
        }
        optional(name, names::dns1123_label, &name_at, errors);
        if !name.is_empty() && repeats.at(i) {
            errors.duplicate(name_at, &Value::from(name));
        }
        port_number(int(port, "port"), &at.child("port"), errors);
        one_of(port, "protocol", PROTOCOLS, &at, errors);
        match port.get("targetPort") {
            Some(Value::String(name)) => {
                complain(&at.child("targetPort"), name, names::port_name(name), errors);
            }
            _ => port_number(int(port, "targetPort"), &at.child("targetPort"), errors),
        }
        validate_app_protocol(port, &at, errors);
    }
}

/// Ports are identified by their numbers and protocols; node ports only where the service has them.
pub(super) fn validate_uniqueness(spec: &Value, in_cluster: bool, errors: &mut ErrorList) {
    let (ports, at) = (list(spec, "ports"), SPEC.child("ports"));
    let taken = |key| Repeats::of(ports, move |port| (int(port, key), text(port, "protocol")));
    let (taken_on_nodes, taken) = (taken("nodePort"), taken("port"));
    let on_nodes = || ports.iter().enumerate().filter(|(_, port)| int(port, "nodePort") != 0);
    for (i, _) in on_nodes().filter(|_| in_cluster) {
        let why = "may not be used when `type` is 'ClusterIP'";
        errors.forbidden(at.index(i).child("nodePort"), why);
    }
    for (i, port) in on_nodes().filter(|(i, _)| taken_on_nodes.at(*i)) {
        errors.duplicate(at.index(i).child("nodePort"), &Value::from(int(port, "nodePort")));
    }
    for (i, port) in ports.iter().enumerate().filter(|(i, _)| taken.at(*i)) {
        errors.duplicate(at.index(i), &shown(port));
    }
}

/// The number and the protocol, as a port without other fields.
fn shown(port: &Value) -> Value {
    let protocol = corten_api::status::quoted(text(port, "protocol"));
    let number = int(port, "port");
    Value::Raw(
        format!(
            r#"{{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
        )
        .into(),
    )
}
