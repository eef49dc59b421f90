//! Registries: pulling images.
//!
//! An image is requested from the mirrors of its registry, in order, and then from the registry itself. Content is
//! checked against its size and digest before it is used, layers are fetched in parallel, and content that is already
//! in the store is not fetched.

mod auth;
mod client;
mod config;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::image::{
    Descriptor, Index, LARGEST_DOCUMENT, Manifest, Platform, Record, Reference, Store, check_one_kind, media,
};
use crate::{AuthConfig, Error, Progress, PullProgress, Result, blocking};
use client::Repository;
pub use config::{Credentials, HostConfig, Mirror, RegistriesConfig, TlsConfig};

/// Number of layers that are fetched at once.
const PARALLEL: usize = 3;
/// Attempts to fetch a blob.
const TRIES: usize = 3;

/// The configured registries.
#[derive(Debug, Default)]
pub struct Registries {
    config: RegistriesConfig,
}

impl Registries {
    pub fn new(config: RegistriesConfig) -> Registries {
        Registries { config }
    }

    /// Pulls an image into the store.
    pub async fn pull(
        &self,
        store: &Arc<Store>,
        image: &str,
        auth: Option<&AuthConfig>,
        progress: &Progress,
    ) -> Result<Record> {
        let reference: Reference = image.parse()?;
        let mut failure = None;
        for endpoint in self.config.endpoints(&reference.domain) {
            let pulled = match Repository::new(&self.config, &endpoint, &reference, auth) {
                Ok(repository) => Pull { store, reference: &reference, repository, progress }.run().await,
                Err(error) => Err(error),
            };
            match pulled {
                Ok(record) => return Ok(record),
                // The registry itself comes last; its error is the one that is reported.
                Err(error) => failure = Some(error),
            }
        }
        let cause = failure.unwrap_or_else(|| Error::Internal("no registry is configured".to_owned()));
        Err(in_context(&reference, &cause))
    }
}

/// The same error with the image's name.
fn in_context(reference: &Reference, cause: &Error) -> Error {
    let text = format!("failed to pull and unpack image \"{reference}\": {cause}");
    match cause {
        Error::NotFound(_) => Error::NotFound(text),
        Error::InvalidArgument(_) => Error::InvalidArgument(text),
        _ => Error::Internal(text),
    }
}

/// One pull.
struct Pull<'a> {
    store: &'a Arc<Store>,
    reference: &'a Reference,
    repository: Repository,
    progress: &'a Progress,
}

