//! The exit status of a session, for clients. Pure.

use corten_api::{Value, json, value};

use super::Work;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// The command exited with a code other than zero.
    ExitCode {
        command: Vec<String>,
        code: i32,
    },
    Failure(String),
}

impl Outcome {
    pub(super) fn of(work: &Work, ended: Result<i32, String>) -> Outcome {
        match (work, ended) {
            (Work::Attach, Ok(_)) | (Work::Exec(_), Ok(0)) => Outcome::Success,
            (Work::Exec(command), Ok(code)) => Outcome::ExitCode { command: command.clone(), code },
            (Work::Exec(_), Err(why)) => {
                Outcome::Failure(format!("error executing command in container: {why}"))
            }
            (Work::Attach, Err(why)) => Outcome::Failure(format!("error attaching to container: {why}")),
        }
    }

    pub(super) fn to_json(&self) -> String {
        let mut status = value!({"metadata": {}});
        match self {
            Outcome::Success => status.set(&["status"], "Success"),
            Outcome::ExitCode { code, .. } => {
                status.set(&["status"], "Failure");
                status.set(&["message"], self.message());
                status.set(&["reason"], "NonZeroExitCode");
                let cause = value!({"reason": "ExitCode", "message": (code.to_string())});
                status.set(&["details"], value!({"causes": [(cause)]}));
            }
            Outcome::Failure(why) => {
                status.set(&["status"], "Failure");
                status.set(&["message"], self.message());
                status.set(&["reason"], "InternalError");
                status.set(&["details"], value!({"causes": [{"message": (why.as_str())}]}));
                status.set(&["code"], Value::from(500));
            }
        }
        json::write_to_string(&status)
    }

    /// The error text for clients that do not read a `Status`; `None` on success.
    pub(super) fn to_text(&self) -> Option<String> {
        (*self != Outcome::Success).then(|| self.message())
    }

    fn message(&self) -> String {
        match self {
            Outcome::Success => String::new(),
            Outcome::ExitCode { command, code } => format!(
                "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                command.join(" ")
            ),
            Outcome::Failure(why) => format!("Internal error occurred: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_become_statuses() {
        let exec = Work::Exec(vec!["false".to_owned()]);
        assert_eq!(Outcome::of(&exec, Ok(0)).to_json(), r#"{"metadata":{},"status":"Success"}"#);
        assert_eq!(Outcome::of(&exec, Ok(0)).to_text(), None);
        assert_eq!(Outcome::of(&Work::Attach, Ok(7)), Outcome::Success);
        let failed = Outcome::of(&exec, Ok(3));
        let status = json::parse(failed.to_json().as_bytes()).unwrap();
        assert_eq!(status.str_at(&["reason"]), Some("NonZeroExitCode"));
        let cause = &status.items_at(&["details", "causes"])[0];
        assert_eq!((cause.str_at(&["reason"]), cause.str_at(&["message"])), (Some("ExitCode"), Some("3")));
        let broken = Outcome::of(&exec, Err("no such file".to_owned()));
        assert_eq!(
            broken.to_text().unwrap(),
            "Internal error occurred: error executing command in container: no such file"
        );
    }
}
