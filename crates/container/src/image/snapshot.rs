//! Layers on disk: one folder for each stack of layers, holding the topmost one's changes.
//!
//! Folders have short numbers for names, because all of an image's must fit into one mount option.

use std::fs;
use std::path::{Path, PathBuf};

use super::content::unique;
use super::index::IndexFile;
use super::manifest::{Config, Manifest};
use super::unpack::{apply, decompressed};
use super::{At, Content, Digest, ImageError, Verified};

pub(super) struct Layers<'a> {
    pub(super) root: &'a Path,
    pub(super) index: &'a IndexFile,
    pub(super) content: &'a Content,
}

impl Layers<'_> {
    /// Unpacks what is not unpacked yet; returns the chain, the lowest first.
    pub(super) fn unpack(&self, manifest: &Manifest, config: &Config) -> Result<Vec<Digest>, ImageError> {
        let diffs = &config.rootfs.diff_ids;
        if diffs.len() != manifest.layers.len() {
            let text =
                format!("the image has {} layers and speaks of {}", manifest.layers.len(), diffs.len());
            return Err(ImageError::Malformed(text));
        }
        let chain = config.chain_ids();
        let mut below: Vec<PathBuf> = Vec::new();
        for ((layer, diff), id) in manifest.layers.iter().zip(diffs).zip(&chain) {
            let known = self.index.read(|known| known.layers.get(id).copied())?;
            let number = match known {
                Some(number) if self.folder(number).exists() => number,
                _ => self.unpack_one(&layer.digest, diff, id, &below)?,
            };
            below.insert(0, self.folder(number));
        }
        Ok(chain)
    }

    fn unpack_one(
        &self,
        blob: &Digest,
        diff: &Digest,
        chain: &Digest,
        below: &[PathBuf],
    ) -> Result<u64, ImageError> {
        let folder = self.root.join(format!("tmp-{}-{}", std::process::id(), unique()));
        let unpacked = self.fill(blob, diff, &folder, below).and_then(|()| self.adopt(&folder, chain));
        if unpacked.is_err() {
            // The failure is what matters; what stays is cleared with the next start.
            let _ = fs::remove_dir_all(&folder);
        }
        unpacked
    }

    fn fill(&self, blob: &Digest, diff: &Digest, folder: &Path, below: &[PathBuf]) -> Result<(), ImageError> {
        fs::create_dir_all(folder).at("creating", folder)?;
        let path = self.content.path(blob);
        let stream = decompressed(self.content.reader(blob)?).at("reading", &path)?;
        let mut stream = Verified::new(std::io::BufReader::with_capacity(1 << 18, stream));
        apply(&mut stream, folder, below).at("unpacking", path)?;
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
