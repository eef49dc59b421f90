//! The service KV: ranges, puts, deletions, transactions, compaction.
//!
//! Writes and transactions become one [`Program`]; a transaction's reads of earlier revisions follow it, because history
//! does not change.

use corten_etcd_api::errors::{COMPACTED, FUTURE_REVISION, PERMISSION_DENIED, REQUEST_TOO_LARGE};
use corten_etcd_api::*;
use corten_grpc::{Code, Sender, Status};
use corten_store::{Outcome, Program, PutLease, Range, Step, StepResult};

use crate::check;
use crate::convert::{self, has_filters, is_default_order, ranged, status};
use crate::keys::{keys, text, touches};
use crate::service::Etcd;

/// The sizes of a part of a streamed range.
const STREAM_KEYS: usize = 1000;
const STREAM_BYTES: usize = 1 << 20;
/// The space of a key beside its name and value, as etcd estimates it.
const PUT_OVERHEAD: usize = 256;
/// The limit of what the ranges of one transaction return: each of them may return all keys.
const TXN_BYTES: usize = 512 << 20;

impl Etcd {
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        check::range(&request)?;
        let range = self.read(&request).await?;
        Ok(self.range_response(&request, range))
    }

    /// The entries of a request: filtered and sorted ones need all of the range.
    async fn read(&self, request: &RangeRequest) -> Result<Counted, Status> {
        let keys = keys(&request.key, &request.range_end);
        let limit = read_limit(request);
        let range = match self.past_revision(request.revision)? {
            None => {
                let range = self.store.scan(&keys, limit.unwrap_or(0));
                match u64::try_from(request.revision) {
                    // A write came in between: the revision that the request names is not the current one any more.
                    Ok(named) if named > 0 && named != range.revision => {
                        self.store.scan_at(&keys, limit.unwrap_or(0), named).await.map_err(status)?
                    }
                    _ => range,
                }
            }
            Some(revision) => {
                self.store.scan_at(&keys, limit.unwrap_or(0), revision).await.map_err(status)?
            }
        };
        let Range { entries, revision, remaining } = range;
        let count = entries.len() as u64 + remaining;
        Ok(Counted { entries, count, revision })
    }

    /// The revision that a request names, unless it is the current one.
    fn past_revision(&self, requested: i64) -> Result<Option<u64>, Status> {
        let current = self.store.revision() as i64;
        match requested {
            ..=0 => Ok(None),
            _ if requested > current => Err(FUTURE_REVISION.into()),
            _ if requested == current => Ok(None),
            _ => Ok(Some(requested as u64)),
        }
    }

    fn range_response(&self, request: &RangeRequest, range: Counted) -> RangeResponse {
        let Counted { mut entries, count, revision } = range;
        let header = Some(self.identity.header(revision));
        if request.count_only {
            return RangeResponse { header, count: count as i64, ..RangeResponse::default() };
        }
        if has_filters(request) {
            entries.retain(|entry| convert::passes(entry, request));
        }
        if !is_default_order(request) {
            entries.sort_by(|a, b| convert::compare(a, b, request));
        }
        let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let shown = entries.len().min(limit);
        let more = entries.len() > limit || read_limit(request).is_some() && count > shown as u64;
        let kvs = entries[..shown].iter().map(|entry| ranged(entry, request)).collect();
        RangeResponse { header, kvs, more, count: count as i64 }
    }

    /// Streams a range at one revision, in parts.
    pub(crate) async fn range_stream(
        &self,
        request: RangeRequest,
        sender: Sender<RangeStreamResponse>,
    ) -> Result<(), Status> {
        check::range(&request)?;
        let refuse = |what: &str| {
            Err(Status::new(Code::Unimplemented, format!("RangeStream does not support {what}")))
        };
        if !is_default_order(&request) {
            return refuse("custom sort orders");
        }
        if has_filters(&request) {
            return refuse("revision filters");
        }
        // The entries are shared with the store; only a part of them is encoded at a time.
        let Counted { entries, count, revision } = self.read(&request).await?;
        let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut entries = if request.count_only { &[][..] } else { &entries[..entries.len().min(limit)] };
        let shown = entries.len() as u64;
        loop {
            let mut bytes = 0;
            let fitting = entries.iter().take(STREAM_KEYS).take_while(|entry| {
                let before = bytes;
                bytes += entry.value.len();
                before < STREAM_BYTES
            });
            let (part, rest) = entries.split_at(fitting.count());
            entries = rest;
            let kvs = part.iter().map(|entry| ranged(entry, &request)).collect();
            let mut response = RangeResponse { kvs, ..RangeResponse::default() };
            if rest.is_empty() {
                response.header = Some(self.identity.header(revision));
                response.count = count as i64;
                response.more = !request.count_only && shown < count;
            }
            sender.send(&RangeStreamResponse { range_response: Some(response) }).await?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    pub(crate) async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        check::put(&request)?;
        self.check_size(request.key.len() + request.value.len())?;
        let op = RequestOp::Put(Box::new(request));
        match self.run_one(op).await? {
            (ResponseOp::Put(response), header) => Ok(PutResponse { header, ..*response }),
            _ => Err(unexpected()),
        }
    }

    pub(crate) async fn delete_range(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        check::delete(&request)?;
        let op = RequestOp::DeleteRange(Box::new(request));
        match self.run_one(op).await? {
            (ResponseOp::DeleteRange(response), header) => Ok(DeleteRangeResponse { header, ..*response }),
            _ => Err(unexpected()),
        }
    }

    async fn run_one(&self, op: RequestOp) -> Result<(ResponseOp, Option<ResponseHeader>), Status> {
        let request = TxnRequest { success: vec![op], ..TxnRequest::default() };
        let mut response = self.execute(&request).await?;
        response.responses.pop().map(|op| (op, response.header)).ok_or_else(unexpected)
    }

    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        check::txn(&request, self.options.max_txn_ops)?;
        self.check_size(bytes(&request))?;
        self.execute(&request).await
    }

    async fn execute(&self, request: &TxnRequest) -> Result<TxnResponse, Status> {
        let program = self.program(request)?;
        match cost(request) {
            // Deletions make space.
            0 => {}
            cost => self.check_space(cost)?,
        }
        let outcome = self.store.run(program).await.map_err(status)?;
        // As in etcd, a transaction with a response that cannot be sent has taken place.
        let mut left = TXN_BYTES.checked_sub(read_bytes(&outcome)).ok_or_else(too_much)?;
        let header = self.identity.header(outcome.revision);
        let mut response = self.txn_response(request, outcome);
        self.read_deferred(request, &mut response, &mut left).await?;
        response.header = Some(header);
        Ok(response)
    }

    fn check_size(&self, bytes: usize) -> Result<(), Status> {
        if bytes > self.options.max_request_bytes { Err(REQUEST_TOO_LARGE.into()) } else { Ok(()) }
    }

    fn program(&self, request: &TxnRequest) -> Result<Program, Status> {
        let steps = |ops: &[RequestOp]| ops.iter().map(|op| self.step(op)).collect::<Result<Vec<_>, _>>();
        let (success, failure) = (steps(&request.success)?, steps(&request.failure)?);
        let conditions: Option<Vec<_>> = request.compare.iter().map(convert::condition).collect();
        let unknown = || Status::new(Code::InvalidArgument, "etcdserver: unknown comparison in txn request");
        Ok(Program { conditions: conditions.ok_or_else(unknown)?, success, failure })
    }

    fn step(&self, op: &RequestOp) -> Result<Step, Status> {
        Ok(match op {
            RequestOp::None => return Err(errors::KEY_NOT_FOUND.into()),
            RequestOp::Range(request) => Step::Read {
                keys: keys(&request.key, &request.range_end),
                limit: if request.count_only { Some(0) } else { read_limit(request) },
                revision: u64::try_from(request.revision).ok().filter(|revision| *revision > 0),
            },
            RequestOp::Put(request) => {
                let key = text(&request.key);
                self.check_writable(
                    self.options.protected_prefix.is_some_and(|prefix| key.starts_with(prefix)),
                )?;
                let lease = match request.lease {
                    _ if request.ignore_lease => PutLease::Keep,
                    0 => PutLease::None,
                    id => PutLease::Some(convert::lease(id)),
                };
                Step::Put { key, value: (!request.ignore_value).then(|| request.value.clone()), lease }
            }
            RequestOp::DeleteRange(request) => {
                let keys = keys(&request.key, &request.range_end);
                self.check_writable(
                    self.options.protected_prefix.is_some_and(|prefix| touches(&keys, prefix)),
                )?;
                Step::Delete(keys)
            }
            RequestOp::Txn(request) => Step::Program(Box::new(self.program(request)?)),
        })
    }

    pub(crate) fn check_writable(&self, protected: bool) -> Result<(), Status> {
        if protected { Err(PERMISSION_DENIED.into()) } else { Ok(()) }
    }

    fn txn_response(&self, request: &TxnRequest, outcome: Outcome) -> TxnResponse {
        let ops = if outcome.succeeded { &request.success } else { &request.failure };
        let responses = ops.iter().zip(outcome.results).map(|(op, result)| self.op_response(op, result));
        TxnResponse {
            header: Some(ResponseHeader::default()),
            succeeded: outcome.succeeded,
            responses: responses.collect(),
        }
    }

    fn op_response(&self, op: &RequestOp, result: StepResult) -> ResponseOp {
        let header =
            |revision: u64| Some(ResponseHeader { revision: revision as i64, ..ResponseHeader::default() });
        match (op, result) {
            (RequestOp::Range(request), StepResult::Read { entries, count, revision }) => {
                let response = self.range_response(request, Counted { entries, count, revision });
                ResponseOp::Range(Box::new(RangeResponse { header: header(revision), ..response }))
            }
            (RequestOp::Range(_), StepResult::Deferred(revision)) => {
                ResponseOp::Range(Box::new(RangeResponse {
                    header: header(revision),
                    ..RangeResponse::default()
                }))
            }
            (RequestOp::Put(request), StepResult::Put { previous, revision }) => {
                let prev_kv = previous.as_deref().filter(|_| request.prev_kv).map(convert::key_value);
                ResponseOp::Put(Box::new(PutResponse { header: header(revision), prev_kv }))
            }
            (RequestOp::DeleteRange(request), StepResult::Deleted { entries, revision }) => {
                let previous = entries.iter().filter(|_| request.prev_kv);
                let prev_kvs = previous.map(|entry| convert::key_value(entry)).collect();
                let deleted = entries.len() as i64;
                ResponseOp::DeleteRange(Box::new(DeleteRangeResponse {
                    header: header(revision),
                    deleted,
                    prev_kvs,
                }))
            }
            (RequestOp::Txn(request), StepResult::Program(outcome)) => {
                ResponseOp::Txn(Box::new(self.txn_response(request, outcome)))
            }
            // The store's results are in the order of the steps, which are in the order of the operations.
            _ => ResponseOp::None,
        }
    }

    /// Reads the earlier revisions of a transaction's ranges.
    async fn read_deferred(
        &self,
        request: &TxnRequest,
        response: &mut TxnResponse,
        left: &mut usize,
    ) -> Result<(), Status> {
        let ops = if response.succeeded { &request.success } else { &request.failure };
        for (op, response) in ops.iter().zip(&mut response.responses) {
            match (op, response) {
                (RequestOp::Range(request), ResponseOp::Range(response)) if request.revision > 0 => {
                    let current = response.header.take();
                    let keys = keys(&request.key, &request.range_end);
                    let limit = read_limit(request).unwrap_or(0);
                    let range =
                        self.store.scan_at(&keys, limit, request.revision as u64).await.map_err(status)?;
                    *left = left.checked_sub(entries_bytes(&range.entries)).ok_or_else(too_much)?;
                    let count = range.entries.len() as u64 + range.remaining;
                    let range = Counted { entries: range.entries, count, revision: range.revision };
                    **response = RangeResponse { header: current, ..self.range_response(request, range) };
                }
                (RequestOp::Txn(request), ResponseOp::Txn(response)) => {
                    Box::pin(self.read_deferred(request, response, left)).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
        // Another part of the process owns the history, too: its watches and lists would expire.
        self.check_writable(self.options.protected_prefix.is_some())?;
        let requested = u64::try_from(request.revision).unwrap_or(0);
        if requested <= self.store.compacted() {
            return Err(COMPACTED.into());
        }
        self.store.compact(requested).await.map_err(status)?;
        Ok(CompactionResponse { header: Some(self.header()) })
    }
}

/// Entries, and the number of those that the range has.
struct Counted {
    entries: Vec<std::sync::Arc<corten_store::Entry>>,
    count: u64,
    revision: u64,
}

/// The number of entries that a range needs; `None` for all.
fn read_limit(request: &RangeRequest) -> Option<usize> {
    if request.count_only {
        return Some(1);
    }
    let limited = is_default_order(request) && !has_filters(request);
    usize::try_from(request.limit).ok().filter(|limit| limited && *limit > 0)
}

/// The bytes of the entries that the ranges of a program found.
fn read_bytes(outcome: &Outcome) -> usize {
    let of_result = |result: &StepResult| match result {
        StepResult::Read { entries, .. } => entries_bytes(entries),
        StepResult::Program(nested) => read_bytes(nested),
        StepResult::Deferred(_) | StepResult::Put { .. } | StepResult::Deleted { .. } => 0,
    };
    outcome.results.iter().map(of_result).sum()
}

/// The bytes of entries in a response, about.
fn entries_bytes(entries: &[std::sync::Arc<corten_store::Entry>]) -> usize {
    entries.iter().map(|entry| 128 + entry.key.len() + entry.value.len()).sum()
}

fn too_much() -> Status {
    Status::new(Code::ResourceExhausted, "etcdserver: the ranges of a transaction return more than 512 MiB")
}

/// The space that a transaction needs, as etcd estimates it: that of the larger branch.
fn cost(request: &TxnRequest) -> usize {
    let of_op = |op: &RequestOp| match op {
        RequestOp::Put(request) => PUT_OVERHEAD + request.key.len() + request.value.len(),
        RequestOp::Txn(request) => cost(request),
        RequestOp::None | RequestOp::Range(_) | RequestOp::DeleteRange(_) => 0,
    };
    let of_branch = |ops: &[RequestOp]| ops.iter().map(of_op).sum::<usize>();
    of_branch(&request.success).max(of_branch(&request.failure))
}

/// The bytes of a transaction's keys and values.
fn bytes(request: &TxnRequest) -> usize {
    let of_op = |op: &RequestOp| match op {
        RequestOp::None => 0,
        RequestOp::Range(request) => request.key.len() + request.range_end.len(),
        RequestOp::Put(request) => request.key.len() + request.value.len(),
        RequestOp::DeleteRange(request) => request.key.len() + request.range_end.len(),
        RequestOp::Txn(request) => bytes(request),
    };
    let compared = |compare: &Compare| compare.key.len() + compare.range_end.len() + compare.value.len();
    let ops = request.success.iter().chain(&request.failure).map(of_op).sum::<usize>();
    ops + request.compare.iter().map(compared).sum::<usize>()
}

fn unexpected() -> Status {
    Status::internal("etcdserver: the store returned another result than was asked for")
}
