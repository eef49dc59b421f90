//! The services Maintenance, Cluster and Auth, as far as a cluster of one member has them.

use corten_etcd_api::errors::{
    AUTH_NOT_ENABLED, BAD_LEADER_TRANSFEREE, INVALID_DOWNGRADE_TARGET, MEMBER_NOT_ENOUGH_STARTED,
    MEMBER_NOT_FOUND, MEMBER_NOT_LEARNER, NO_INFLIGHT_DOWNGRADE, NO_SPACE,
};
use corten_etcd_api::*;
use corten_grpc::{Code, Status};
use corten_store::{End, Keys};

use crate::convert::status;
use crate::identity::{TERM, VERSION};
use crate::service::Etcd;

impl Etcd {
    pub(crate) fn status(&self) -> StatusResponse {
        let bytes = self.store.disk_bytes() as i64;
        let revision = self.store.revision();
        let alarms = self.alarms.lock().clone();
        StatusResponse {
            header: Some(self.identity.header(revision)),
            version: VERSION.to_owned(),
            db_size: bytes,
            leader: self.identity.member_id(),
            raft_index: revision,
            raft_term: TERM,
            raft_applied_index: revision,
            errors: alarms
                .iter()
                .map(|alarm| format!("memberID:{} alarm:{} ", self.identity.member_id(), name(*alarm)))
                .collect(),
            db_size_in_use: bytes,
            is_learner: false,
            storage_version: VERSION.to_owned(),
            db_size_quota: self.options.quota_bytes.map_or(0, |quota| quota as i64),
            downgrade_info: Some(DowngradeInfo::default()),
        }
    }

    /// Alarms are a client's marks; NOSPACE refuses writes until it is disarmed.
    pub(crate) fn alarm(&self, request: &AlarmRequest) -> AlarmResponse {
        let mut alarms = self.alarms.lock();
        let wanted = |alarm: &AlarmType| request.alarm == AlarmType::None || *alarm == request.alarm;
        let shown: Vec<AlarmType> = match request.action {
            AlarmAction::Get | AlarmAction::Other(_) => alarms.iter().copied().filter(wanted).collect(),
            AlarmAction::Activate => {
                if matches!(request.alarm, AlarmType::NoSpace | AlarmType::Corrupt)
                    && !alarms.contains(&request.alarm)
                {
                    alarms.push(request.alarm);
                }
                alarms.iter().copied().filter(wanted).collect()
            }
            AlarmAction::Deactivate => {
                let disarmed = alarms.iter().copied().filter(|alarm| *alarm == request.alarm).collect();
                alarms.retain(|alarm| *alarm != request.alarm);
                disarmed
            }
        };
        let member_id = self.identity.member_id();
        let alarms = shown.into_iter().map(|alarm| AlarmMember { member_id, alarm }).collect();
        AlarmResponse { header: Some(self.header()), alarms }
    }

