//! Leader election: one of several processes holds a Lease and works; the others wait until it expires.

use std::time::Duration;

use corten_api::{Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Client, Key, kinds};
use jiff::Timestamp;

/// The parameters of an election.
#[derive(Debug, Clone)]
pub struct Election {
    /// The key of the Lease.
    pub key: Key,
    /// The identity of this candidate.
    pub identity: String,
    pub lease: Duration,
    pub renew: Duration,
    pub retry: Duration,
}

impl Election {
    /// An election with upstream's durations.
    pub fn new(key: Key, identity: String) -> Election {
        let seconds = Duration::from_secs;
        Election { key, identity, lease: seconds(15), renew: seconds(10), retry: seconds(2) }
    }
}

/// The Lease as another candidate observed it, and when it last changed by this process's clock.
struct Observed {
    object: Value,
    at: Timestamp,
}

/// The result of an attempt to renew a lease.
enum Renewal {
    Done,
    Failed,
    /// Another candidate holds it.
    Lost,
}

/// The leadership of this process.
pub struct Leadership {
    client: Client,
    clock: Clock,
    election: Election,
    lease: Value,
}

impl Leadership {
    /// Waits until this process is the leader.
    pub async fn acquire(client: Client, clock: Clock, election: Election) -> Leadership {
        let mut seen: Option<Observed> = None;
        loop {
            if let Some(lease) = try_acquire(&client, &clock, &election, &mut seen).await {
                return Leadership { client, clock, election, lease };
            }
            clock.sleep(election.retry).await;
        }
    }

    /// Renews the lease; returns when it is lost. Dropping the future does not give it up.
    pub async fn hold(&mut self) {
        let mut renewed = self.clock.now();
        loop {
            self.clock.sleep(self.election.retry).await;
            let now = self.clock.now();
            let since = now.duration_since(renewed).unsigned_abs();
            // An attempt ends at the deadline: a server that does not respond must not keep this process working.
            let left = self.election.renew.saturating_sub(since);
            match self.clock.clone().timeout(left, self.renew(now)).await {
                Some(Renewal::Done) => renewed = now,
                Some(Renewal::Failed) if since < self.election.renew => {}
                _ => return,
            }
        }
    }

    async fn renew(&mut self, now: Timestamp) -> Renewal {
        let lease = held(&self.lease, &self.election, now, false);
        let error = match self.client.update(&kinds::LEASES, &lease, "").await {
            Ok(lease) => {
                self.lease = lease;
                return Renewal::Done;
            }
            Err(error) => error,
        };
        tracing::warn!(lease = %self.election.key, err = %error, "cannot renew leader election lease; retrying");
        if let Ok(current) = self.client.get(&kinds::LEASES, &self.election.key).await {
            if holder(&current) != self.election.identity {
                return Renewal::Lost;
            }
            self.lease = current;
        }
        Renewal::Failed
    }
}

impl Leadership {
    /// Gives the lease up, so that another candidate takes it at its next attempt. Without an answer within the renew
    /// deadline, it expires.
    pub async fn release(self) {
        let Leadership { client, clock, election, .. } = self;
        let releasing = async {
            loop {
                let Ok(current) = client.get(&kinds::LEASES, &election.key).await else { return };
                if holder(&current) != election.identity {
                    return;
                }
                match client.update(&kinds::LEASES, &released(&current, clock.now()), "").await {
                    // A renewal was under way.
                    Err(error) if error.is_conflict() => {}
                    _ => return,
                }
            }
        };
        clock.timeout(election.renew, releasing).await;
    }
}

fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default()
}

/// Acquires the lease if it is free or expired.
async fn try_acquire(
    client: &Client,
    clock: &Clock,
    election: &Election,
    seen: &mut Option<Observed>,
) -> Option<Value> {
    let now = clock.now();
    let current = match client.get(&kinds::LEASES, &election.key).await {
        Ok(current) => current,
        Err(error) if error.is_not_found() => {
            let fresh = kinds::LEASES.new_object(&election.key.namespace, &election.key.name);
            return client.create(&kinds::LEASES, &held(&fresh, election, now, true)).await.ok();
        }
        Err(error) => {
            tracing::warn!(lease = %election.key, err = %error, "cannot read leader election lease; retrying");
            return None;
        }
    };
    let unchanged =
        seen.as_ref().is_some_and(|s| meta::resource_version(&s.object) == meta::resource_version(&current));
    if !unchanged {
        *seen = Some(Observed { object: current.clone(), at: now });
    }
    let at = seen.as_ref().map_or(now, |seen| seen.at);
    let lapsed = now.duration_since(at).unsigned_abs() >= election.lease;
    let free = holder(&current).is_empty() || holder(&current) == election.identity;
    if !free && !lapsed {
        return None;
    }
    let is_transition = holder(&current) != election.identity;
    client.update(&kinds::LEASES, &held(&current, election, now, is_transition), "").await.ok()
}

/// The lease as held by this process.
fn held(lease: &Value, election: &Election, now: Timestamp, is_transition: bool) -> Value {
    let mut lease = lease.clone();
    let now = time::format_micro(now);
    if is_transition {
        let transitions = lease.int_at(&["spec", "leaseTransitions"]);
        let taken = transitions.map_or(0, |count| count + 1);
        lease.set(&["spec"], value!({"acquireTime": (now.clone()), "leaseTransitions": (taken)}));
    }
    lease.set(&["spec", "holderIdentity"], election.identity.as_str());
    lease.set(&["spec", "leaseDurationSeconds"], election.lease.as_secs() as i64);
    lease.set(&["spec", "renewTime"], now);
    lease
}

/// The lease without a holder, as upstream leaves it.
fn released(lease: &Value, now: Timestamp) -> Value {
    let mut lease = lease.clone();
    let now = time::format_micro(now);
    lease.set(&["spec", "holderIdentity"], "");
    lease.set(&["spec", "leaseDurationSeconds"], 1i64);
    lease.set(&["spec", "renewTime"], now.clone());
    lease.set(&["spec", "acquireTime"], now);
    lease
}

#[cfg(test)]
mod tests;
