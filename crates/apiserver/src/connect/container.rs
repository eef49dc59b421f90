//! The container of a pod that a request names. Pure.

use corten_api::{Status, Value};

/// The requested container, or the pod's only one.
pub(super) fn choose(pod: &Value, name: &str, asked: &str) -> Result<String, Status> {
    let names = |list: &str| {
        let items = pod.items_at(&["spec", list]).iter();
        items.filter_map(|container| container.str_at(&["name"])).map(str::to_owned).collect::<Vec<_>>()
    };
    let main = names("containers");
    let all = [names("initContainers"), main.clone(), names("ephemeralContainers")].concat();
    if !asked.is_empty() {
        let invalid = || Status::bad_request(format!("container {asked} is not valid for pod {name}"));
        return all.into_iter().find(|known| known == asked).ok_or_else(invalid);
    }
    let unclear = format!("a container name must be specified for pod {name}");
    match main.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Status::bad_request(unclear)),
        _ => Err(Status::bad_request(format!("{unclear}, choose one of: [{}]", all.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn choices() {
        let one = value!({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}});
        let two = value!({"spec": {
            "containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}],
        }});
        let choose = |pod, asked| choose(pod, "p", asked).map_err(|status| status.message);
        assert_eq!(choose(&one, ""), Ok("a".to_owned()));
        assert_eq!(choose(&one, "i"), Ok("i".to_owned()));
        assert_eq!(choose(&one, "x").unwrap_err(), "container x is not valid for pod p");
        assert_eq!(
            choose(&two, "").unwrap_err(),
            "a container name must be specified for pod p, choose one of: [i a b]"
        );
        assert_eq!(choose(&value!({}), "").unwrap_err(), "a container name must be specified for pod p");
    }
}
