//! Resource amounts in the scheduler's units: millicores, bytes, and whole numbers of everything else. Sums never wrap.

use corten_api::quantity::Quantity;
use corten_api::{Map, Str, Value};

pub(crate) const CPU: &str = "cpu";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub(crate) const PODS: &str = "pods";

/// An amount of each resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    /// Extended resources, huge pages and attachable volumes, in order of name.
    pub(crate) scalars: Vec<(Str, i64)>,
}

impl Resources {
    /// Parses a resource list.
    pub(crate) fn of(list: Option<&Value>) -> Resources {
        let mut read = Resources::default();
        for (name, quantity) in list.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
            read.set(name, amount(name, quantity));
        }
        read
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        match name {
            CPU => self.milli_cpu,
            MEMORY => self.memory,
            EPHEMERAL_STORAGE => self.ephemeral_storage,
            _ => self.scalar(name),
        }
    }

    pub(crate) fn scalar(&self, name: &str) -> i64 {
        let at = self.scalars.binary_search_by(|(known, _)| known.as_str().cmp(name));
        at.map_or(0, |at| self.scalars[at].1)
    }

    pub(crate) fn set(&mut self, name: &str, amount: i64) {
        if let Some(place) = self.place(name) {
            *place = amount;
        }
    }

    pub(crate) fn add(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_add);
    }

    /// Raises each amount to at least that of another.
    pub(crate) fn raise(&mut self, other: &Resources) {
        self.combine(other, Ord::max);
    }

    fn combine(&mut self, other: &Resources, with: fn(i64, i64) -> i64) {
        self.milli_cpu = with(self.milli_cpu, other.milli_cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            if let Some(place) = self.place(name) {
                *place = with(*place, *amount);
            }
        }
    }

    /// Raises each resource that `named` has to its amount in `larger`; reads no other.
    pub(crate) fn raise_named(&mut self, larger: &Resources, named: &Resources) {
        self.milli_cpu = self.milli_cpu.max(larger.milli_cpu);
        self.memory = self.memory.max(larger.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(larger.ephemeral_storage);
        for (name, _) in &named.scalars {
            let amount = larger.scalar(name);
            if let Some(place) = self.place(name) {
                *place = amount.max(*place);
            }
        }
    }

    /// Adds another list; extended resources only if this list has them.
    pub(crate) fn add_known(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        for (name, amount) in &mut self.scalars {
            *amount = amount.saturating_add(other.scalar(name));
        }
    }

    /// The field of a resource; `None` if the scheduler ignores it.
    fn place(&mut self, name: &str) -> Option<&mut i64> {
        match name {
            CPU => Some(&mut self.milli_cpu),
            MEMORY => Some(&mut self.memory),
            EPHEMERAL_STORAGE => Some(&mut self.ephemeral_storage),
            name if is_scalar(name) => {
                let at = self.scalars.binary_search_by(|(known, _)| known.as_str().cmp(name));
                let at = at.unwrap_or_else(|at| {
                    self.scalars.insert(at, (name.into(), 0));
                    at
                });
                Some(&mut self.scalars[at].1)
            }
            _ => None,
        }
    }
}

/// A quantity in the scheduler's unit of the resource.
pub(crate) fn amount(name: &str, quantity: &Value) -> i64 {
    let number;
    let text = match quantity {
        Value::Int(value) => {
            number = value.to_string();
            number.as_str()
        }
        other => other.as_str().unwrap_or_default(),
    };
    let quantity = Quantity::parse(text).unwrap_or(Quantity::ZERO);
    if name == CPU { quantity.milli_value() } else { quantity.value() }
}

/// True for resources in whole numbers: extended ones, huge pages, attachable volumes.
pub(crate) fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

/// True for resources that are not defined by Kubernetes.
pub(crate) fn is_extended(name: &str) -> bool {
    let native = name.split_once('/').is_none_or(|(domain, _)| domain.ends_with("kubernetes.io"));
    !native && !name.starts_with("requests.")
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn resource_lists_are_converted_to_the_schedulers_units() {
        let read = Resources::of(Some(
            &value!({"cpu": "1500m", "memory": "1Ki", "pods": "110", "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}),
        ));
        assert_eq!((read.milli_cpu, read.memory), (1500, 1024));
        assert_eq!(read.scalars, [("example.com/gpu".into(), 2), ("hugepages-2Mi".into(), 4 << 20)]);
        assert_eq!((read.get("example.com/gpu"), read.get("example.com/tpu"), read.get("cpu")), (2, 0, 1500));
    }

    #[test]
    fn sums_and_maxima() {
        let mut sum = Resources { milli_cpu: 100, memory: i64::MAX, ..Resources::default() };
        sum.add(&Resources { milli_cpu: 50, memory: 1, scalars: vec![("a/b".into(), 3)], ..sum.clone() });
        assert_eq!((sum.milli_cpu, sum.memory, sum.scalar("a/b")), (150, i64::MAX, 3));
        sum.raise(&Resources { milli_cpu: 10, scalars: vec![("a/b".into(), 9)], ..Resources::default() });
        assert_eq!((sum.milli_cpu, sum.scalar("a/b")), (150, 9));
        assert!(
            is_extended("example.com/gpu")
                && !is_extended("kubernetes.io/x")
                && !is_extended("hugepages-1Gi")
        );
    }
}
