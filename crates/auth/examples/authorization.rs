//! Measures a decision with thousands of bindings: `cargo run --release -p corten-auth --example authorization`.

use std::hint::black_box;
use std::time::Instant;

use corten_api::{meta, value};
use corten_auth::rbac::{Rbac, bootstrap_policy};
use corten_auth::{AUTHENTICATED, Attributes, User};

const BINDINGS: usize = 5_000;
const NAMESPACES: usize = 100;
const ROUNDS: usize = 200_000;

fn main() {
    let policy = bootstrap_policy().expect("the bootstrap policy is good");
    let mut rbac = Rbac::default();
    for role in &policy.cluster_roles {
        rbac.set_role("", meta::name(role), Some(role));
    }
    for binding in &policy.cluster_role_bindings {
        rbac.set_binding("", meta::name(binding), Some(binding));
    }
    for i in 0..BINDINGS {
        let (user, namespace) = (format!("user-{i}"), format!("ns-{}", i % NAMESPACES));
        let name = user.as_str();
        let binding = value!({
            "roleRef": {"kind": "ClusterRole", "name": "system:aggregate-to-edit"},
            "subjects": [{"kind": "User", "name": name}],
        });
        let scope = if i % 2 == 0 { "" } else { namespace.as_str() };
        rbac.set_binding(scope, &user, Some(&binding));
    }
    let user = User {
        name: "user-4242".into(),
        groups: vec!["developers".into(), "staff".into(), AUTHENTICATED.into()],
        ..User::default()
    };
    let asked = |verb, group, resource| Attributes {
        namespace: "ns-42",
        name: "x",
        ..Attributes::resource(&user, verb, group, resource)
    };
    measure("allowed by the first rules", &rbac, &asked("get", "", "secrets"));
    measure("allowed by the last rule", &rbac, &asked("patch", "resource.k8s.io", "resourceclaims"));
    measure("refused after every rule", &rbac, &asked("delete", "", "nodes"));
}

fn measure(what: &str, rbac: &Rbac, asked: &Attributes<'_>) {
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(rbac.authorize(black_box(asked)));
    }
    let each = started.elapsed() / ROUNDS as u32;
    println!("{what}: {each:?} each, with {BINDINGS} bindings");
}
