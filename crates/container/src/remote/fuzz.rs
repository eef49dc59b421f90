//! Entry point of the CRI's private decoders for the fuzz targets in `fuzz/`; nothing else calls it.

use std::fmt::Debug;

use super::calls::*;
use crate::{ContainerConfig, Image, PodSandboxConfig, Version};
use corten_grpc::protobuf::Message;

/// A message, as every kind of response of a runtime and as the largest requests.
pub fn message(data: &[u8]) {
    check::<ListPodSandboxResponse>(data);
    check::<PodSandboxStatusResponse>(data);
    check::<ListContainersResponse>(data);
    check::<ContainerStatusResponse>(data);
    check::<ListContainerStatsResponse>(data);
    check::<ListPodSandboxStatsResponse>(data);
    check::<ExecSyncResponse>(data);
    check::<StatusResponse>(data);
    check::<RuntimeConfigResponse>(data);
    check::<Url>(data);
    check::<Version>(data);
    check::<Image>(data);
    check::<PodSandboxConfig>(data);
    check::<ContainerConfig>(data);
}

/// A message that decodes is written in a form that decodes to the same message.
fn check<T: Message + Debug>(data: &[u8]) {
    let Some(message) = T::decode(data) else { return };
    let again = T::decode(&message.encode()).expect("a message that was written is read");
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
}
