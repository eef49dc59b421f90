//! Which controllers run, in the words of `--controllers`: `*` is all that are on by default, `name` one more,
//! `-name` one less.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<String>);

/// Off unless named.
const OFF_BY_DEFAULT: [&str; 2] = ["bootstrap-signer-controller", "token-cleaner-controller"];

impl Default for Selection {
    fn default() -> Selection {
        Selection(vec!["*".to_owned()])
    }
}

impl Selection {
    pub fn new(names: Vec<String>) -> Selection {
        Selection(names)
    }

    /// All there are, also those that are off by default.
    pub fn everything() -> Selection {
        let names = ["*"].into_iter().chain(OFF_BY_DEFAULT);
        Selection(names.map(str::to_owned).collect())
    }

    /// What is said of a controller by name counts before what is said of all.
    pub fn includes(&self, controller: &str) -> bool {
        for name in &self.0 {
            if name == controller {
                return true;
            }
            if name.strip_prefix('-') == Some(controller) {
                return false;
            }
        }
        self.0.iter().any(|name| name == "*") && !OFF_BY_DEFAULT.contains(&controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_controllers_run() {
        let check = |names: &[&str], controller: &str, expected: bool| {
            let selection = Selection::new(names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(selection.includes(controller), expected, "{names:?} {controller}");
        };
        check(&["*"], "job-controller", true);
        check(&["*", "-job-controller"], "job-controller", false);
        check(&["job-controller"], "job-controller", true);
        check(&["job-controller"], "deployment-controller", false);
        check(&["*"], "token-cleaner-controller", false);
        check(&["*", "token-cleaner-controller"], "token-cleaner-controller", true);
    }
}
