//! Executes plans. The only place where requests of controllers are made.

use corten_api::{Value, meta};
use corten_client::{Cache, Caches, Client, Error, Key, Kind};
use futures_util::future::join_all;

use crate::{Action, Outcome, Plan, Report, Step};

/// A write that the caches have to show before the next reconcile of its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    /// The cache of a kind has to reach this version.
    Version(&'static Kind, u64),
    /// The object has to be deleted or terminating.
    Gone(&'static Kind, Key, String),
}

/// Executes the steps of a plan in order, up to and including the first that fails.
pub(crate) async fn execute(client: &Client, plan: &Plan) -> Report {
    let mut report = Report::default();
    for step in &plan.steps {
        let before = report.outcomes.len();
        match step {
            Step::One(action) => {
                let outcome = match with_written_version(action, &report) {
                    Some(newer) => Outcome { action: action.clone(), ..perform(client, &newer).await },
                    None => perform(client, action).await,
                };
                report.outcomes.push(outcome);
            }
            Step::Together(actions) => report.outcomes.extend(together(client, actions).await),
            Step::SlowStart(actions) => {
                let each: Vec<_> = actions.iter().map(std::slice::from_ref).collect();
                slow_start(client, &each, &mut report).await;
            }
            Step::SlowStartEach(chains) => {
                let each: Vec<_> = chains.iter().map(Vec::as_slice).collect();
                slow_start(client, &each, &mut report).await;
            }
        }
        if report.outcomes[before..].iter().any(|outcome| outcome.result.is_err()) {
            break;
        }
    }
    report
}

/// If this plan has updated the same object before, the action with the version that came of it: a spec and then a
/// status.
fn with_written_version(action: &Action, report: &Report) -> Option<Action> {
    let Action::Update { kind, object, subresource } = action else { return None };
    let (key, version) = (Key::of(object), meta::resource_version(object));
    let newer =
        report.outcomes.iter().rev().find_map(|outcome| match (&outcome.action, &outcome.result) {
            (Action::Update { kind: same, object: before, .. }, Ok(after)) => {
                let goes_on =
                    same == kind && Key::of(before) == key && meta::resource_version(before) == version;
                goes_on.then(|| meta::resource_version(after))
            }
            _ => None,
        })?;
    let mut object = object.clone();
    object.set(&["metadata", "resourceVersion"], newer);
    Some(Action::Update { kind, object, subresource })
}

async fn together(client: &Client, actions: &[Action]) -> Vec<Outcome> {
    join_all(actions.iter().map(|action| perform(client, action))).await
}

async fn slow_start(client: &Client, chains: &[&[Action]], report: &mut Report) {
    let (mut rest, mut size) = (chains, 1);
    while !rest.is_empty() {
        let (batch, more) = rest.split_at(size.min(rest.len()));
        let outcomes = join_all(batch.iter().map(|actions| in_order(client, actions))).await.concat();
        let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
        report.outcomes.extend(outcomes);
        if failed {
            return;
        }
        (rest, size) = (more, size * 2);
    }
}

async fn in_order(client: &Client, actions: &[Action]) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(actions.len());
    for action in actions {
        outcomes.push(perform(client, action).await);
        if outcomes.last().is_some_and(|outcome| outcome.result.is_err()) {
            break;
        }
    }
    outcomes
}

async fn perform(client: &Client, action: &Action) -> Outcome {
    let result = match action {
        Action::Create { kind, object } => client.create(kind, object).await,
        Action::Update { kind, object, subresource } => client.update(kind, object, subresource).await,
        Action::Patch { kind, key, patch, subresource } => client.patch(kind, key, patch, subresource).await,
        Action::Delete { kind, key, options } => match client.delete(kind, key, options).await {
            // The object is gone, as desired.
            Err(error) if error.is_not_found() => Ok(Value::Null),
            result => result,
        },
        Action::Scale { path, object } => client.replace(path, object).await,
        Action::Post { kind, key, subresource, object } => {
            client.create_subresource(kind, key, subresource, object).await
        }
    };
    Outcome { action: action.clone(), result }
}

/// The writes that the caches have to show before the same key is reconciled again.
pub(crate) fn written(report: &Report) -> Vec<Written> {
    report.outcomes.iter().filter_map(written_by).collect()
}

fn written_by(outcome: &Outcome) -> Option<Written> {
    let object = outcome.result.as_ref().ok()?;
    let version = meta::resource_version(object).parse().ok();
    match &outcome.action {
        Action::Delete { kind, key, options } => match version {
            Some(version) if meta::kind(object) != "Status" && meta::is_deleting(object) => {
                Some(Written::Version(kind, version))
            }
            _ => {
                Some(Written::Gone(kind, key.clone(), options.uid.as_deref().unwrap_or_default().to_owned()))
            }
        },
        Action::Post { .. } | Action::Scale { .. } => None,
        action => version.map(|version| Written::Version(action.kind(), version)),
    }
}

/// Waits until the caches show a write.
pub(crate) async fn wait_for(caches: &Caches, written: &Written) {
    match written {
        Written::Version(kind, version) => {
            caches.of(kind).until(|cache| cache.revision() >= *version).await;
        }
        Written::Gone(kind, key, uid) => {
            let is_gone = |cache: &Cache| match cache.get(key) {
                None => true,
                Some(object) => object.deleting || (!uid.is_empty() && object.uid != uid.as_str()),
            };
            caches.of(kind).until(is_gone).await;
        }
    }
}

/// True for errors that a retry resolves and that need no log line.
pub(crate) fn is_retryable(error: &Error) -> bool {
    error.is_conflict() || error.already_exists() || error.is_not_found()
}

#[cfg(test)]
mod tests;
