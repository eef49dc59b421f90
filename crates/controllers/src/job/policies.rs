//! The policies of a job: the meaning of a pod failure, and the success policy.

use corten_api::{Value, meta};

use super::indexes::Indexes;

/// The meaning of a pod failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It counts towards the backoff limit, as without a policy.
    #[default]
    Counts,
    /// It does not count, and the pod is replaced.
    Ignored,
    /// Its index has failed, whatever its remaining attempts.
    FailsIndex,
    /// The job has failed, with this message.
    FailsJob(String),
}

/// Applies the first matching rule of the pod failure policy.
pub(super) fn meaning(policy: &Value, pod: &Value) -> Meaning {
    let found = policy.items_at(&["rules"]).iter().enumerate().find_map(|(at, rule)| {
        match (rule.get("onExitCodes"), rule) {
            (Some(codes), _) => Some((at, rule, exit(pod, codes)?)),
            (None, rule) => Some((at, rule, condition(pod, rule.items_at(&["onPodConditions"]))?)),
        }
    });
    let Some((at, rule, why)) = found else { return Meaning::Counts };
    match rule.str_at(&["action"]) {
        Some("Ignore") => Meaning::Ignored,
        Some("FailIndex") => Meaning::FailsIndex,
        Some("FailJob") => Meaning::FailsJob(format!("{why} matching FailJob rule at index {at}")),
        _ => Meaning::Counts,
    }
}

/// The container whose exit code matches a rule.
fn exit(pod: &Value, rule: &Value) -> Option<String> {
    let name = rule.str_at(&["containerName"]);
    let values = rule.items_at(&["values"]);
    let fits = |code: i64| match rule.str_at(&["operator"]) {
        Some("In") => values.contains(&Value::Int(code)),
        Some("NotIn") => !values.contains(&Value::Int(code)),
        _ => false,
    };
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod.items_at(&["status", list]));
    statuses.find_map(|status| {
        let code = status.int_at(&["state", "terminated", "exitCode"])?;
        let container = status.str_at(&["name"]).unwrap_or_default();
        (name.is_none_or(|name| name == container) && code != 0 && fits(code)).then(|| {
            let (namespace, name) = (meta::namespace(pod), meta::name(pod));
            format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
        })
    })
}

/// The pod condition that matches a rule.
fn condition(pod: &Value, patterns: &[Value]) -> Option<String> {
    let same = |a: &Value, b: &Value, key: &str| a.str_at(&[key]) == b.str_at(&[key]);
    let conditions = pod.items_at(&["status", "conditions"]);
    let found =
        conditions.iter().find(|c| patterns.iter().any(|p| same(c, p, "type") && same(c, p, "status")))?;
    let (namespace, name) = (meta::namespace(pod), meta::name(pod));
    Some(format!("Pod {namespace}/{name} has condition {}", found.str_at(&["type"]).unwrap_or_default()))
}

/// The message of the success policy rule that is met.
pub(super) fn success(policy: Option<&Value>, completions: i64, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &Value| {
        let count = rule.int_at(&["succeededCount"]);
        match rule.str_at(&["succeededIndexes"]) {
            Some(text) => {
                let wanted = Indexes::parse(text, completions);
                let shared = wanted.shared_with(succeeded);
                let enough = shared == wanted.count() || count.is_some_and(|count| shared >= count);
                !wanted.is_empty() && enough
            }
            None => count.is_some_and(|count| succeeded.count() >= count),
        }
    };
    let at = policy?.items_at(&["rules"]).iter().position(is_met)?;
    Some(format!("Matched rules at index {at}"))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn pod() -> Value {
        value!({
            "metadata": {"namespace": "default", "name": "p"},
            "status": {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "main", "state": {"terminated": {"exitCode": 2}}},
                    {"name": "side", "state": {"terminated": {"exitCode": 5}}},
                    {"name": "fine", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "busy", "state": {"running": {}}},
                ],
                "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 7}}}],
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        })
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let exit_codes = |operator: &str, values: Value| value!({"operator": operator, "values": (values)});
        let on = |action: &str, codes: Value| value!({"action": action, "onExitCodes": (codes)});
        let disrupted = |action: &str, status: &str| {
            let pattern = value!({"type": "DisruptionTarget", "status": status});
            value!({"action": action, "onPodConditions": [(pattern)]})
        };
        let named = |name: &str, mut codes: Value| {
            codes.set(&["containerName"], name);
            codes
        };
        let code = |number: i64| exit_codes("In", value!([(number)]));
        let fails = |why: &str| Meaning::FailsJob(why.to_owned());
        let cases = [
            ("nothing fits", vec![on("Ignore", code(99))], Meaning::Counts),
            ("unknown actions do nothing", vec![on("Dance", code(2))], Meaning::Counts),
            ("ignored", vec![on("Ignore", code(2))], Meaning::Ignored),
            ("counted before ignored", vec![on("Count", code(2)), on("Ignore", code(2))], Meaning::Counts),
            ("the index", vec![on("FailIndex", code(5))], Meaning::FailsIndex),
            (
                "the job",
                vec![on("Ignore", code(99)), on("FailJob", code(5))],
                fails(
                    "Container side for pod default/p failed with exit code 5 matching FailJob rule at index 1",
                ),
            ),
            (
                "init containers too",
                vec![on("FailJob", code(7))],
                fails(
                    "Container init for pod default/p failed with exit code 7 matching FailJob rule at index 0",
                ),
            ),
            ("of another container", vec![on("Ignore", named("side", code(2)))], Meaning::Counts),
            ("of this container", vec![on("Ignore", named("main", code(2)))], Meaning::Ignored),
            ("not in", vec![on("Ignore", exit_codes("NotIn", value!([9])))], Meaning::Ignored),
            (
                "not in, of a container that is fine",
                vec![on("Ignore", named("fine", exit_codes("NotIn", value!([9]))))],
                Meaning::Counts,
            ),
            ("all in", vec![on("Ignore", exit_codes("NotIn", value!([2, 5, 7])))], Meaning::Counts),
            (
                "a condition",
                vec![disrupted("FailJob", "True")],
                fails("Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"),
            ),
            ("a condition that does not hold", vec![disrupted("Ignore", "False")], Meaning::Counts),
        ];
        for (why, rules, expected) in cases {
            let policy = value!({"rules": (Value::Array(rules))});
            assert_eq!(meaning(&policy, &pod()), expected, "{why}");
        }
    }

    #[test]
    fn enough_has_succeeded() {
        for (rules, succeeded, met) in [
            (value!([{"succeededCount": 2}]), "0", None),
            (value!([{"succeededCount": 2}]), "0,4", Some(0)),
            (value!([{"succeededIndexes": "0-2"}]), "0,1,5", None),
            (value!([{"succeededIndexes": "0-2"}]), "0-5", Some(0)),
            (value!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "1,4", None),
            (value!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "1,2", Some(0)),
            (value!([{"succeededIndexes": "9-x"}]), "1,2", None),
            (value!([{"succeededIndexes": "9"}, {"succeededCount": 1}]), "1", Some(1)),
            (value!([{"succeededCount": 0}]), "", None),
        ] {
            let policy = value!({"rules": (rules)});
            let expected = met.map(|at: i64| format!("Matched rules at index {at}"));
            let found = success(Some(&policy), 10, &Indexes::parse(succeeded, 10));
            assert_eq!(found, expected, "{succeeded} with {policy:?}");
        }
        assert_eq!(success(None, 10, &Indexes::parse("0-9", 10)), None);
    }
}