impl Pull<'_> {
    async fn run(&self) -> Result<Record> {
        let incoming = self.store.incoming()?;
        let target = self.resolve().await?;
        let manifest = self.manifest(&target).await?;
        if manifest.config.size > LARGEST_DOCUMENT {
            return Err(Error::Internal(format!(
                "the configuration is larger than {LARGEST_DOCUMENT} bytes"
            )));
        }
        let blobs: Vec<Descriptor> = std::iter::once(manifest.config).chain(manifest.layers).collect();
        let counter = &Counter::new(self.progress, &blobs);
        let fetched = stream::iter(blobs).map(|blob| async move { self.blob(&blob, counter).await });
        fetched.buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;
        let (store, names) = (self.store.clone(), [self.reference.clone()]);
        // Unpacking needs the CPU and the disk, so it must not block the threads of the network.
        blocking(move || Ok(store.add(&target, &names, &Platform::here(), &incoming)?)).await
    }

    /// Resolves the image's name and stores the document as it was received.
    async fn resolve(&self) -> Result<Descriptor> {
        let by = match (&self.reference.digest, &self.reference.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        };
        let (bytes, media_type) = self.repository.manifest(&by).await.map_err(|error| match error {
            Error::NotFound(_) => {
                let name = self.reference;
                Error::NotFound(format!("failed to resolve reference \"{name}\": {name}: not found"))
            }
            error => Error::Internal(format!("failed to resolve reference \"{}\": {error}", self.reference)),
        })?;
        let (digest, size) = self.store.content.add(bytes.as_slice(), self.reference.digest.as_ref())?;
        Ok(Descriptor { media_type, digest, size, platform: None, annotations: Default::default() })
    }

    /// The manifest for this machine, through an index if there is one.
    async fn manifest(&self, target: &Descriptor) -> Result<Manifest> {
        let mut bytes = self.store.content.read(&target.digest)?;
        check_one_kind(&bytes)?;
        if media::is_index(&target.media_type) {
            let index: Index = read(&bytes, "the index")?;
            let chosen = index.choose(&Platform::here())?;
            if !self.store.content.has(&chosen.digest) {
                let (fetched, _) = self.repository.manifest(&chosen.digest.to_string()).await?;
                check_size(chosen, fetched.len() as u64)?;
                self.store.content.add(fetched.as_slice(), Some(&chosen.digest))?;
            }
            bytes = self.store.content.read(&chosen.digest)?;
            check_one_kind(&bytes)?;
        }
        read(&bytes, "the manifest")
    }

    async fn blob(&self, blob: &Descriptor, counter: &Counter<'_>) -> Result<()> {
        if self.store.content.has(&blob.digest) {
            counter.add(blob.size);
            counter.finish_one();
            return Ok(());
        }
        let mut tried = 1;
        loop {
            match self.fetch(blob, counter).await {
                Ok(()) => break,
                Err((error, _)) if tried >= TRIES => return Err(error),
                Err((_, received)) => counter.take_back(received),
            }
            tried += 1;
        }
        counter.finish_one();
        Ok(())
    }

    /// On failure also the number of bytes that were received.
    async fn fetch(&self, blob: &Descriptor, counter: &Counter<'_>) -> Result<(), (Error, u64)> {
        use std::io::Write;
        let (digest, mut received) = (&blob.digest, 0);
        let fetch = async {
            let mut ingest = self.store.content.ingest()?;
            let mut body = self.repository.blob(digest).await?;
            while let Some(chunk) = body.next().await? {
                if received + chunk.len() as u64 > blob.size {
                    return Err(wrong_size(blob, "more"));
                }
                let written = ingest.write_all(&chunk);
                written.map_err(|error| Error::internal(format!("cannot write {digest}"), error))?;
                received += chunk.len() as u64;
                counter.add(chunk.len() as u64);
            }
            check_size(blob, received)?;
            let wanted = digest.clone();
            blocking(move || Ok(ingest.commit(Some(&wanted)).map(drop)?)).await?;
            Ok(())
        };
        let fetched: Result<()> = fetch.await;
        fetched.map_err(|error| (error, received))
    }
}

/// A blob has the size that the manifest says.
fn check_size(blob: &Descriptor, received: u64) -> Result<()> {
    match received.cmp(&blob.size) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(wrong_size(blob, "less")),
        std::cmp::Ordering::Greater => Err(wrong_size(blob, "more")),
    }
}

fn wrong_size(blob: &Descriptor, how: &str) -> Error {
    Error::Internal(format!("the registry sends {how} than the {} bytes of {}", blob.size, blob.digest))
}

fn read<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::internal(format!("{what} is malformed"), error))
}

/// Adds up received bytes and reports the progress.
struct Counter<'a> {
    progress: &'a Progress,
    state: Mutex<PullProgress>,
}

impl<'a> Counter<'a> {
    fn new(progress: &'a Progress, blobs: &[Descriptor]) -> Counter<'a> {
        let total_bytes = blobs.iter().fold(0, |total: u64, blob| total.saturating_add(blob.size));
        let state = PullProgress { total_bytes, total_layers: blobs.len(), ..PullProgress::default() };
        Counter { progress, state: Mutex::new(state) }
    }

    fn change(&self, change: impl FnOnce(&mut PullProgress)) {
        let now = {
            let mut state = self.state.lock();
            change(&mut state);
            *state
        };
        self.progress.report(now);
    }

    fn add(&self, bytes: u64) {
        self.change(|state| state.bytes = state.bytes.saturating_add(bytes));
    }

    fn take_back(&self, bytes: u64) {
        self.change(|state| state.bytes = state.bytes.saturating_sub(bytes));
    }

    fn finish_one(&self) {
        self.change(|state| state.layers += 1);
    }
}
