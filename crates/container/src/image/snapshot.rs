//! Layers on disk: one folder for each stack of layers, holding the topmost one's changes.
//!
//! Folders have short numbers for names, because all of an image's must fit into one mount option.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corten_base::files;

use super::content::unique;
use super::index::IndexFile;
use super::limits::{Bounded, MOST_LAYERS};
use super::manifest::{Config, Descriptor, Manifest};
use super::unpack::{apply, decompressed};
use super::{At, Content, Digest, ImageError, Limits, Verified};

pub(super) struct Layers<'a> {
    pub(super) root: &'a Path,
    pub(super) index: &'a IndexFile,
    pub(super) content: &'a Content,
    pub(super) limits: Limits,
}

impl Layers<'_> {
    /// Unpacks what is not unpacked yet; returns the chain, the lowest first.
    pub(super) fn unpack(&self, manifest: &Manifest, config: &Config) -> Result<Vec<Digest>, ImageError> {
        let diffs = &config.rootfs.diff_ids;
        if diffs.len() > MOST_LAYERS {
            return Err(ImageError::Malformed(format!("the image has more than {MOST_LAYERS} layers")));
        }
        if diffs.len() != manifest.layers.len() {
            let text =
                format!("the image has {} layers and speaks of {}", manifest.layers.len(), diffs.len());
            return Err(ImageError::Malformed(text));
        }
        let chain = config.chain_ids();
        let deadline = self.limits.deadline();
        let mut below: Vec<PathBuf> = Vec::new();
        for ((layer, diff), id) in manifest.layers.iter().zip(diffs).zip(&chain) {
            let known = self.index.read(|known| known.layers.get(id).copied())?;
            let number = match known {
                Some(number) if self.folder(number).exists() => number,
                _ => self.unpack_one((layer, diff, id), &below, deadline)?,
            };
            below.insert(0, self.folder(number));
        }
        Ok(chain)
    }

    fn unpack_one(
        &self,
        (layer, diff, chain): (&Descriptor, &Digest, &Digest),
        below: &[PathBuf],
        deadline: Instant,
    ) -> Result<u64, ImageError> {
        let folder = self.root.join(format!("tmp-{}-{}", std::process::id(), unique()));
        let unpacked =
            self.fill((layer, diff), &folder, below, deadline).and_then(|()| self.adopt(&folder, chain));
        if unpacked.is_err() {
            // The failure is what matters; what stays is cleared with the next start.
            let _ = fs::remove_dir_all(&folder);
        }
        unpacked
    }

    fn fill(
        &self,
        (layer, diff): (&Descriptor, &Digest),
        folder: &Path,
        below: &[PathBuf],
        deadline: Instant,
    ) -> Result<(), ImageError> {
        files::directory(folder, 0o755).at("creating", folder)?;
        let path = self.content.path(&layer.digest);
        let blob = self.content.reader(&layer.digest)?;
        let budget = self.limits.budget(blob.metadata().at("reading", &path)?.len(), deadline);
        let stream = Bounded::new(decompressed(blob).at("reading", &path)?, budget.clone());
        let mut stream = Verified::new(std::io::BufReader::with_capacity(1 << 18, stream));
        apply(&mut stream, folder, below, &self.limits, budget).at("unpacking", path)?;
        let (found, _) = stream.finish();
        if found != *diff {
            return Err(ImageError::WrongContent { wanted: diff.to_string(), found: found.to_string() });
        }
        Ok(())
    }

    /// Gives an unpacked layer its number, unless somebody else was quicker.
    fn adopt(&self, folder: &Path, chain: &Digest) -> Result<u64, ImageError> {
        let opened = fs::File::open(folder).at("opening", folder)?;
        rustix::fs::syncfs(&opened).at("syncing", folder)?;
        self.index.update(|known| {
            if let Some(&number) = known.layers.get(chain).filter(|number| self.folder(**number).exists()) {
                fs::remove_dir_all(folder).at("removing", folder)?;
                return Ok(number);
            }
            let number = known.next_layer;
            fs::rename(folder, self.folder(number)).at("moving", folder)?;
            known.next_layer += 1;
            known.layers.insert(chain.clone(), number);
            Ok(number)
        })
    }

    pub(super) fn folder(&self, number: u64) -> PathBuf {
        self.root.join(number.to_string())
    }
}
