//! Compaction: every few minutes one of all processes on the same etcd compacts what was current at the previous time.
//!
//! Upstream's protocol, so that both can run on one etcd: the version of one key is the number of compactions. A process
//! that finds the version it knows increases it and compacts; the others learn the new version.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use corten_etcd_api::{
    CompactionRequest, CompactionResponse, Compare, CompareResult, CompareTarget, PutRequest, RangeRequest,
    RequestOp, ResponseOp, TxnRequest, TxnResponse, errors, methods,
};

use super::{
    Etcd, number,
    rpc::{failure, revision},
    unsigned,
};
use crate::{Error, Revision};

const KEY: &[u8] = b"compact_rev_key";

/// The knowledge of this process from its last attempt.
#[derive(Clone, Copy, Default)]
struct Turn {
    /// The version of the key.
    version: i64,
    /// etcd's revision.
    revision: Revision,
}

impl Etcd {
    pub(crate) async fn compact(&self, at: Revision) -> Result<(), Error> {
        self.check_open()?;
        self.live.check_not_future(at)?;
        if at <= self.live.compacted() {
            return Ok(());
        }
        let request = CompactionRequest { revision: number(at), physical: false };
        match self.write::<_, CompactionResponse>(methods::COMPACT, &request).await {
            Ok(_) => {}
            Err(status) if errors::COMPACTED.matches(&status) => {}
            Err(status) => return Err(failure(status)),
        }
        self.live.compacted.fetch_max(at, Ordering::AcqRel);
        Ok(())
    }

    pub(super) async fn compact_periodically(self: Arc<Self>, interval: Duration) {
        let mut turn = Turn::default();
        loop {
            tokio::time::sleep(interval).await;
            match self.take_turn(turn).await {
                Ok(next) => turn = next,
                Err(err) => {
                    tracing::warn!(err = &err as &dyn std::error::Error, "cannot compact etcd; retrying");
                }
            }
        }
    }

    /// Compacts the revision of the previous turn, unless another process has had a turn since.
    async fn take_turn(&self, turn: Turn) -> Result<Turn, Error> {
        let compare = Compare {
            result: CompareResult::Equal,
            target: CompareTarget::Version,
            key: KEY.into(),
            version: turn.version,
            ..Compare::default()
        };
        let value = turn.revision.to_string().into();
        let put = PutRequest { key: KEY.into(), value, ..PutRequest::default() };
        let read = RangeRequest { key: KEY.into(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp::Put(Box::new(put))],
            failure: vec![RequestOp::Range(Box::new(read))],
        };
        let response: TxnResponse = self.write(methods::TXN, &request).await.map_err(failure)?;
        let revision = revision(response.header.as_ref())?;
        if response.succeeded {
            if turn.revision > 0 {
                self.compact(turn.revision).await?;
            }
            return Ok(Turn { version: turn.version + 1, revision });
        }
        let mut version = 0;
        if let Some(ResponseOp::Range(range)) = response.responses.into_iter().next()
            && let Some(kv) = range.kvs.first()
        {
            version = kv.version;
            let compacted = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse::<i64>().ok());
            self.live.compacted.fetch_max(unsigned(compacted.unwrap_or_default()), Ordering::AcqRel);
        }
        Ok(Turn { version, revision })
    }
}
