//! Legacy service-account token cleaner: marks auto-generated token secrets as invalid that were not used for a long
//! time, and deletes them when they have not been used for as long again.
//!
//! Reads secrets, service accounts and pods once a day. Never touches a secret that its service account does not list,
//! one that a pod uses, or any before their use has been tracked for the whole clean-up period.
//!
//! Not a `Controller`: it depends on the passage of days, not on changes, so it watches nothing and has no queue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corten_api::{Str, Value, meta, pods, time, value};
use corten_auth::authentication::legacy_token::{INVALID_SINCE, LAST_USED};
use corten_client::{Caches, Client, DeleteOptions, Error, Key, Object, Patch, kinds};
use corten_reconcile::Manager;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::secrets::{self, SERVICE_ACCOUNT_TOKEN, Secret};

const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";
const ACCOUNT: &str = "legacy-service-account-token-cleaner";
const EVERY: Duration = Duration::from_secs(24 * 3600);
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Options of the legacy token cleaner.
#[derive(Debug, Clone, Copy)]
pub struct LegacyTokenCleanerOptions {
    pub clean_up_period: Duration,
}

impl Default for LegacyTokenCleanerOptions {
    fn default() -> LegacyTokenCleanerOptions {
        LegacyTokenCleanerOptions { clean_up_period: Duration::from_secs(365 * 24 * 3600) }
    }
}

/// The decision about a token.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// Mark it as invalid since this day.
    Mark(String),
    Delete,
}

pub(crate) fn start(manager: &Manager, options: LegacyTokenCleanerOptions) {
    if !manager.is_selected(NAME) {
        return;
    }
    let cleaner = Cleaner {
        caches: manager.caches().clone(),
        client: manager.client_for(ACCOUNT),
        period: options.clean_up_period.try_into().unwrap_or(SignedDuration::MAX),
    };
    let caches =
        [&kinds::SECRETS, &kinds::SERVICE_ACCOUNTS, &kinds::PODS].map(|kind| cleaner.caches.of(kind));
    let clock = manager.clock().clone();
    manager.spawn(async move {
        for cache in caches {
            cache.synced().await;
        }
        loop {
            if let Err(error) = cleaner.clean(clock.now()).await {
                tracing::warn!(controller = NAME, err = %error, "cannot look for unused service-account tokens; retrying");
            }
            clock.sleep(EVERY).await;
        }
    });
}

struct Cleaner {
    caches: Caches,
    client: Client,
    period: SignedDuration,
}

impl Cleaner {
    async fn clean(&self, now: Timestamp) -> Result<(), Error> {
        let tracking = self.client.get(&kinds::CONFIG_MAPS, &Key::new("kube-system", TRACKING)).await?;
        let Some(since) = tracked_since(&tracking) else {
            tracing::warn!(
                controller = NAME,
                "start of legacy token tracking is unknown; keeping all tokens"
            );
            return Ok(());
        };
        let Ok(unused_since) = now.checked_sub(self.period) else { return Ok(()) };
        if unused_since < since {
            return Ok(());
        }
        let mut mounted = BTreeMap::new();
        for secret in self.caches.of(&kinds::SECRETS).list("") {
            if secret.deleting || secret.view::<Secret>().kind != SERVICE_ACCOUNT_TOKEN {
                continue;
            }
            let namespace = secret.key.namespace.clone();
            let mounted = mounted.entry(namespace).or_insert_with_key(|namespace| self.mounted(namespace));
            let verdict = verdict(&secret.tree(), self.account(&secret).as_ref(), mounted, unused_since, now);
            if let Err(error) = self.carry_out(&secret, &verdict).await {
                tracing::warn!(secret = %secret.key, err = %error, "cannot clean up unused service-account token; retrying");
            }
        }
        Ok(())
    }

    /// The names of the secrets that pods of a namespace use.
    fn mounted(&self, namespace: &str) -> BTreeSet<Str> {
        self.caches
            .of(&kinds::PODS)
            .list(namespace)
            .iter()
            .flat_map(|pod| pods::secrets(&pod.tree()))
            .collect()
    }

    fn account(&self, secret: &Object) -> Option<Value> {
        let view = secret.view::<Secret>();
        let key = Key::new(secret.key.namespace.clone(), view.account.clone());
        let account = self.caches.of(&kinds::SERVICE_ACCOUNTS).get(&key)?.tree();
        secrets::is_meant(&account, &view.account_uid).then_some(account)
    }