    /// The names of the alarms that are active.
    pub(crate) fn active_alarms(&self) -> Vec<&'static str> {
        self.alarms.lock().iter().map(|alarm| name(*alarm)).collect()
    }

    pub(crate) fn check_alarm(&self) -> Result<(), Status> {
        if self.alarms.lock().contains(&AlarmType::NoSpace) { Err(NO_SPACE.into()) } else { Ok(()) }
    }

    /// Refuses a write of this size if it does not fit, and from then on all that need space.
    pub(crate) fn check_space(&self, bytes: usize) -> Result<(), Status> {
        self.check_alarm()?;
        let Some(quota) = self.options.quota_bytes else { return Ok(()) };
        let used = self.store.disk_bytes();
        if used.saturating_add(bytes as u64) < quota {
            return Ok(());
        }
        tracing::warn!(
            used,
            quota,
            "store is larger than its quota; writes are refused until the alarm is disarmed"
        );
        let mut alarms = self.alarms.lock();
        if !alarms.contains(&AlarmType::NoSpace) {
            alarms.push(AlarmType::NoSpace);
        }
        Err(NO_SPACE.into())
    }

    /// Replaces the store's logs by a snapshot, which frees the space of compacted revisions.
    pub(crate) async fn defragment(&self) -> Result<DefragmentResponse, Status> {
        self.check_writable(self.options.protected_prefix.is_some())?;
        self.store.shrink().await.map_err(status)?;
        Ok(DefragmentResponse { header: Some(self.header()) })
    }

    /// The checksum of all keys at a revision, or now.
    pub(crate) async fn hash(&self, revision: i64) -> Result<HashKvResponse, Status> {
        let keys = Keys { start: "".into(), end: End::Unbounded };
        let range = match u64::try_from(revision) {
            Ok(revision) if revision > 0 => self.store.scan_at(&keys, 0, revision).await.map_err(status)?,
            _ => self.store.scan(&keys, 0),
        };
        let mut hasher = crc32fast::Hasher::new();
        for entry in &range.entries {
            hasher.update(entry.key.as_bytes());
            hasher.update(&entry.mod_revision.to_be_bytes());
            hasher.update(&entry.create_revision.to_be_bytes());
            hasher.update(&entry.version.to_be_bytes());
            hasher.update(&entry.value);
        }
        Ok(HashKvResponse {
            header: Some(self.header()),
            hash: hasher.finalize(),
            compact_revision: self.compacted(),
            hash_revision: range.revision as i64,
        })
    }

    /// The compacted revision, -1 for none as in etcd.
    fn compacted(&self) -> i64 {
        match self.store.compacted() {
            0 => -1,
            revision => revision as i64,
        }
    }

    pub(crate) fn move_leader(&self, request: &MoveLeaderRequest) -> Result<MoveLeaderResponse, Status> {
        if request.target_id == self.identity.member_id() {
            return Ok(MoveLeaderResponse { header: Some(self.header()) });
        }
        Err(BAD_LEADER_TRANSFEREE.into())
    }

    pub(crate) fn downgrade(&self, request: &DowngradeRequest) -> Result<DowngradeResponse, Status> {
        match request.action {
            DowngradeAction::Cancel => Err(NO_INFLIGHT_DOWNGRADE.into()),
            _ => Err(INVALID_DOWNGRADE_TARGET.into()),
        }
    }

    pub(crate) fn member_list(&self) -> MemberListResponse {
        MemberListResponse { header: Some(self.header()), members: vec![self.identity.member()] }
    }

    /// A change of a member: the only one can neither be removed nor promoted.
    pub(crate) fn change_member(&self, id: u64, own: Status) -> Status {
        if id == self.identity.member_id() { own } else { MEMBER_NOT_FOUND.into() }
    }

    pub(crate) fn member_remove(&self, request: &MemberRemoveRequest) -> Result<MemberListResponse, Status> {
        Err(self.change_member(request.id, MEMBER_NOT_ENOUGH_STARTED.into()))
    }

    pub(crate) fn member_promote(
        &self,
        request: &MemberPromoteRequest,
    ) -> Result<MemberListResponse, Status> {
        Err(self.change_member(request.id, MEMBER_NOT_LEARNER.into()))
    }

    pub(crate) fn member_update(&self, request: &MemberUpdateRequest) -> Result<MemberListResponse, Status> {
        Err(self.change_member(request.id, one_member()))
    }

    pub(crate) fn auth_status(&self) -> AuthStatusResponse {
        AuthStatusResponse { header: Some(self.header()), enabled: false, auth_revision: 1 }
    }
}

pub(crate) fn one_member() -> Status {
    Status::new(Code::Unimplemented, "etcdserver: this server is a cluster of one member; use etcd for more")
}

pub(crate) fn no_users() -> Status {
    Status::new(Code::Unimplemented, "etcdserver: users and roles are not supported; use client certificates")
}

pub(crate) fn authenticate() -> Status {
    AUTH_NOT_ENABLED.into()
}

fn name(alarm: AlarmType) -> &'static str {
    match alarm {
        AlarmType::NoSpace => "NOSPACE",
        AlarmType::Corrupt => "CORRUPT",
        AlarmType::None | AlarmType::Other(_) => "NONE",
    }
}
