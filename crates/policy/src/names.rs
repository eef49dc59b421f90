//! What chains and sets are called: as people know the policies.

use std::hash::{DefaultHasher, Hash, Hasher};

use corten_client::Key;

use crate::policy::Direction;

/// Shorter than the kernel's limit by the longest thing that is put before or after it.
const LONGEST: usize = 180;

/// The chain that holds what one policy allows.
pub(crate) fn policy(direction: Direction, policy: &Key) -> String {
    format!("{direction}-{}", cut(&format!("{}/{}", policy.namespace, policy.name)))
}

/// The chain of the pods that all of these policies isolate.
pub(crate) fn isolated(direction: Direction, policies: &[Key]) -> String {
    let all: Vec<String> =
        policies.iter().map(|policy| format!("{}/{}", policy.namespace, policy.name)).collect();
    format!("isolated-{direction}-{}", cut(&all.join(",")))
}

/// The addresses that one rule of a policy lets through.
pub(crate) fn peers(chain: &str, rule: usize) -> String {
    format!("peers-{rule}-{chain}")
}

/// The ports of pods that one rule of a policy means by a name.
pub(crate) fn ports(chain: &str, rule: usize) -> String {
    format!("ports-{rule}-{chain}")
}

/// The chain of the sides that one rule of a policy lets through.
pub(crate) fn sides(chain: &str, rule: usize) -> String {
    format!("sides-{rule}-{chain}")
}

/// The chain of what is excepted from one of these sides.
pub(crate) fn exceptions(chain: &str, (rule, side): (usize, usize)) -> String {
    format!("except-{rule}-{side}-{chain}")
}

/// A long name is cut; the hash keeps those apart that begin alike.
fn cut(name: &str) -> String {
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
    fn long_names_are_cut_and_stay_apart() {
        let key = |end: &str| Key::new("n".repeat(63), format!("{}{end}", "p".repeat(250)));
        let (a, b) = (policy(Direction::Ingress, &key("a")), policy(Direction::Ingress, &key("b")));
        assert_ne!(a, b);
        assert!(ports(&a, 1000).len() < 255, "{}", a.len());
        assert_eq!(policy(Direction::Egress, &Key::new("n", "p")), "egress-n/p");
    }
}
