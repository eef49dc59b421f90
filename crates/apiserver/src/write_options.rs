//! The options in the query of a write: `CreateOptions`, `UpdateOptions`, `PatchOptions`.

use corten_api::status::ErrorList;
use corten_api::{Status, Value, managed};

use crate::decode::FieldValidation;
use crate::request::Query;

pub(crate) struct WriteOptions {
    pub validation: FieldValidation,
    /// All steps except the commit.
    pub dry_run: bool,
}

impl WriteOptions {
    /// Parses the options of a create or an update.
    pub(crate) fn read(query: &Query, kind: &str) -> Result<WriteOptions, Status> {
        WriteOptions::read_after(query, kind, ErrorList::new())
    }

    /// Parses the options, and adds their errors to those of others.
    pub(crate) fn read_after(
        query: &Query,
        kind: &str,
        mut errors: ErrorList,
    ) -> Result<WriteOptions, Status> {
        managed::validate_manager(query.text("fieldManager"), "fieldManager", &mut errors);
        let asked: Vec<Value> = query.all("dryRun").map(Value::from).collect();
        if asked.iter().any(|value| value.as_str() != Some("All")) {
            errors.not_supported("dryRun", &Value::Array(asked.clone()), &["All"]);
        }
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.not_supported("fieldValidation", &Value::from(other), &known);
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            return Ok(WriteOptions { validation, dry_run: !asked.is_empty() });
        }
        Err(Status::invalid("meta.k8s.io", kind, "", &errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_reported_together() {
        let query = Query::parse(Some("dryRun=All&dryRun=X&fieldValidation=Y"));
        let refusal = WriteOptions::read(&query, "CreateOptions").err().unwrap();
        assert_eq!(
            refusal.message,
            "CreateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"All\",\"X\"]: supported values: \
             \"All\", fieldValidation: Unsupported value: \"Y\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
        assert!(WriteOptions::read(&Query::parse(Some("dryRun=All")), "UpdateOptions").unwrap().dry_run);
    }
}
