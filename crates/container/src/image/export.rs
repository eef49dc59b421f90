//! Writes images as an archive that both OCI tools and `docker load` read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use super::archive::{NAME, REF_NAME, Saved, descriptor};
use super::manifest::document;
use super::*;

impl Store {
    /// Writes these images and all content they refer to.
    pub fn export(&self, names: &[String], to: impl Write) -> Result<(), ImageError> {
        let mut archive = tar::Builder::new(to);
        let mut index =
            Index { schema_version: 2, media_type: media::OCI_INDEX.to_owned(), manifests: Vec::new() };
        let mut saved = Vec::new();
        let mut blobs = BTreeSet::new();
        for name in names {
            let found = self.find(name)?.ok_or_else(|| ImageError::NotFound(name.clone()))?;
            let Named { record, tags, .. } = found;
            let bytes = self.content.read(&record.manifest)?;
            let manifest: Manifest = document(&bytes, "the manifest")?;
            let asked = name.parse::<Reference>().ok().map(|name| name.to_string());
            let tags: Vec<String> = match asked.filter(|name| tags.contains(name)) {
                Some(name) => vec![name],
                None => tags,
            };
            index.manifests.extend(described(&record, &manifest, &tags, bytes.len() as u64));
            saved.push(Saved {
                config: path_of(&manifest.config.digest),
                layers: manifest.layers.iter().map(|layer| path_of(&layer.digest)).collect(),
                repo_tags: Some(tags),
            });
            // The index that the manifest was chosen from is left out: the archive is for one platform.
            blobs.extend([record.manifest, manifest.config.digest]);
            blobs.extend(manifest.layers.into_iter().map(|layer| layer.digest));
        }
        write_text(&mut archive, "oci-layout", &BTreeMap::from([("imageLayoutVersion", "1.0.0")]))?;
        write_text(&mut archive, "index.json", &index)?;
        write_text(&mut archive, "manifest.json", &saved)?;
        for digest in blobs {
            let mut file = self.content.reader(&digest)?;
            let size = file.metadata().at("read", self.content.path(&digest))?.len();
            append(&mut archive, &path_of(&digest), size, &mut file)?;
        }
        archive.finish().at("write", "the archive")
    }
}

/// One entry for every tag, or one without.
fn described(record: &Record, manifest: &Manifest, tags: &[String], size: u64) -> Vec<Descriptor> {
    let media_type = if manifest.media_type.is_empty() { media::OCI_MANIFEST } else { &manifest.media_type };
    let plain = descriptor(media_type, &record.manifest, size);
    if tags.is_empty() {
        return vec![plain];
    }
    let named = tags.iter().map(|tag| {
        let short = tag.rsplit_once(':').map_or(tag.as_str(), |(_, tag)| tag);
        let annotations = [(NAME.to_owned(), tag.clone()), (REF_NAME.to_owned(), short.to_owned())];
        Descriptor { annotations: annotations.into(), ..plain.clone() }
    });
    named.collect()
}

fn path_of(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn write_text(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    text: &impl Serialize,
) -> Result<(), ImageError> {
    let text = serde_json::to_vec(text).map_err(|error| ImageError::Malformed(error.to_string()))?;
    append(archive, path, text.len() as u64, &mut text.as_slice())
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    size: u64,
    from: &mut impl io::Read,
) -> Result<(), ImageError> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    archive.append_data(&mut header, path, from).at("write", "the archive")
}
