//! DynamicResources: has a say about pods that claim devices. Of those that claim none, which are all that come here so
//! far, there is nothing to give back when they fit nowhere, and it says so as upstream does.

use crate::cluster::Cluster;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::opinions::Opinions;
use crate::framework::profile::Profile;
use crate::framework::{Nomination, Plugin, PostFilter};
use crate::pod::Pod;
use crate::random::Random;

pub(crate) const NAME: &str = "DynamicResources";

pub(crate) struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }

    fn post_filter(
        &self,
        _pod: &Pod,
        _cluster: &mut Cluster,
        _profile: &Profile,
        _diagnosis: &Diagnosis,
        _opinions: &mut Opinions,
        _random: &mut Random,
    ) -> Option<PostFilter> {
        let message = "no new claims to deallocate".to_owned();
        Some(PostFilter { message, nomination: Nomination::Keep, victims: Vec::new() })
    }
}
