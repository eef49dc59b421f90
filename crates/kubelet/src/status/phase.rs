//! The phase of a pod, from the states of its containers.

use corten_api::Value;

use crate::pod::{Pod, RestartPolicy, Role};

/// The number of containers in each state.
#[derive(Debug, Default)]
struct Counts {
    unknown: usize,
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
}

pub(super) fn phase(pod: &Pod, init: &[Value], main: &[Value], over: bool, old: &str) -> &'static str {
    // A final phase stays.
    match old {
        "Failed" => return "Failed",
        "Succeeded" => return "Succeeded",
        _ => {}
    }
    let by_name = |list: &'_ [Value], name: &str| {
        list.iter().find(|status| status.str_at(&["name"]) == Some(name)).cloned()
    };
    let mut counts = Counts::default();
    for container in pod.with_role(Role::Main) {
        counts.take(by_name(main, &container.name).as_ref());
    }
    let (mut pending, mut failed) = (false, false);
    for container in pod.with_role(Role::Init) {
        match by_name(init, &container.name).and_then(|s| s.int_at(&["state", "terminated", "exitCode"])) {
            Some(0) => {}
            Some(_) => failed = true,
            None => pending = true,
        }
    }
    for container in pod.with_role(Role::Sidecar) {
        let status = by_name(init, &container.name);
        let begun = status.as_ref().is_some_and(|s| s.bool_at(&["started"]) == Some(true) || over);
        pending |= !begun && counts.running + counts.stopped == 0;
    }
    let policy = pod.restart_policy();
    if failed && policy == RestartPolicy::Never {
        return "Failed";
    }
    let begun = counts.running + counts.stopped > 0;
    if (failed || pending) && !begun {
        return if over && failed { "Failed" } else { "Pending" };
    }
    counts.phase(policy, over)
}

impl Counts {
    fn take(&mut self, status: Option<&Value>) {
        let state = |name: &str| status.and_then(|s| s.at(&["state", name]));
        if status.is_none() {
            self.unknown += 1;
        } else if state("running").is_some() {
            self.running += 1;
        } else if let Some(terminated) = state("terminated") {
            self.stopped += 1;
            self.succeeded += usize::from(terminated.int_at(&["exitCode"]).unwrap_or(0) == 0);
        } else if status.and_then(|s| s.at(&["lastState", "terminated"])).is_some() {
            self.stopped += 1;
        } else {
            self.waiting += 1;
        }
    }

    fn phase(&self, policy: RestartPolicy, over: bool) -> &'static str {
        let all_well = self.stopped == self.succeeded;
        if self.waiting > 0 {
            return "Pending";
        }
        if self.running > 0 && self.unknown == 0 {
            return "Running";
        }
        if self.running > 0 || self.stopped == 0 || self.unknown > 0 {
            return "Pending";
        }
        match (over, policy) {
            (true, _) if all_well => "Succeeded",
            (true, _) => "Failed",
            (false, RestartPolicy::Always) => "Running",
            (false, _) if all_well => "Succeeded",
            (false, RestartPolicy::Never) => "Failed",
            (false, RestartPolicy::OnFailure) => "Running",
        }
    }
}
