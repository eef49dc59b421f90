//! The QoS class of a pod, from the requests and limits of its containers.

use corten_api::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    BestEffort,
    Burstable,
    Guaranteed,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::BestEffort => "BestEffort",
            Class::Burstable => "Burstable",
            Class::Guaranteed => "Guaranteed",
        }
    }
}

/// The class of a pod: by its own resources if it has any, or else the common class of its containers.
pub(super) fn class(pod: &Value) -> Class {
    if let Some(own) = pod.at(&["spec", "resources"]).filter(|r| names_resources(r)) {
        return of_resources(own);
    }
    let all = ["initContainers", "containers"].into_iter().flat_map(|key| pod.items_at(&["spec", key]));
    agreed(all.map(|c| of_resources(c.get("resources").unwrap_or(&Value::Null)))).unwrap_or(Class::BestEffort)
}

/// Containers that disagree are burstable together, and so are cpu and memory of one container.
fn agreed(classes: impl Iterator<Item = Class>) -> Option<Class> {
    classes.reduce(|a, b| if a == b { a } else { Class::Burstable })
}

fn names_resources(resources: &Value) -> bool {
    let named = |key: &str| resources.get(key).and_then(Value::as_object);
    ["requests", "limits"].into_iter().filter_map(named).any(|list| !list.is_empty())
}

fn of_resources(resources: &Value) -> Class {
    if !names_resources(resources) {
        return Class::BestEffort;
    }
    let class = |resource: &str| {
        let amount = |list: &str| {
            resources.at(&[list, resource]).map_or(Amount::ZERO, |value| match value {
                Value::Int(number) => Amount::parse(&number.to_string()),
                other => Amount::parse(other.as_str().unwrap_or_default()),
            })
        };
        match (amount("requests"), amount("limits")) {
            (request, limit) if request != limit => Class::Burstable,
            (Amount::ZERO, _) => Class::BestEffort,
            _ => Class::Guaranteed,
        }
    };
    agreed(["cpu", "memory"].into_iter().map(class)).unwrap_or(Class::BestEffort)
}

/// A quantity in billionths, to compare different notations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount(i128);

impl Amount {
    const ZERO: Amount = Amount(0);

    fn parse(text: &str) -> Amount {
        let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().unwrap_or(0);
        let decimal = |power: i32| 10i128.saturating_pow(u32::try_from(9 + power).unwrap_or(0));
        let scale = match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => decimal(0) << 10,
            "Mi" => decimal(0) << 20,
            "Gi" => decimal(0) << 30,
            "Ti" => decimal(0) << 40,
            "Pi" => decimal(0) << 50,
            "Ei" => decimal(0) << 60,
            exponent => decimal(exponent.get(1..).and_then(|power| power.parse().ok()).unwrap_or(0)),
        };
        let places = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        Amount(digits.saturating_mul(scale) / 10i128.saturating_pow(places))
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn classes_by_requests_and_limits() {
        let full = || value!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1073741824"}});
        let table = [
            (vec![], Class::BestEffort),
            (vec![value!({})], Class::BestEffort),
            (vec![value!({"limits": {"nvidia.com/gpu": "1"}})], Class::BestEffort),
            (vec![full()], Class::Guaranteed),
            (vec![full(), full()], Class::Guaranteed),
            (vec![full(), value!({})], Class::Burstable),
            (vec![value!({"requests": {"cpu": "1"}})], Class::Burstable),
            (vec![value!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})], Class::Burstable),
        ];
        for (containers, expected) in table {
            let containers: Vec<Value> = containers.into_iter().map(|r| value!({"resources": r})).collect();
            let pod = value!({"spec": {"containers": (containers.clone())}});
            assert_eq!(class(&pod), expected, "{containers:?}");
        }
        let same = [("1", "1000m"), ("1.5Gi", "1610612736"), ("1e3", "1k"), ("0.5", "500m"), ("1E", "1e18")];
        for (a, b) in same {
            assert_eq!(Amount::parse(a), Amount::parse(b), "{a} {b}");
        }
        assert_ne!(Amount::parse("1M"), Amount::parse("1Mi"));
        let own = value!({"spec": {"resources": (full()), "containers": [{"resources": {}}]}});
        assert_eq!(class(&own), Class::Guaranteed);
    }
}
