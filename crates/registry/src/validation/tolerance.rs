//! Values that a stored spec may keep although they would be refused today, so that updates of other parts
//! still succeed. Evaluated only when there is an error to report.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::affinity::affinity_selectors_are_valid;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::pod_context::{containers, is, is_sidecar};
use crate::validation::resources::{amount, entries, is_divisible_huge_page, is_huge_page};
use crate::validation::security_context::host_sysctl_complaint;
use crate::validation::text::{list, member, text};
use crate::validation::topology_spread::validate_match_label_keys;
use crate::validation::{node_selector, path};

fn has_errors(check: impl FnOnce(&mut ErrorList)) -> bool {
    let mut errors = ErrorList::new();
    check(&mut errors);
    !errors.is_empty()
}

pub(crate) fn indivisible_huge_pages(spec: &Value) -> bool {
    let lists = |owner: &Value, keys: [&str; 2]| {
        keys.into_iter().any(|key| {
            entries(owner.get(key))
                .any(|(name, value)| is_huge_page(name) && !is_divisible_huge_page(name, amount(value)))
        })
    };
    let of_container = |container: &Value| {
        container.get("resources").is_some_and(|resources| lists(resources, ["limits", "requests"]))
    };
    containers(spec).any(of_container) || lists(spec, ["overhead", "overhead"])
}

pub(crate) fn invalid_affinity_selectors(spec: &Value) -> bool {
    !affinity_selectors_are_valid(spec)
}

pub(crate) fn invalid_node_affinity_values(spec: &Value) -> bool {
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    spec.at(&required).is_some_and(|selector| {
        list(selector, "nodeSelectorTerms").iter().any(node_selector::has_invalid_values)
    })
}

pub(crate) fn invalid_spread_selectors(spec: &Value) -> bool {
    list(spec, "topologySpreadConstraints").iter().any(|constraint| {
        has_errors(|errors| {
            let selector = member(constraint, "labelSelector");
            validate_label_selector(selector, LabelSelectorOptions::default(), &Field::ROOT, errors);
        })
    })
}

pub(crate) fn invalid_spread_label_keys(spec: &Value) -> bool {
    list(spec, "topologySpreadConstraints").iter().any(|constraint| {
        has_errors(|errors| {
            let keys = list(constraint, "matchLabelKeys");
            validate_match_label_keys(keys, &[], member(constraint, "labelSelector"), &Field::ROOT, errors);
        })
    })
}

pub(crate) fn non_local_token_paths(spec: &Value) -> bool {
    let sources = list(spec, "volumes").iter().flat_map(|volume| volume.items_at(&["projected", "sources"]));
    let mut tokens = sources.filter_map(|source| member(source, "serviceAccountToken"));
    tokens.any(|token| !path::is_local_non_reserved(text(token, "path")))
}

pub(crate) fn host_sysctls(spec: &Value) -> bool {
    let sysctls = spec.items_at(&["securityContext", "sysctls"]);
    sysctls.iter().any(|sysctl| host_sysctl_complaint(text(sysctl, "name"), spec).is_some())
}

pub(crate) fn restarting_init_containers(spec: &Value) -> bool {
    let mut restarting = list(spec, "initContainers").iter().filter(|container| !is_sidecar(container));
    restarting.any(|container| {
        let mut policies = list(container, "resizePolicy").iter();
        policies.any(|policy| text(policy, "restartPolicy") == "RestartContainer")
    })
}

pub(crate) fn user_namespace_and_devices(spec: &Value) -> bool {
    let own = spec.get("hostUsers").and_then(Value::as_bool) == Some(false);
    own && containers(spec).any(|container| !list(container, "volumeDevices").is_empty())
}

pub(crate) fn user_namespace_and_host_network(spec: &Value) -> bool {
    spec.get("hostUsers").and_then(Value::as_bool) == Some(false) && is(spec, "hostNetwork")
}

pub(crate) fn empty_image_references(spec: &Value) -> bool {
    let mut images = list(spec, "volumes").iter().filter_map(|volume| member(volume, "image"));
    images.any(|image| text(image, "reference").is_empty())
}

pub(crate) fn sys_admin_without_escalation(spec: &Value) -> bool {
    containers(spec).filter_map(|container| member(container, "securityContext")).any(|context| {
        let added = context.items_at(&["capabilities", "add"]);
        !is(context, "allowPrivilegeEscalation") && added.iter().any(|c| c.as_str() == Some("CAP_SYS_ADMIN"))
    })
}
