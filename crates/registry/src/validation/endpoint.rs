//! Parts of endpoints: reachable addresses, and ports.

use std::net::IpAddr;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::fields::one_of;
use crate::validation::ip::parse_sloppy;
use crate::validation::text::complain;

pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// An address that other hosts can reach.
pub(crate) fn endpoint_ip(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let mut refuse = |why: &str| errors.invalid(at, &Value::from(text), why);
    let Some(address) = parse_sloppy(text).map(|address| address.to_canonical()) else {
        refuse("must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        refuse(&format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local(address) {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_local_multicast(address) {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => matches!(v6.octets(), [0xff, scope, ..] if scope & 0x0f == 0x02),
    }
}

/// The protocol of a port, and its application protocol.
pub(crate) fn validate_protocols(port: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    one_of(port, "protocol", PROTOCOLS, at, errors);
    validate_app_protocol(port, at, errors);
}

pub(crate) fn validate_app_protocol(port: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        complain(&at.child("appProtocol"), protocol, names::qualified_name(protocol), errors);
    }
}
