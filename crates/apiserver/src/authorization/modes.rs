//! `--authorization-mode`: the authorizers and their order.

use corten_api::status::quoted;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
}

impl Mode {
    /// The name in the reasons of decisions.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::AlwaysAllow => "alwaysallow",
            Mode::AlwaysDeny => "alwaysdeny",
            Mode::Node => "node",
            Mode::Rbac => "rbac",
        }
    }
}

/// The authorizers in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationModes(Vec<Mode>);

impl AuthorizationModes {
    /// Parses `Node,RBAC`.
    pub fn parse(text: &str) -> Result<AuthorizationModes, String> {
        let mut modes = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let mode = match name {
                "AlwaysAllow" => Mode::AlwaysAllow,
                "AlwaysDeny" => Mode::AlwaysDeny,
                "Node" => Mode::Node,
                "RBAC" => Mode::Rbac,
                "ABAC" | "Webhook" => {
                    return Err(format!(
                        "authorization-mode {name} is not supported yet; use Node, RBAC, AlwaysAllow or AlwaysDeny"
                    ));
                }
                other => return Err(format!("authorization-mode {} is not a valid mode", quoted(other))),
            };
            if modes.contains(&mode) {
                return Err(format!("authorization-mode {} has mode specified more than once", quoted(text)));
            }
            modes.push(mode);
        }
        if modes.is_empty() {
            return Err("at least one authorization-mode must be passed".to_owned());
        }
        Ok(AuthorizationModes(modes))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Mode> {
        self.0.iter().copied()
    }

    pub(super) fn has(&self, mode: Mode) -> bool {
        self.0.contains(&mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_keep_their_order() {
        let modes = AuthorizationModes::parse("RBAC,Node").unwrap();
        assert_eq!(modes.iter().collect::<Vec<_>>(), [Mode::Rbac, Mode::Node]);
        for bad in ["", "rbac", "ABAC", "Webhook", "Node,Node", "Node,Unknown"] {
            assert!(AuthorizationModes::parse(bad).is_err(), "{bad}");
        }
    }
}
