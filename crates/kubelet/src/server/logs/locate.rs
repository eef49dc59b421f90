//! Which container's log is meant, by what is known of a pod. Pure.

use corten_api::Value;

/// The id of the container whose log is asked for.
pub(super) fn container_id(
    status: &Value,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<String, String> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status.items_at(&[list]));
    let Some(found) = all.find(|status| status.str_at(&["name"]) == Some(container)) else {
        return Err(format!("container {container:?} in pod {pod:?} is not available"));
    };
    let id = |path: &[&str]| found.str_at(path).filter(|id| !id.is_empty()).map(bare);
    let last = || id(&["lastState", "terminated", "containerID"]);
    let ended = || format!("container {container:?} in pod {pod:?} is terminated");
    if previous {
        let missing = || format!("previous terminated container {container:?} in pod {pod:?} not found");
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
    Err(match found.str_at(&["state", "waiting", "reason"]) {
        Some("ErrImagePull") => format!("{waits}: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{waits}: trying and failing to pull image"),
        Some(reason) => format!("{waits}: {reason}"),
        None => format!("{waits} - no logs yet"),
    })
}

/// An id as the runtime knows it: without the runtime's name.
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
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn the_container_that_is_meant() {
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
        let nobody = container_id(&Value::Null, "p", "c", false).unwrap_err();
        assert_eq!(nobody, "container \"c\" in pod \"p\" is not available");
    }
}
