//! The flags that name a place of backups, and the same in the requests and schedules of the server.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use corten_backup::place::{Place, is_bucket};
use corten_backup::{S3Credentials, S3Options};
use serde::{Deserialize, Serialize};

/// The settings of a bucket.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BucketFlags {
    /// URL of the S3-compatible server [default: Amazon's]; http:// for loopback addresses only.
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub(super) s3_endpoint: String,
    /// Region of the bucket.
    #[arg(long, default_value = "us-east-1")]
    pub(super) s3_region: String,
    /// Further certificate authorities of the S3 server, a PEM file.
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) s3_ca_file: Option<PathBuf>,
    /// Credentials of the bucket, in AWS' format [default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY].
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) s3_credentials_file: Option<PathBuf>,
}

impl BucketFlags {
    /// The same with absolute paths.
    pub(super) fn absolute(&self) -> anyhow::Result<BucketFlags> {
        let (s3_ca_file, s3_credentials_file) =
            (absolute(self.s3_ca_file.as_deref())?, absolute(self.s3_credentials_file.as_deref())?);
        Ok(BucketFlags { s3_ca_file, s3_credentials_file, ..self.clone() })
    }

    /// Reads the credentials.
    pub(super) fn credentials(&self) -> anyhow::Result<S3Credentials> {
        Ok(match &self.s3_credentials_file {
            Some(file) => S3Credentials::read(file)?,
            None => S3Credentials::of_environment()?,
        })
    }

    /// Opens a place; a bucket needs credentials. Nothing is read of a directory and nothing sent to a bucket.
    pub(super) fn open(&self, location: &str, credentials: Option<S3Credentials>) -> anyhow::Result<Place> {
        if !is_bucket(location) {
            return Ok(Place::directory(Path::new(location)));
        }
        let credentials = credentials.context("a bucket needs credentials")?;
        let options = S3Options {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            ca_file: self.s3_ca_file.clone(),
            credentials,
        };
        Place::bucket(location, &options).with_context(|| format!("cannot use {location}"))
    }
}

/// An absolute location.
pub(super) fn location(given: Option<&str>, data_dir: &Path) -> anyhow::Result<String> {
    let path = match given {
        None => data_dir.join("backups"),
        Some(bucket) if is_bucket(bucket) => return Ok(bucket.to_owned()),
        Some(directory) => {
            std::path::absolute(directory).with_context(|| format!("cannot resolve {directory}"))?
        }
    };
    ensure!(
        !path.display().to_string().contains("://"),
        "{} is neither a directory nor s3://",
        path.display()
    );
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

pub(super) fn absolute(path: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    path.map(|path| std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display())))
        .transpose()
}
