//! Selects the images to remove. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use corten_container::Image;
use jiff::Timestamp;

use crate::stats::FsStats;

/// The policy of image garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImagePolicy {
    /// The disk usage in percent from which on images are removed.
    pub(crate) high: u64,
    /// The disk usage in percent at which removal stops.
    pub(crate) low: u64,
    /// The minimum age of an image before it is removed.
    pub(crate) least_age: Duration,
    /// The age from which on an unused image is removed in any case.
    pub(crate) most_age: Option<Duration>,
}

impl Default for ImagePolicy {
    fn default() -> ImagePolicy {
        ImagePolicy { high: 85, low: 80, least_age: Duration::from_secs(120), most_age: None }
    }
}

/// The known images, by id.
#[derive(Debug, Default)]
pub(super) struct ImageRecords(HashMap<String, Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    first: Timestamp,
    used: Option<Timestamp>,
}

/// An unused image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) size: u64,
    first: Timestamp,
    used: Option<Timestamp>,
}

impl ImageRecords {
    /// Takes over the present images and those in use. Returns the unused ones.
    pub(super) fn update(
        &mut self,
        images: &[Image],
        used: &HashSet<&str>,
        now: Timestamp,
    ) -> Vec<Candidate> {
        let there: HashSet<&str> = images.iter().map(|image| image.id.as_str()).collect();
        self.0.retain(|id, _| there.contains(id.as_str()));
        let mut candidates = Vec::new();
        for image in images {
            let names = [&image.id].into_iter().chain(&image.repo_tags).chain(&image.repo_digests);
            let is_used = names.into_iter().any(|name| used.contains(name.as_str()));
            let seen = self.0.entry(image.id.clone()).or_insert(Seen { first: now, used: None });
            if is_used {
                seen.used = Some(now);
            } else if !image.pinned {
                let Seen { first, used } = *seen;
                candidates.push(Candidate { id: image.id.clone(), size: image.size, first, used });
            }
        }
        candidates
    }
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// The images that may be removed, the least recently used first.
pub(super) fn in_order<'a>(
    candidates: &'a [Candidate],
    policy: &ImagePolicy,
    now: Timestamp,
) -> Vec<&'a Candidate> {
    let mut chosen: Vec<&Candidate> =
        candidates.iter().filter(|image| passed(image.first, now) >= policy.least_age).collect();
    chosen.sort_by_key(|image| (image.used, image.first));
    chosen
}

/// The images that have been unused for too long.
pub(super) fn too_old<'a>(
    candidates: &'a [Candidate],
    policy: &ImagePolicy,
    now: Timestamp,
) -> Vec<&'a Candidate> {
    let Some(most) = policy.most_age else { return Vec::new() };
    let idle = |image: &&&Candidate| passed(image.used.unwrap_or(image.first), now) > most;
    candidates.iter().collect::<Vec<_>>().iter().filter(idle).copied().collect()
}

/// The number of bytes to free, if disk usage is above the high threshold.
pub(super) fn excess(fs: &FsStats, policy: &ImagePolicy) -> Option<u64> {
    let available = fs.available.min(fs.capacity);
    let used = percent_used(fs);
    let wanted = u128::from(fs.capacity) * u128::from(100 - policy.low.min(100)) / 100;
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    (used >= policy.high).then(|| wanted.saturating_sub(available))
}

fn percent_used(fs: &FsStats) -> u64 {
    let available = u128::from(fs.available.min(fs.capacity));
    let free = (available * 100).checked_div(u128::from(fs.capacity)).unwrap_or(100);
    100 - u64::try_from(free).unwrap_or(100)
}

/// The message when too little could be freed; messages are upstream's.
pub(super) fn not_enough(fs: &FsStats, freed: u64) -> String {
    format!(
        "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free sufficient space \
         by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, \
         logs, volumes, or other data.",
        percent_used(fs),
        size(fs.capacity)
    )
}

/// A size such as `12.3 GiB`.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn image(id: &str, size: u64, pinned: bool) -> Image {
        Image { id: id.to_owned(), size, pinned, repo_tags: vec![format!("{id}:latest")], ..Image::default() }
    }

    #[test]
    fn the_least_recently_used_image_is_removed_first() {
        let mut known = ImageRecords::default();
        let all =
            [image("a", 1, false), image("b", 2, false), image("c", 3, false), image("pinned", 4, true)];
        let policy = ImagePolicy::default();
        let order = |candidates: &[Candidate], now| -> Vec<String> {
            in_order(candidates, &policy, at(now)).iter().map(|image| image.id.clone()).collect()
        };
        assert_eq!(order(&known.update(&all, &HashSet::new(), at(0)), 60), Vec::<String>::new(), "too young");
        known.update(&all, &HashSet::from(["a"]), at(100));
        known.update(&all, &HashSet::from(["b:latest"]), at(110));
        let candidates = known.update(&all, &HashSet::new(), at(200));
        assert_eq!(order(&candidates, 200), ["c", "a", "b"]);
        let candidates = known.update(&all[1..], &HashSet::from(["c"]), at(300));
        assert_eq!(order(&candidates, 300), ["b"]);
        known.update(&all, &HashSet::new(), at(310));
        assert_eq!(
            order(&known.update(&all, &HashSet::new(), at(320)), 320),
            ["b", "c"],
            "a has come back just now"
        );
    }

    #[test]
    fn unused_images_exceed_the_maximum_age() {
        let mut known = ImageRecords::default();
        let all = [image("a", 1, false), image("b", 1, false)];
        known.update(&all, &HashSet::new(), at(0));
        let candidates = known.update(&all, &HashSet::from(["b"]), at(50));
        let policy = ImagePolicy { most_age: Some(Duration::from_secs(60)), ..ImagePolicy::default() };
        assert_eq!(too_old(&candidates, &policy, at(60)).len(), 0);
        assert_eq!(too_old(&candidates, &policy, at(61)).len(), 1);
        assert!(too_old(&candidates, &ImagePolicy::default(), at(10_000)).is_empty());
    }

    #[test]
    fn thresholds_decide_how_much_is_freed() {
        let fs = |capacity, available| FsStats { capacity, available, ..FsStats::default() };
        let policy = ImagePolicy::default();
        let cases = [
            ((1000, 400), None),
            ((1000, 150), Some(50)),
            ((1000, 151), Some(49)),
            ((1000, 160), None),
            ((1000, 0), Some(200)),
            ((1000, 5000), None),
        ];
        for ((capacity, available), expected) in cases {
            assert_eq!(excess(&fs(capacity, available), &policy), expected, "{available} of {capacity}");
        }
        let text = not_enough(&fs(3 << 30, 0), 7);
        assert!(text.contains("(100% of 3.0 GiB used)") && text.contains("(freed 7 bytes)"), "{text}");
    }
}
