//! The rules of each signer, with upstream's messages for refusals. Pure.

use corten_pki::CertificateRequest;

pub(super) const KUBE_APISERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBE_APISERVER_CLIENT_KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

const CLIENT_USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
const SERVING_USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];

/// Checks whether a signer may sign a request; returns the reason if not.
pub(super) fn check(signer: &str, request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    match signer {
        KUBE_APISERVER_CLIENT => check_client(usages),
        KUBE_APISERVER_CLIENT_KUBELET => check_kubelet_client(request, usages),
        KUBELET_SERVING => check_kubelet_serving(request, usages),
        _ => Ok(()),
    }
}

/// The rules of `kubernetes.io/kube-apiserver-client`.
fn check_client(usages: &[&str]) -> Result<(), String> {
    if let Some(other) = usages.iter().find(|usage| !CLIENT_USAGES.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&"client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

/// The rules of `kubernetes.io/kube-apiserver-client-kubelet`: a kubelet is identified by its common name alone.
pub(super) fn check_kubelet_client(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    check_organization(request)?;
    let named = [
        (&request.dns_names, "DNS subjectAltNames are not allowed"),
        (&request.email_addresses, "Email subjectAltNames are not allowed"),
    ];
    if let Some((_, why)) = named.iter().find(|(names, _)| !names.is_empty()) {
        return Err((*why).to_owned());
    }
    if !request.ip_addresses.is_empty() {
        return Err("IP subjectAltNames are not allowed".to_owned());
    }
    if !request.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    check_common_name(request)?;
    check_usages(usages, &CLIENT_USAGES)
}

/// The rules of `kubernetes.io/kubelet-serving`: a kubelet is identified by its DNS names and addresses.
fn check_kubelet_serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    check_organization(request)?;
    if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if !request.email_addresses.is_empty() {
        return Err("Email subjectAltNames are not allowed".to_owned());
    }
    if !request.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    check_usages(usages, &SERVING_USAGES)?;
    check_common_name(request)
}

fn check_organization(request: &CertificateRequest) -> Result<(), String> {
    match request.subject.organizations.as_slice() {
        [only] if only == "system:nodes" => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn check_common_name(request: &CertificateRequest) -> Result<(), String> {
    match request.subject.common_name.starts_with("system:node:") {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

/// Checks that the usages are the required ones; those that only RSA keys need may be missing.
fn check_usages(usages: &[&str], wanted: &[&str]) -> Result<(), String> {
    let required = |usage: &&&str| **usage != "key encipherment";
    let fits = usages.iter().all(|usage| wanted.contains(usage))
        && wanted.iter().filter(required).all(|usage| usages.contains(usage));
    if fits { Ok(()) } else { Err(format!("usages did not match [{}]", wanted.join(" "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::testing::Asked;

    const CLIENT: [&str; 3] = ["key encipherment", "digital signature", "client auth"];
    const SERVING: [&str; 3] = ["key encipherment", "digital signature", "server auth"];

    #[track_caller]
    fn refused(signer: &str, asked: &Asked<'_>, usages: &[&str], expected: &str) {
        let found = check(signer, &asked.read(), usages).err().unwrap_or_default();
        assert_eq!(found, expected, "{asked:?} {usages:?}");
    }

    #[test]
    fn kubelets_as_clients() {
        let check = |asked: Asked<'_>, usages: &[&str], expected: &str| {
            refused(KUBE_APISERVER_CLIENT_KUBELET, &asked, usages, expected);
        };
        let node = Asked::node;
        let mismatch = "usages did not match [client auth digital signature key encipherment]";
        check(node(), &CLIENT, "");
        check(node(), &CLIENT[1..], "");
        check(node(), &CLIENT[..2], mismatch);
        check(node(), &SERVING, mismatch);
        check(node(), &["client auth", "digital signature", "signing"], mismatch);
        let organization = "subject organization is not system:nodes";
        check(Asked { organizations: &[], ..node() }, &CLIENT, organization);
        check(Asked { organizations: &["system:notnodes"], ..node() }, &CLIENT, organization);
        check(Asked { organizations: &["system:nodes", "more"], ..node() }, &CLIENT, organization);
        let name = "subject common name does not begin with system:node:";
        check(Asked { common_name: "mike", ..node() }, &CLIENT, name);
        let names = |names| Asked { names, ..node() };
        check(names(&["a.example"]), &CLIENT, "DNS subjectAltNames are not allowed");
        check(names(&["10.0.0.1"]), &CLIENT, "IP subjectAltNames are not allowed");
        check(names(&["mailto:a@b.c"]), &CLIENT, "Email subjectAltNames are not allowed");
        check(names(&["spiffe://a"]), &CLIENT, "URI subjectAltNames are not allowed");
    }

    #[test]
    fn kubelets_as_servers() {
        let check = |asked: Asked<'_>, usages: &[&str], expected: &str| {
            refused(KUBELET_SERVING, &asked, usages, expected);
        };
        let names = |names| Asked { names, ..Asked::node() };
        check(names(&["a.example"]), &SERVING, "");
        check(names(&["10.0.0.1"]), &SERVING[1..], "");
        check(names(&[]), &SERVING, "DNS or IP subjectAltName is required");
        check(names(&["a.example", "mailto:a@b.c"]), &SERVING, "Email subjectAltNames are not allowed");
        check(names(&["a.example", "spiffe://a"]), &SERVING, "URI subjectAltNames are not allowed");
        let mismatch = "usages did not match [digital signature key encipherment server auth]";
        check(names(&["a.example"]), &CLIENT, mismatch);
        let mike = Asked { common_name: "mike", names: &["a.example"], ..Asked::node() };
        check(mike, &SERVING, "subject common name does not begin with system:node:");
        let group = Asked { organizations: &["x"], names: &["a.example"], ..Asked::node() };
        check(group, &SERVING, "subject organization is not system:nodes");
    }

    #[test]
    fn others() {
        let check = |usages: &[&str], expected: &str| {
            refused(KUBE_APISERVER_CLIENT, &Asked::node(), usages, expected);
        };
        check(&CLIENT, "");
        check(&["client auth"], "");
        check(&["digital signature"], "missing required usage for client certificate: client auth");
        check(&SERVING, "invalid usage for client certificate: server auth");
        refused(LEGACY_UNKNOWN, &Asked { common_name: "x", ..Asked::node() }, &["any"], "");
    }
}
