//! Transactions: one Txn of etcd each, whose comparisons are the expectations of the operations. If one fails, the same Txn
//! reads the keys, so that a conflict carries the current entry.

use std::sync::Arc;

use corten_etcd_api::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp,
    ResponseOp, TxnRequest, TxnResponse, methods,
};
use corten_grpc::Status;

use super::{
    Etcd, number,
    pending::Write,
    rpc::{failure, revision},
};
use crate::{Committed, Entry, Error, Expect, Op, Revision, SealingError, Txn};

/// The result of an operation that succeeded.
enum Outcome<'a> {
    /// It sends nothing, because its result is known.
    Known(Option<Arc<Entry>>),
    Put {
        write: Write<'a>,
        previous: Option<Arc<Entry>>,
        op: Op,
    },
    /// The removed entry, if it is known.
    Deleted(Option<Arc<Entry>>),
    Read,
}

impl Etcd {
    pub(crate) async fn commit(self: &Arc<Self>, txn: Txn) -> Result<Committed, Error> {
        self.check_open()?;
        txn.validate()?;
        let etcd = Arc::clone(self);
        // A task, because dropping the caller's future must not leave a response unread.
        tokio::spawn(async move { etcd.commit_whole(txn).await }).await.unwrap_or(Err(Error::Closed))
    }

    async fn commit_whole(&self, txn: Txn) -> Result<Committed, Error> {
        let expected: Vec<(Arc<str>, Expect)> =
            txn.ops.iter().map(|op| (Arc::clone(op.key()), op.expect())).collect();
        let mut request = TxnRequest::default();
        for (key, expect) in &expected {
            if let Some(compare) = self.compare(key, *expect) {
                request.compare.push(compare);
                request.failure.push(self.read_of(key));
            }
        }
        let mut outcomes = Vec::with_capacity(txn.ops.len());
        for op in txn.ops {
            let (outcome, sent) = self.prepare(op)?;
            outcomes.push(outcome);
            request.success.extend(sent);
        }
        let known = self.live.revision();
        let response: TxnResponse = self.write(methods::TXN, &request).await.map_err(failure)?;
        let revision = revision(response.header.as_ref())?;
        self.check_not_earlier(revision, known)?;
        self.reach(revision).await?;
        if !response.succeeded {
            return Err(self.conflict(&expected, response));
        }
        self.committed(outcomes, response, revision)
    }

    fn compare(&self, key: &str, expect: Expect) -> Option<Compare> {
        let (target, result, revision) = match expect {
            Expect::Any => return None,
            Expect::Absent => (CompareTarget::Mod, CompareResult::Equal, 0),
            Expect::Present => (CompareTarget::Mod, CompareResult::Greater, 0),
            Expect::ModRevision(revision) => (CompareTarget::Mod, CompareResult::Equal, number(revision)),
        };
        let key = self.keys.to_etcd(key);
        Some(Compare { result, target, key, mod_revision: revision, ..Compare::default() })
    }

    fn read_of(&self, key: &str) -> RequestOp {
        RequestOp::Range(Box::new(RangeRequest { key: self.keys.to_etcd(key), ..RangeRequest::default() }))
    }

