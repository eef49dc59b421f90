//! Checks of requests that need no state, in etcd's order and with etcd's errors.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use corten_etcd_api::errors::{
    DUPLICATE_KEY, EMPTY_KEY, Error, INVALID_SORT_OPTION, KEY_NOT_FOUND, LEASE_PROVIDED, TOO_MANY_OPS,
    VALUE_PROVIDED,
};
use corten_etcd_api::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest,
};
use corten_store::{End, Keys};

use crate::keys::keys;

pub(crate) fn range(request: &RangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(EMPTY_KEY);
    }
    let unknown = matches!(request.sort_order, SortOrder::Other(_))
        || matches!(request.sort_target, SortTarget::Other(_));
    if unknown { Err(INVALID_SORT_OPTION) } else { Ok(()) }
}

pub(crate) fn put(request: &PutRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(EMPTY_KEY);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(VALUE_PROVIDED);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(LEASE_PROVIDED);
    }
    Ok(())
}

pub(crate) fn delete(request: &DeleteRangeRequest) -> Result<(), Error> {
    if request.key.is_empty() { Err(EMPTY_KEY) } else { Ok(()) }
}

/// The limit of operations in a transaction and all that are nested in it, as a multiple of the limit along one path: without
/// it they are a hundred thousand, and each may return all keys.
const NESTED: usize = 4;

/// Checks a transaction: its size, its operations, and that no key is written twice.
pub(crate) fn txn(request: &TxnRequest, max_ops: usize) -> Result<(), Error> {
    if count(request) > max_ops.saturating_mul(NESTED) {
        return Err(TOO_MANY_OPS);
    }
    ops(request, max_ops)?;
    writes(&request.success)?;
    writes(&request.failure)?;
    Ok(())
}

/// The comparisons and operations of a transaction, also of nested ones.
fn count(request: &TxnRequest) -> usize {
    let of_op = |op: &RequestOp| match op {
        RequestOp::Txn(nested) => 1 + count(nested),
        _ => 1,
    };
    request.compare.len() + request.success.iter().chain(&request.failure).map(of_op).sum::<usize>()
}

fn ops(request: &TxnRequest, max_ops: usize) -> Result<(), Error> {
    let count = request.compare.len().max(request.success.len()).max(request.failure.len());
    let left = max_ops.checked_sub(count).ok_or(TOO_MANY_OPS)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(EMPTY_KEY);
    }
    request.success.iter().chain(&request.failure).try_for_each(|op| match op {
        RequestOp::None => Err(KEY_NOT_FOUND),
        RequestOp::Range(request) => range(request),
        RequestOp::Put(request) => put(request),
        RequestOp::DeleteRange(request) => delete(request),
        RequestOp::Txn(request) => ops(request, left),
    })
}

/// The writes of a list of operations.
#[derive(Default)]
struct Writes {
    puts: HashSet<Bytes>,
    deletions: Vec<Deletion>,
}

/// A deleted range; shared, because nested ones are in the list of every level.
type Deletion = Arc<Keys>;

impl Writes {
    fn add_put(&mut self, key: &Bytes) -> Result<(), Error> {
        let text = crate::keys::text(key);
        if self.deletions.iter().any(|deleted| deleted.contains(&text)) || !self.puts.insert(key.clone()) {
            return Err(DUPLICATE_KEY);
        }
        Ok(())
    }
}

/// Collects writes, and fails if a key is put twice, or put and deleted. Either branch of a nested transaction may write the
/// same key as the other one.
fn writes(ops: &[RequestOp]) -> Result<Writes, Error> {
    let mut all = Writes::default();
    for op in ops {
        let RequestOp::DeleteRange(request) = op else { continue };
        let deleted = keys(&request.key, &request.range_end);
        if !matches!(&deleted.end, End::Before(end) if *end <= deleted.start) {
            all.deletions.push(Arc::new(deleted));
        }
    }
    for op in ops {
        let RequestOp::Txn(request) = op else { continue };
        let (success, failure) = (writes(&request.success)?, writes(&request.failure)?);
        for key in success.puts.union(&failure.puts) {
            all.add_put(key)?;
        }
        all.deletions.extend(success.deletions);
        all.deletions.extend(failure.deletions);
    }
    for op in ops {
        let RequestOp::Put(request) = op else { continue };
        all.add_put(&request.key)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_op(key: &'static str) -> RequestOp {
        RequestOp::Put(Box::new(PutRequest { key: key.into(), ..PutRequest::default() }))
    }

    fn delete_op(key: &'static str, end: &'static str) -> RequestOp {
        let request = DeleteRangeRequest { key: key.into(), range_end: end.into(), prev_kv: false };
        RequestOp::DeleteRange(Box::new(request))
    }

    fn txn_op(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        RequestOp::Txn(Box::new(TxnRequest { compare: Vec::new(), success, failure }))
    }

    #[test]
    fn a_key_is_written_once() {
        let cases = [
            (vec![put_op("a"), put_op("b")], true),
            (vec![put_op("a"), put_op("a")], false),
            (vec![delete_op("a", "c"), put_op("b")], false),
            (vec![put_op("b"), delete_op("a", "c")], false),
            (vec![put_op("c"), delete_op("a", "c")], true),
            (vec![put_op("b"), delete_op("c", "a")], true),
            (vec![delete_op("a", "c"), delete_op("b", "")], true),
            (vec![txn_op(vec![put_op("a")], vec![put_op("a")])], true),
            (vec![txn_op(vec![put_op("a")], vec![]), put_op("a")], false),
            (vec![txn_op(vec![], vec![delete_op("a", "")]), put_op("a")], false),
            (vec![txn_op(vec![put_op("a")], vec![]), txn_op(vec![], vec![put_op("a")])], false),
        ];
        for (index, (success, valid)) in cases.into_iter().enumerate() {
            let request = TxnRequest { success, ..TxnRequest::default() };
            let expected = if valid { Ok(()) } else { Err(DUPLICATE_KEY) };
            assert_eq!(txn(&request, 128), expected, "case {index}");
        }
    }

    #[test]
    fn operations_are_counted_along_each_path() {
        let nested = |inner: usize| TxnRequest {
            success: vec![txn_op((0..inner).map(|_| txn_op(vec![], vec![])).collect(), vec![])],
            ..TxnRequest::default()
        };
        assert_eq!(txn(&nested(3), 4), Ok(()));
        assert_eq!(txn(&nested(4), 4), Err(TOO_MANY_OPS));
        let wide = |width: usize| {
            let inner = || (0..width).map(|_| txn_op(vec![], vec![])).collect::<Vec<_>>();
            TxnRequest { success: vec![txn_op(inner(), inner())], ..TxnRequest::default() }
        };
        assert_eq!(txn(&wide(7), 8), Ok(()));
        let many = (0..6).map(|_| wide(6)).map(|inner| RequestOp::Txn(Box::new(inner))).collect();
        let many = TxnRequest { success: many, ..TxnRequest::default() };
        assert_eq!(txn(&many, 16), Err(TOO_MANY_OPS), "each path is short, but there are many");
        let empty = TxnRequest { success: vec![RequestOp::None], ..TxnRequest::default() };
        assert_eq!(txn(&empty, 128), Err(KEY_NOT_FOUND));
    }
}