    async fn carry_out(&self, secret: &Object, verdict: &Verdict) -> Result<(), Error> {
        let kind = &kinds::SECRETS;
        let result = match verdict {
            Verdict::Keep => return Ok(()),
            Verdict::Mark(day) => {
                tracing::info!(secret = %secret.key, since = day, "marked unused service-account token as invalid");
                let mut patch = value!({"metadata": {"uid": (secret.uid.clone())}});
                patch.set(&["metadata", "labels", INVALID_SINCE], day.as_str());
                self.client.patch(kind, &secret.key, &Patch::Merge(patch), "").await
            }
            Verdict::Delete => {
                tracing::info!(secret = %secret.key, "deleting unused service-account token");
                let resource_version = Some(secret.revision.to_string().into());
                let options = DeleteOptions { resource_version, ..DeleteOptions::default() };
                self.client.delete(kind, &secret.key, &options).await
            }
        };
        match result {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            result => result.map(drop),
        }
    }
}

/// The time from which on the use of all tokens is tracked: the day after tracking began.
fn tracked_since(tracking: &Value) -> Option<Timestamp> {
    let day = date(tracking.str_at(&["data", "since"])?)?;
    Some(day.checked_add(1.day()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn date(text: &str) -> Option<Date> {
    Date::strptime("%Y-%m-%d", text).ok()
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// The decision about a token, given its service account, the secrets that pods use, and the time since which it must
/// be unused.
fn verdict(
    secret: &Value,
    account: Option<&Value>,
    mounted: &BTreeSet<Str>,
    unused_since: Timestamp,
    now: Timestamp,
) -> Verdict {
    let created = secret.str_at(&["metadata", "creationTimestamp"]).and_then(|text| time::parse(text).ok());
    if created.is_none_or(|created| created >= unused_since) {
        return Verdict::Keep;
    }
    let label = |key: &str| meta::labels(secret).and_then(|labels| labels.get(key)).and_then(Value::as_str);
    // Dates in this format compare as texts; an invalid one counts as unknown.
    let oldest_kept = day(unused_since);
    if label(LAST_USED).is_some_and(|used| date(used).is_none() || used >= oldest_kept.as_str()) {
        return Verdict::Keep;
    }
    let name = meta::name(secret);
    // Only secrets that a service account lists were generated for it.
    if !account.is_some_and(|account| secrets::refers_to(account, name)) || mounted.contains(name) {
        return Verdict::Keep;
    }
    match label(INVALID_SINCE).filter(|since| date(since).is_some()) {
        None => Verdict::Mark(day(now)),
        Some(since) if since >= oldest_kept.as_str() => Verdict::Keep,
        Some(_) => Verdict::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-06-01T12:00:00Z";
    const PERIOD: SignedDuration = SignedDuration::from_hours(30 * 24);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A secret created, last used and marked as invalid on these days.
    fn secret(created: &str, used: &str, invalid: &str) -> Value {
        let mut secret = value!({
            "metadata": {"name": "token", "creationTimestamp": (format!("{created}T00:00:00Z"))},
        });
        for (key, text) in [(LAST_USED, used), (INVALID_SINCE, invalid)] {
            if !text.is_empty() {
                secret.set(&["metadata", "labels", key], text);
            }
        }
        secret
    }

    #[track_caller]
    fn check(created: &str, used: &str, invalid: &str, expected: &Verdict) {
        let account = value!({"secrets": [{"name": "token"}]});
        let unused_since = at(NOW).checked_sub(PERIOD).unwrap();
        let secret = secret(created, used, invalid);
        let found = |account: Option<&Value>, mounted: &[&str]| {
            let mounted = mounted.iter().map(Str::new).collect();
            verdict(&secret, account, &mounted, unused_since, at(NOW))
        };
        assert_eq!(&found(Some(&account), &["other"]), expected);
        assert_eq!(found(None, &[]), Verdict::Keep, "no account");
        assert_eq!(found(Some(&value!({})), &[]), Verdict::Keep, "not listed");
        assert_eq!(found(Some(&account), &["token"]), Verdict::Keep, "used by a pod");
    }

    #[test]
    fn unused_tokens_are_marked_then_deleted() {
        let mark = Verdict::Mark("2026-06-01".to_owned());
        check("2026-05-20", "", "", &Verdict::Keep);
        check("2026-01-01", "", "", &mark);
        check("2026-01-01", "2026-05-02", "", &Verdict::Keep);
        check("2026-01-01", "2026-05-01", "", &mark);
        check("2026-01-01", "yesterday", "", &Verdict::Keep);
        check("2026-01-01", "", "yesterday", &mark);
        check("2026-01-01", "", "2026-05-02", &Verdict::Keep);
        check("2026-01-01", "", "2026-05-01", &Verdict::Delete);
        check("2026-01-01", "2026-05-20", "2026-04-01", &Verdict::Keep);
    }

    #[test]
    fn tracking_starts_on_the_day_after() {
        let map = |since: &str| value!({"data": {"since": since}});
        assert_eq!(tracked_since(&map("2026-02-28")), Some(at("2026-03-01T00:00:00Z")));
        assert_eq!(tracked_since(&map("soon")), None);
        assert_eq!(tracked_since(&value!({})), None);
    }
}
