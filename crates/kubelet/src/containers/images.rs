//! Makes a container's image present before the container is created.
//!
//! The pull policy and backoff are decided here; the pull itself is the runtime's.

use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_container::image::Reference;
use corten_container::{
    AuthConfig, Error, Image, ImageFsInfo, ImageSpec, Images, PodSandboxConfig, Progress, PullProgress,
};
use corten_reconcile::EventKind;
use parking_lot::Mutex;

use crate::containers::backoff::Backoffs;
use crate::containers::pulled_images::PulledImages;
use crate::events::PodEventRecorder;
use crate::pod::{Container, Pod};
use crate::status::Waiting;

const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

pub(crate) struct ImageManager {
    images: Arc<dyn Images>,
    clock: Clock,
    pulled: PulledImages,
    state: Mutex<State>,
}

struct State {
    waits: Backoffs,
    /// The message of the last failed pull, by backoff key.
    failures: std::collections::HashMap<String, String>,
}

/// An image that is present.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    pub(crate) image: Image,
    /// The runtime's reference to the image.
    pub(crate) reference: String,
}

/// The image pull policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Always,
    IfNotPresent,
    Never,
}

impl Policy {
    fn of(container: &Container) -> Policy {
        match container.tree.str_at(&["imagePullPolicy"]) {
            Some("Always") => Policy::Always,
            Some("Never") => Policy::Never,
            _ => Policy::IfNotPresent,
        }
    }
}

/// The time between progress events of a long pull.
const PROGRESS_PERIOD: Duration = Duration::from_secs(10);

impl ImageManager {
    pub(crate) fn new(images: Arc<dyn Images>, pulled: PulledImages, clock: Clock) -> ImageManager {
        let waits = Backoffs::new(FIRST_WAIT, LONGEST_WAIT);
        let state = State { waits, failures: std::collections::HashMap::new() };
        ImageManager { images, clock, pulled, state: Mutex::new(state) }
    }

