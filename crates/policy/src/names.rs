//! The names of chains and sets, made from the names of policies.

use std::hash::{DefaultHasher, Hash, Hasher};

use corten_client::Key;

use crate::policy::Direction;

/// The limit of a name: the kernel's, less the longest prefix and suffix.
const LONGEST: usize = 180;

/// The chain of one policy, with what it allows.
pub(crate) fn policy(direction: Direction, policy: &Key) -> String {
    format!("{direction}-{}", truncate(&format!("{}/{}", policy.namespace, policy.name)))
}

/// The chain of the pods that all of these policies isolate.
pub(crate) fn isolated(direction: Direction, policies: &[Key]) -> String {
    let all: Vec<String> =
        policies.iter().map(|policy| format!("{}/{}", policy.namespace, policy.name)).collect();
    format!("isolated-{direction}-{}", truncate(&all.join(",")))
}

/// The set of addresses that one rule of a policy allows.
pub(crate) fn peers(chain: &str, rule: usize) -> String {
    format!("peers-{rule}-{chain}")
}

/// The set of ports that one rule of a policy names.
pub(crate) fn ports(chain: &str, rule: usize) -> String {
    format!("ports-{rule}-{chain}")
}

/// The chain of the peers that one rule of a policy allows.
pub(crate) fn sides(chain: &str, rule: usize) -> String {
    format!("sides-{rule}-{chain}")
}

/// The chain of the exceptions of one of these peers.
pub(crate) fn exceptions(chain: &str, (rule, side): (usize, usize)) -> String {
    format!("except-{rule}-{side}-{chain}")
}

/// Truncates a long name; a hash keeps names with the same beginning distinct.
fn truncate(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let kept: String = name.chars().take(LONGEST - 17).collect();
    format!("{kept}-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_truncated_and_distinct() {
        let key = |end: &str| Key::new("n".repeat(63), format!("{}{end}", "p".repeat(250)));
        let (a, b) = (policy(Direction::Ingress, &key("a")), policy(Direction::Ingress, &key("b")));
        assert_ne!(a, b);
        assert!(ports(&a, 1000).len() < 255, "{}", a.len());
        assert_eq!(policy(Direction::Egress, &Key::new("n", "p")), "egress-n/p");
    }
}
