//! Finds the container of a log in a pod's status. Pure.

use corten_api::Value;

/// A container that has no log; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoLog(String);

/// The id of the container whose log is requested.
pub(super) fn container_id(
    status: &Value,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<String, NoLog> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status.items_at(&[list]));
    let Some(found) = all.find(|status| status.str_at(&["name"]) == Some(container)) else {
        return Err(NoLog(format!("container {container:?} in pod {pod:?} is not available")));
    };
    let id = |path: &[&str]| found.str_at(path).filter(|id| !id.is_empty()).map(bare);
    let last = || id(&["lastState", "terminated", "containerID"]);
    let ended = || NoLog(format!("container {container:?} in pod {pod:?} is terminated"));
    if previous {
        let missing =
            || NoLog(format!("previous terminated container {container:?} in pod {pod:?} not found"));
        return last().ok_or_else(missing);
    }
    if found.at(&["state", "running"]).is_some() {
        return id(&["containerID"]).ok_or_else(ended);
    }
    if found.at(&["state", "terminated"]).is_some() {
        return id(&["state", "terminated", "containerID"]).or_else(last).ok_or_else(ended);
    }
    if found.at(&["lastState", "terminated"]).is_some() {
        return last().ok_or_else(ended);
    }
    let waits = format!("container {container:?} in pod {pod:?} is waiting to start");
    Err(NoLog(match found.str_at(&["state", "waiting", "reason"]) {
        Some("ErrImagePull") => format!("{waits}: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{waits}: trying and failing to pull image"),
        Some(reason) => format!("{waits}: {reason}"),
        None => format!("{waits} - no logs yet"),
    }))
}

/// A container id without the runtime's name.
fn bare(id: &str) -> String {
    id.split_once("://").map_or(id, |(_, id)| id).to_owned()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[track_caller]
    fn check(status: Value, previous: bool, expected: Result<&str, &str>) {
        let mut status = status;
        status.set(&["name"], "c");
        let of_pod = value!({"containerStatuses": [(status)]});
        let found = container_id(&of_pod, "p", "c", previous);
        assert_eq!(found.as_deref().map_err(|err| err.0.as_str()), expected);
    }

    #[test]
    fn the_container_follows_from_the_status() {
        let ended = || value!({"terminated": {"containerID": "x://1"}});
        let running = || value!({"containerID": "x://2", "state": {"running": {}}, "lastState": (ended())});
        check(running(), false, Ok("2"));
        check(running(), true, Ok("1"));
        check(value!({"state": (ended())}), false, Ok("1"));
        check(
            value!({"state": (ended())}),
            true,
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        );
        let crashed = value!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": (ended())});
        check(crashed, false, Ok("1"));
        check(
            value!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
            false,
            Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
        );
        check(
            value!({"state": {"waiting": {"reason": "ErrImagePull"}}}),
            false,
            Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
        );
        check(
            value!({"state": {"terminated": {}}}),
            false,
            Err("container \"c\" in pod \"p\" is terminated"),
        );
        let unknown = container_id(&Value::Null, "p", "c", false).unwrap_err();
        assert_eq!(unknown.to_string(), "container \"c\" in pod \"p\" is not available");
    }
}