    pub(crate) async fn list(&self) -> Result<Vec<Image>, Error> {
        let now = self.clock.now();
        let listed = self.images.list_images(None).await?;
        log(self.pulled.retain(&listed, now));
        Ok(listed)
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<(), Error> {
        self.images.remove_image(&ImageSpec::new(id)).await
    }

    /// The usage of the file systems of images and containers.
    pub(crate) async fn fs_info(&self) -> Result<ImageFsInfo, Error> {
        self.images.image_fs_info().await
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut state = self.state.lock();
        state.waits.forget(uid);
        state.failures.retain(|key, _| !key.starts_with(uid));
    }

    /// Makes an image present, or returns why the container waits for it.
    pub(crate) async fn ensure(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &PodSandboxConfig,
        credentials: &[AuthConfig],
        events: &PodEventRecorder,
    ) -> Result<Present, Waiting> {
        let asked = container.image();
        let policy = Policy::of(container);
        let record = |kind, reason, message: String| events.of_container(container, kind, reason, message);
        if let Err(err) = check_name(asked) {
            let why = err.to_string();
            let message = format!("Failed to apply default image tag {asked:?}: {why}");
            record(EventKind::Warning, "InspectFailed", message.clone());
            return Err(waiting("InvalidImageName", message));
        }
        let spec = ImageSpec::new(with_tag(asked));
        let found = match self.images.image_status(&spec).await {
            Ok(found) => found,
            Err(err) => {
                let message = format!("Failed to inspect image {asked:?}: {err}");
                record(EventKind::Warning, "InspectFailed", message.clone());
                return Err(waiting("ImageInspectError", message));
            }
        };
        match found {
            Some(image)
                if policy != Policy::Always && self.pulled.may_use(&spec.image, &image, credentials) =>
            {
                let message = format!(
                    "Container image {asked:?} already present on machine and can be accessed by the pod"
                );
                record(EventKind::Normal, "Pulled", message);
                let reference = image.id.clone();
                Ok(Present { image, reference })
            }
            _ if policy == Policy::Never => {
                let message = format!("Container image {asked:?} is not present with pull policy of Never");
                record(EventKind::Warning, "ErrImageNeverPull", message.clone());
                Err(waiting("ErrImageNeverPull", message))
            }
            _ => self.pull(pod, asked, &spec, sandbox, credentials, &record).await,
        }
    }

    async fn pull(
        &self,
        pod: &Pod,
        asked: &str,
        spec: &ImageSpec,
        sandbox: &PodSandboxConfig,
        credentials: &[AuthConfig],
        record: &(dyn Fn(EventKind, &'static str, String) + Sync),
    ) -> Result<Present, Waiting> {
        let key = format!("{}_{asked}", pod.uid());
        if let Some(message) = self.backoff_message(&key, asked) {
            record(EventKind::Normal, "BackOff", format!("Back-off pulling image {asked:?}"));
            return Err(waiting("ImagePullBackOff", message));
        }
        record(EventKind::Normal, "Pulling", format!("Pulling image {asked:?}"));
        let began = self.clock.now();
        match self.pull_with_any(spec, sandbox, credentials, record).await {
            Ok(present) => {
                let took = Duration::try_from(self.clock.now().duration_since(began)).unwrap_or_default();
                let took = go_duration(took);
                let size = present.image.size;
                let message = format!(
                    "Successfully pulled image {asked:?} in {took} ({took} including waiting). Image size: {size} bytes."
                );
                record(EventKind::Normal, "Pulled", message);
                Ok(present)
            }
            Err(err) => {
                record(EventKind::Warning, "Failed", format!("Failed to pull image {asked:?}: {err}"));
                let (reason, message) = failure(asked, &err);
                let now = self.clock.now();
                let mut state = self.state.lock();
                state.waits.grow(&key, now, now);
                tracing::warn!(pod = %pod.key(), image = asked, backoff = ?state.waits.length(&key), %err, "cannot pull image; retrying after the backoff");
                state.failures.insert(key, format!("{reason}: {message}"));
                Err(waiting(reason, message))
            }
        }
    }

    /// The message of an image pull that is in backoff.
    fn backoff_message(&self, key: &str, asked: &str) -> Option<String> {
        let state = self.state.lock();
        state.waits.wait(key, state.waits.updated(key)?, self.clock.now())?;
        let message = format!("Back-off pulling image {asked:?}");
        Some(match state.failures.get(key) {
            Some(failure) => format!("{message}: {failure}"),
            None => message,
        })
    }

    /// Pulls an image, and records progress events.
    async fn pull_with_progress(
        &self,
        spec: &ImageSpec,
        auth: Option<&AuthConfig>,
        sandbox: &PodSandboxConfig,
        record: &(dyn Fn(EventKind, &'static str, String) + Sync),
    ) -> Result<String, Error> {
        let known = Arc::new(Mutex::new(PullProgress::default()));
        let reported = known.clone();
        let progress = Progress::new(move |now| *reported.lock() = now);
        let pull = self.images.pull_image(spec, auth, Some(sandbox), &progress);
        let mut pull = std::pin::pin!(pull);
        loop {
            if let Some(pulled) = self.clock.timeout(PROGRESS_PERIOD, &mut pull).await {
                return pulled;
            }
            if let Some(message) = progress_message(&spec.image, *known.lock()) {
                record(EventKind::Normal, "Pulling", message);
            }
        }
    }

    /// Tries each of the credentials; a pull without credentials if there are none.
    async fn pull_with_any(
        &self,
        spec: &ImageSpec,
        sandbox: &PodSandboxConfig,
        credentials: &[AuthConfig],
        record: &(dyn Fn(EventKind, &'static str, String) + Sync),
    ) -> Result<Present, Error> {
        self.pulled.begin(&spec.image).map_err(|err| Error::internal("cannot record the pull", err))?;
        let tried = credentials.iter().map(Some).chain(credentials.is_empty().then_some(None));
        let mut last = Error::Internal("no credentials were tried".to_owned());
        for auth in tried {
            match self.pull_with_progress(spec, auth, sandbox, record).await {
                Ok(reference) => {
                    let found = self.images.image_status(&ImageSpec::new(reference.clone())).await?;
                    let image = found.unwrap_or_default();
                    log(self.pulled.finish(&spec.image, &image, auth, self.clock.now()));
                    return Ok(Present { image, reference });
                }
                Err(err) => last = err,
            }
        }
        log(self.pulled.fail(&spec.image));
        Err(last)
    }
}

/// Logs that records of pulls are not on disk. Until they are, they are lost if the kubelet ends.
fn log(recorded: std::io::Result<()>) {
    if let Err(err) = recorded {
        tracing::warn!(%err, "cannot write the records of pulled images");
    }
}

/// The progress of a pull in words; `None` if it is not known.
fn progress_message(image: &str, progress: PullProgress) -> Option<String> {
    let PullProgress { bytes, total_bytes, layers, total_layers } = progress;
    let megabytes = |bytes: u64| bytes as f64 / 1_000_000.0;
    (total_bytes > 0).then(|| {
        let (bytes, total) = (megabytes(bytes), megabytes(total_bytes));
        format!("Pulling image {image:?}: {bytes:.1} of {total:.1} MB, {layers} of {total_layers} layers")
    })
}

fn waiting(reason: &str, message: String) -> Waiting {
    Waiting { reason: reason.to_owned(), message }
}

fn failure(image: &str, err: &Error) -> (&'static str, String) {
    match err {
        Error::RegistryUnavailable(why) => {
            let what = "because the registry is unavailable";
            ("RegistryUnavailable", format!("image pull failed for {image} {what}: {why}"))
        }
        Error::SignatureValidationFailed(why) => {
            let what = "because the signature validation failed";
            ("SignatureValidationFailed", format!("image pull failed for {image} {what}: {why}"))
        }
        other => ("ErrImagePull", other.to_string()),
    }
}

/// An image name that cannot be parsed; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {image:?}: {why}")]
struct InvalidImageName {
    image: String,
    why: String,
}

/// Checks that an image name can be parsed.
fn check_name(image: &str) -> Result<(), InvalidImageName> {
    if image.parse::<Reference>().is_ok() {
        return Ok(());
    }
    let lower = image.to_ascii_lowercase().parse::<Reference>();
    let why = match lower.ok().filter(|_| !image.contains('/')) {
        Some(lower) => {
            let name = image.split([':', '@']).next().unwrap_or_default();
            let folder = lower.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("invalid reference format: repository name ({folder}/{name}) must be lowercase")
        }
        None => "invalid reference format".to_owned(),
    };
    Err(InvalidImageName { image: image.to_owned(), why })
}

/// The name with the tag `latest` if it has neither tag nor digest.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) || image.contains('@') {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

/// A duration as Go prints it, to the millisecond.
fn go_duration(took: Duration) -> String {
    let milliseconds = took.as_millis();
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        _ => format!("{}s", (milliseconds as f64) / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pull_reports_its_progress() {
        assert_eq!(progress_message("web", PullProgress::default()), None);
        let progress = PullProgress { bytes: 1_500_000, total_bytes: 30_000_000, layers: 1, total_layers: 4 };
        assert_eq!(
            progress_message("web", progress).unwrap(),
            "Pulling image \"web\": 1.5 of 30.0 MB, 1 of 4 layers"
        );
    }

    #[test]
    fn invalid_image_names_are_refused() {
        assert_eq!(check_name("registry:5000/a/b:1"), Ok(()));
        for (image, why) in [
            ("web:1:2", "couldn't parse image name \"web:1:2\": invalid reference format"),
            (
                "Web:1",
                "couldn't parse image name \"Web:1\": invalid reference format: repository name (library/Web) must be \
                 lowercase",
            ),
        ] {
            assert_eq!(check_name(image).map_err(|err| err.to_string()), Err(why.to_owned()));
        }
    }

    #[test]
    fn names_without_a_tag_get_latest() {
        let cases = [
            ("busybox", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("registry:5000/a", "registry:5000/a:latest"),
            ("registry:5000/a:1", "registry:5000/a:1"),
            ("a@sha256:00", "a@sha256:00"),
        ];
        for (image, expected) in cases {
            assert_eq!(with_tag(image), expected);
        }
    }
}
