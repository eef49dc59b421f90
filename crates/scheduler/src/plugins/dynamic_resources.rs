//! DynamicResources: schedules pods with resource claims. Only pods without claims reach it so far; for those its
//! PostFilter has nothing to deallocate, and says so in upstream's words.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::diagnosis::Diagnosis;
use crate::framework::profile::Profile;
use crate::framework::registration::{Point, Registration};
use crate::framework::shape_cache::ShapeCache;
use crate::framework::{Nomination, Plugin, PostFilter};
use crate::pod::Pod;
use crate::random::Random;

pub(crate) const NAME: &str = "DynamicResources";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 2,
    points: &[Point::PostFilter],
    create: Some(|_| Ok(Arc::new(DynamicResources))),
};

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
        _shape_cache: &mut ShapeCache,
        _random: &mut Random,
    ) -> Option<PostFilter> {
        let message = "no new claims to deallocate".to_owned();
        Some(PostFilter { message, nomination: Nomination::Keep, victims: Vec::new() })
    }
}