    /// The request of one operation.
    fn prepare(&self, op: Op) -> Result<(Outcome<'_>, Option<RequestOp>), Error> {
        let known = self.live.state.read().get(op.key()).cloned();
        let is_expected = |entry: &Arc<Entry>| op.expect() == Expect::ModRevision(entry.mod_revision);
        let expected = known.clone().filter(is_expected);
        let key = self.keys.to_etcd(op.key());
        Ok(match &op {
            Op::Check { expect: Expect::Absent | Expect::ModRevision(0), .. } => (Outcome::Known(None), None),
            Op::Check { .. } if expected.is_some() => (Outcome::Known(expected), None),
            Op::Check { .. } => (Outcome::Read, Some(self.read_of(op.key()))),
            Op::Delete { .. } => {
                let prev_kv = expected.is_none();
                let request = DeleteRangeRequest { key, prev_kv, ..DeleteRangeRequest::default() };
                (Outcome::Deleted(expected), Some(RequestOp::DeleteRange(Box::new(request))))
            }
            Op::Put { key: name, value, lease, .. } => {
                let stored: bytes::Bytes = self
                    .translation
                    .store(name, value)
                    .map_err(|why| Error::Seal { key: Arc::clone(name), source: SealingError::new(&why) })?
                    .into();
                let lease = lease.map_or(0, |id| number(id.0));
                let request = PutRequest { key, value: stored.clone(), lease, ..PutRequest::default() };
                let write = self.pending.add(name, stored, value.clone());
                (Outcome::Put { write, previous: known, op }, Some(RequestOp::Put(Box::new(request))))
            }
        })
    }

    fn committed(
        &self,
        outcomes: Vec<Outcome<'_>>,
        response: TxnResponse,
        revision: Revision,
    ) -> Result<Committed, Error> {
        let mut responses = response.responses.into_iter();
        let mut entries = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            entries.push(match outcome {
                Outcome::Known(entry) => entry,
                Outcome::Read => match responses.next() {
                    Some(ResponseOp::Range(range)) => range.kvs.first().and_then(|kv| self.known_entry(kv)),
                    _ => return Err(unexpected()),
                },
                Outcome::Deleted(known) => match responses.next() {
                    Some(ResponseOp::DeleteRange(deleted)) => {
                        known.or_else(|| self.known_entry(deleted.prev_kvs.first()?))
                    }
                    _ => return Err(unexpected()),
                },
                Outcome::Put { write, previous, op } => match responses.next() {
                    Some(ResponseOp::Put(_)) => {
                        write.entry(revision).or_else(|| unseen(&write, previous.as_ref(), &op, revision))
                    }
                    _ => return Err(unexpected()),
                },
            });
        }
        Ok(Committed { revision, entries })
    }

    /// The first expectation that does not hold.
    fn conflict(&self, expected: &[(Arc<str>, Expect)], response: TxnResponse) -> Error {
        let mut responses = response.responses.into_iter();
        for (op, (_, expect)) in expected.iter().enumerate().filter(|(_, (_, expect))| *expect != Expect::Any)
        {
            let Some(ResponseOp::Range(range)) = responses.next() else { return unexpected() };
            let current = range.kvs.first().and_then(|kv| self.known_entry(kv));
            if !expect.holds(current.as_ref()) {
                return Error::Conflict { op, current };
            }
        }
        unexpected()
    }

    /// The entry of a version: the one in memory, if it is the same.
    pub(super) fn known_entry(&self, kv: &KeyValue) -> Option<Arc<Entry>> {
        let key = self.keys.of_etcd(&kv.key)?;
        let known = self.live.state.read().get(&key).cloned();
        let is_same = |known: &Arc<Entry>| number(known.mod_revision) == kv.mod_revision;
        known.clone().filter(is_same).or_else(|| self.entry(kv, known.as_ref()))
    }
}

fn unexpected() -> Error {
    failure(Status::internal("unexpected response of etcd to a transaction"))
}

/// The entry of a write whose event was never delivered, because it was replaced and compacted while the watch was lost.
fn unseen(
    write: &Write<'_>,
    previous: Option<&Arc<Entry>>,
    op: &Op,
    revision: Revision,
) -> Option<Arc<Entry>> {
    let Op::Put { key, value, lease, .. } = op else { return None };
    Some(Arc::new(Entry {
        key: Arc::clone(key),
        value: write.value(revision)?,
        create_revision: previous.map_or(revision, |entry| entry.create_revision),
        mod_revision: revision,
        version: previous.map_or(0, |entry| entry.version) + 1,
        lease: *lease,
        note: value.note.clone(),
    }))
}
