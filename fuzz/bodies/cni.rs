//! CNI configurations, and the output of CNI plugins.

use corten_net::cni::{answer, config, plan};

pub(crate) fn check(data: &[u8]) {
    for list in [config::list(data), config::single(data)].into_iter().flatten() {
        assert!(!list.plugins.is_empty(), "a network without plugins");
        let _ = (plan::status(&list), plan::version(&list), plan::gc(&list, &["a".to_owned()]));
        let _ = answer::speaks("p", data, &list.version);
    }
    if let Ok(result) = answer::result("p", data) {
        let _ = answer::addresses(&result, "eth0");
    }
    let _ = answer::failure("p", "ADD", data, data, "exit status: 1").to_string();
}
