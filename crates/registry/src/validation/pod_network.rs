//! A pod's network: DNS, host aliases, host ports.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::ip::legacy_ip;
use crate::validation::number::int;
use crate::validation::pod_context::PodContext;
use crate::validation::text::{complain, list, member, text};

const MOST_NAMESERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const MOST_SEARCH_CHARACTERS: usize = 2048;

/// On the host's network a container's port is the host's. Templates may leave that to pods.
pub(crate) fn validate_host_ports(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    if !context.is("hostNetwork") {
        return;
    }
    let at = at.child("containers");
    for (i, container) in list(context.spec, "containers").iter().enumerate() {
        for (j, port) in list(container, "ports").iter().enumerate() {
            let (host, own) = (int(port, "hostPort"), int(port, "containerPort"));
            if (context.is_pod() || host != 0) && host != own {
                let at = at.index(i);
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(at.child("ports").index(j).child("hostPort"), &Value::from(host), why);
            }
        }
    }
}

pub(crate) fn validate_dns_config(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let config = member(spec, "dnsConfig");
    let nameservers = config.map_or(&[][..], |config| list(config, "nameservers"));
    if text(spec, "dnsPolicy") == "None" && nameservers.is_empty() {
        match config {
            None => errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(_) => errors.required(
                at.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ),
        }
        return;
    }
    let Some(config) = config else { return };
    let servers_at = at.child("nameservers");
    if nameservers.len() > MOST_NAMESERVERS {
        let why = format!("must not have more than {MOST_NAMESERVERS} nameservers");
        errors.invalid(servers_at, &Value::from(nameservers.to_vec()), why);
    }
    for (i, server) in nameservers.iter().enumerate() {
        legacy_ip(server.as_str().unwrap_or_default(), &servers_at.index(i), errors);
    }
    validate_searches(list(config, "searches"), &at.child("searches"), errors);
    for (i, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(at.child("options").index(i), "must not be empty");
        }
    }
}

fn validate_searches(searches: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    if searches.len() > MOST_SEARCHES {
        let why = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.invalid(at, &Value::from(searches.to_vec()), why);
    }
    let texts = || searches.iter().map(|search| search.as_str().unwrap_or_default());
    let spaces = searches.len().saturating_sub(1);
    if texts().map(str::len).sum::<usize>() + spaces > MOST_SEARCH_CHARACTERS {
        let why = format!(
            "must not have more than {MOST_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.invalid(at, &Value::from(searches.to_vec()), why);
    }
    for (i, search) in texts().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        complain(&at.index(i), search, search_domain(search), errors);
    }
}

/// The errors of a search domain, which may have underscores.
fn search_domain(domain: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if domain.len() > names::SUBDOMAIN_MAX_LENGTH {
        complaints.push(format!("must be no more than {} characters", names::SUBDOMAIN_MAX_LENGTH));
    }
    let end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| match label.strip_prefix('_').unwrap_or(label).as_bytes() {
        [] => false,
        [only] => end(*only),
        [first, middle @ .., last] => {
            end(*first) && end(*last) && middle.iter().all(|b| end(*b) || matches!(b, b'-' | b'_'))
        }
    };
    if !domain.split('.').all(label) {
        complaints.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    complaints
}

pub(crate) fn validate_host_aliases(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        let at = at.index(i);
        legacy_ip(text(alias, "ip"), &at.child("ip"), errors);
        let at = at.child("hostnames");
        for (j, hostname) in list(alias, "hostnames").iter().enumerate() {
            let hostname = hostname.as_str().unwrap_or_default();
            complain(&at.index(j), hostname, names::dns1123_subdomain(hostname), errors);
        }
    }
}
