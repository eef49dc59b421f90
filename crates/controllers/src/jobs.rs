//! Jobs as several controllers see them: whether, how and when they finished, and the pods they select.

use corten_api::selector::LabelSelector;
use corten_api::{Value, time};
use corten_client::View;
use jiff::Timestamp;

use crate::selectors;

/// The concurrency of the controllers of jobs.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    pub concurrent_job_syncs: usize,
    pub concurrent_cron_job_syncs: usize,
    pub concurrent_ttl_after_finished_syncs: usize,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            concurrent_job_syncs: 5,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_after_finished_syncs: 5,
        }
    }
}

/// The fields of a job that are read often.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobView {
    /// `Complete` or `Failed`, once it has finished.
    pub(crate) finished: Option<&'static str>,
    /// True if another controller manages it.
    pub(crate) managed_elsewhere: bool,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) completed: Option<Timestamp>,
}

impl View for JobView {
    fn of(job: &Value) -> JobView {
        let at = |key: &str| job.str_at(&["status", key]).and_then(|text| time::parse(text).ok());
        let manager = job.str_at(&["spec", "managedBy"]);
        JobView {
            finished: finished(job).map(|(kind, _)| kind),
            managed_elsewhere: manager.is_some_and(|name| name != "kubernetes.io/job-controller"),
            selector: selectors::of(job),
            started: at("startTime"),
            completed: at("completionTime"),
        }
    }
}

/// The condition of a finished job, and its type.
pub(crate) fn finished(job: &Value) -> Option<(&'static str, &Value)> {
    let mut conditions = job.items_at(&["status", "conditions"]).iter();
    conditions.find_map(|condition| {
        let kind = match condition.str_at(&["type"])? {
            "Complete" => "Complete",
            "Failed" => "Failed",
            _ => return None,
        };
        (condition.str_at(&["status"]) == Some("True")).then_some((kind, condition))
    })
}
