//! Unpacked layers: one folder for each stack of layers, with the changes of its topmost layer.
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
    /// Unpacks the layers that are not unpacked yet; returns the chain, the lowest first.
    pub(super) fn unpack(&self, manifest: &Manifest, config: &Config) -> Result<Vec<Digest>, ImageError> {
        let diffs = &config.rootfs.diff_ids;
        if diffs.len() > MOST_LAYERS {
            return Err(ImageError::Malformed(format!("the image has more than {MOST_LAYERS} layers")));
        }
        if diffs.len() != manifest.layers.len() {
            let text = format!(
                "the image has {} layers, but its configuration lists {}",
                manifest.layers.len(),
                diffs.len()
            );
            return Err(ImageError::Malformed(text));
        }
        let chain = config.chain_ids();
        let deadline = self.limits.deadline();
        let mut below: Vec<PathBuf> = Vec::new();
        for ((layer, diff), id) in manifest.layers.iter().zip(diffs).zip(&chain) {
            let index = self.index.read(|index| index.layers.get(id).copied())?;
            let number = match index {
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
            // The error above matters more; the next start removes a folder that stays.
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
        files::directory(folder, 0o755).at("create", folder)?;
        let path = self.content.path(&layer.digest);
        let blob = self.content.reader(&layer.digest)?;
        let budget = self.limits.budget(blob.metadata().at("read", &path)?.len(), deadline);
        let stream = Bounded::new(decompressed(blob, &self.limits).at("read", &path)?, budget.clone());
        let mut stream = Verified::new(std::io::BufReader::with_capacity(1 << 18, stream));
        apply(&mut stream, folder, below, &self.limits, budget).at("unpack", path)?;
        let (found, _) = stream.finish();
        if found != *diff {
            return Err(ImageError::WrongContent { wanted: diff.to_string(), found: found.to_string() });
        }
        Ok(())
    }

    /// Gives an unpacked layer its number, unless another process was first.
    fn adopt(&self, folder: &Path, chain: &Digest) -> Result<u64, ImageError> {
        let opened = fs::File::open(folder).at("open", folder)?;
        rustix::fs::syncfs(&opened).at("sync", folder)?;
        self.index.update(|index| {
            if let Some(&number) = index.layers.get(chain).filter(|number| self.folder(**number).exists()) {
                fs::remove_dir_all(folder).at("remove", folder)?;
                return Ok(number);
            }
            let number = index.next_layer;
            fs::rename(folder, self.folder(number)).at("move", folder)?;
            index.next_layer += 1;
            index.layers.insert(chain.clone(), number);
            Ok(number)
        })
    }

    pub(super) fn folder(&self, number: u64) -> PathBuf {
        self.root.join(number.to_string())
    }
}
