//! ImageLocality: prefers nodes that already have a pod's images. Images that many nodes have count more, so that one
//! node does not attract all pods.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::registration::{Point, Registration};
use crate::framework::{MAX_SCORE, Plugin};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "ImageLocality";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 1,
    points: &[Point::Score],
    create: Some(|_| Ok(Arc::new(ImageLocality))),
};

const MB: i64 = 1024 * 1024;
/// The range of image sizes that count.
const LEAST: i64 = 23 * MB;
const MOST_PER_IMAGE: i64 = 1000 * MB;

pub(crate) struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        NAME
    }

    fn score(&self, pod: &Pod, cluster: &mut Cluster, nodes: &[NodeIx], scores: &mut [i64]) -> bool {
        let snapshot = &cluster.snapshot;
        let all = snapshot.len().max(1) as f64;
        let images = &pod.shape.images;
        let most = MOST_PER_IMAGE * i64::try_from(images.len().max(1)).unwrap_or(1);
        let spread: Vec<f64> =
            images.iter().map(|image| f64::from(snapshot.image_spread(image)) / all).collect();
        if spread.iter().all(|share| *share == 0.0) {
            return false;
        }
        for (at, score) in nodes.iter().zip(scores.iter_mut()) {
            let here = &snapshot.node(*at).images;
            let scaled = |(image, share)| here.get(image).map_or(0, |size| (*size as f64 * share) as i64);
            let sum: i64 = images.iter().zip(spread.iter().copied()).map(scaled).sum();
            *score = MAX_SCORE * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, node, pod};

    use super::*;

    #[test]
    fn present_images_raise_the_score() {
        let mut scene = Scene::new([
            node("small").image("nginx:latest", 40 * MB),
            node("large").image("db:1", 250 * MB).image("nginx:latest", 40 * MB),
            node("none"),
        ]);
        let scores = |scene: &mut Scene, images: &[&str]| {
            scene.scores(&ImageLocality, &pod("p").images(images).build())
        };
        assert_eq!(scores(&mut scene, &["db:1"]), Some(vec![0, 6, 0]));
        assert_eq!(scores(&mut scene, &["db:1", "nginx"]), Some(vec![0, 4, 0]));
        assert_eq!(scores(&mut scene, &["other"]), None);
    }
}
