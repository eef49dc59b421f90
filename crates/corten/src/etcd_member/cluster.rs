//! The members of an etcd cluster, by etcd's own API.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use corten_etcd_api::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberRemoveRequest, RangeRequest, RangeResponse, StatusRequest, StatusResponse, errors, methods,
};
use corten_grpc::protobuf::Message;
use corten_grpc::{CallOptions, Channel, ChannelOptions, Status};

use super::certificates::Certificates;
use super::process::Process;

const TIMEOUT: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_millis(300);
/// The time to be added as a member: another one may be joining.
const ADD: Duration = Duration::from_secs(120);
const REMOVE: Duration = Duration::from_secs(30);
/// Defragmentation reads and writes the whole database.
const DEFRAGMENT: Duration = Duration::from_secs(600);

pub(super) struct Cluster {
    channel: Channel,
}

impl Cluster {
    pub(super) fn connect(urls: &[String], certificates: &Certificates) -> anyhow::Result<Cluster> {
        let endpoints = certificates.endpoints(urls)?;
        Ok(Cluster { channel: Channel::new(endpoints, ChannelOptions::default()) })
    }

    async fn call<A: Message, B: Message>(&self, method: &'static str, request: &A) -> Result<B, Status> {
        self.call_within(method, request, TIMEOUT).await
    }

    async fn call_within<A: Message, B: Message>(
        &self,
        method: &'static str,
        request: &A,
        timeout: Duration,
    ) -> Result<B, Status> {
        let options = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
        let outcome = self.channel.unary(method, request, options).await;
        if outcome.is_err() {
            self.channel.fail_over().await;
        }
        outcome
    }

    pub(super) async fn members(&self) -> anyhow::Result<Vec<Member>> {
        let request = MemberListRequest { linearizable: true };
        let listed: MemberListResponse = self.call(methods::MEMBER_LIST, &request).await?;
        Ok(listed.members)
    }

    /// Adds a member that does not vote yet. Returns etcd's `initial-cluster` for it.
    pub(super) async fn add(&self, name: &str, peer_url: &str) -> anyhow::Result<String> {
        let deadline = Instant::now() + ADD;
        loop {
            match self.try_add(name, peer_url).await {
                Ok(initial) => return Ok(initial),
                Err(error) if Instant::now() >= deadline => {
                    return Err(error.context("cannot join the etcd cluster"));
                }
                Err(error) => {
                    tracing::warn!(err = format!("{error:#}"), "cannot join the etcd cluster; retrying");
                    tokio::time::sleep(PERIOD * 3).await;
                }
            }
        }
    }

    async fn try_add(&self, name: &str, peer_url: &str) -> anyhow::Result<String> {
        let known = self.members().await?;
        let own = known.iter().find(|member| member.peer_urls.iter().any(|url| url == peer_url));
        // A member that never started was added before this process was interrupted. One that started has lost its data.
        if let Some(lost) = own.filter(|member| !member.name.is_empty()) {
            self.remove(lost.id).await?;
        }
        let members = match own.filter(|member| member.name.is_empty()) {
            Some(_) => known.clone(),
            None => {
                let request = MemberAddRequest { peer_urls: vec![peer_url.to_owned()], is_learner: true };
                let added: MemberAddResponse = self.call(methods::MEMBER_ADD, &request).await?;
                added.members
            }
        };
        let of_member = |member: &Member| {
            let is_own = member.peer_urls.iter().any(|url| url == peer_url);
            let name = if is_own { name } else { member.name.as_str() };
            member.peer_urls.iter().map(|url| format!("{name}={url}")).collect::<Vec<_>>().join(",")
        };
        if members
            .iter()
            .any(|member| member.name.is_empty() && !member.peer_urls.iter().any(|url| url == peer_url))
        {
            bail!("another member is joining");
        }
        Ok(members.iter().map(of_member).collect::<Vec<_>>().join(","))
    }

    /// Makes the member with this peer URL a voting one, once it has the others' data.
    pub(super) async fn promote(
        &self,
        peer_url: &str,
        process: &Process,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let failure = match self.try_promote(peer_url).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                let why = process.failure().map(|why| anyhow!("etcd ended: {why}")).unwrap_or(failure);
                return Err(why.context("the etcd member does not become a voting one"));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn try_promote(&self, peer_url: &str) -> anyhow::Result<()> {
        let members = self.members().await?;
        let own = members.iter().find(|member| member.peer_urls.iter().any(|url| url == peer_url));
        let own = own.context("this machine's etcd member is not in the cluster")?;
        if !own.is_learner {
            return Ok(());
        }
        let request = MemberPromoteRequest { id: own.id };
        match self.call::<_, MemberListResponse>(methods::MEMBER_PROMOTE, &request).await {
            Err(status) if !errors::MEMBER_NOT_LEARNER.matches(&status) => Err(status.into()),
            _ => Ok(()),
        }
    }

    /// Waits until a linearizable read succeeds.
    pub(super) async fn wait_until_healthy(&self, process: &Process, limit: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        let request = RangeRequest { key: "health".into(), ..RangeRequest::default() };
        loop {
            let failure = match self.call::<_, RangeResponse>(methods::RANGE, &request).await {
                Ok(_) => return Ok(()),
                Err(status) => anyhow::Error::from(status),
            };
            if Instant::now() >= deadline {
                let why = process.failure().map(|why| anyhow!("etcd ended: {why}")).unwrap_or(failure);
                return Err(why.context("the etcd member does not respond"));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Removes a member. etcd refuses that for a few seconds after a majority was away.
    pub(super) async fn remove(&self, id: u64) -> anyhow::Result<()> {
        let request = MemberRemoveRequest { id };
        let deadline = Instant::now() + REMOVE;
        loop {
            match self.call::<_, MemberListResponse>(methods::MEMBER_REMOVE, &request).await {
                Ok(_) => return Ok(()),
                Err(status) if errors::UNHEALTHY.matches(&status) && Instant::now() < deadline => {
                    tokio::time::sleep(PERIOD).await;
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    pub(super) async fn status(&self) -> anyhow::Result<StatusResponse> {
        Ok(self.call(methods::STATUS, &StatusRequest {}).await?)
    }

    pub(super) async fn defragment(&self) -> anyhow::Result<()> {
        let request = DefragmentRequest {};
        let _: DefragmentResponse = self.call_within(methods::DEFRAGMENT, &request, DEFRAGMENT).await?;
        Ok(())
    }

    pub(super) async fn alarms(&self) -> anyhow::Result<Vec<AlarmMember>> {
        let request = AlarmRequest { action: AlarmAction::Get, member_id: 0, alarm: AlarmType::None };
        let listed: AlarmResponse = self.call(methods::ALARM, &request).await?;
        Ok(listed.alarms)
    }

    pub(super) async fn disarm(&self, alarm: &AlarmMember) -> anyhow::Result<()> {
        let request =
            AlarmRequest { action: AlarmAction::Deactivate, member_id: alarm.member_id, alarm: alarm.alarm };
        let _: AlarmResponse = self.call(methods::ALARM, &request).await?;
        Ok(())
    }
}
