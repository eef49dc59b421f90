//! The credentials for a bucket: from a file in AWS' format, or from the environment.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::S3Error;

const MAX_LENGTH: usize = 4096;

/// An access key and its secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct S3Credentials {
    pub(super) access_key: String,
    pub(super) secret_key: Zeroizing<String>,
    pub(super) session_token: Option<Zeroizing<String>>,
}

impl S3Credentials {
    pub fn new(access_key: &str, secret_key: &str) -> S3Credentials {
        let secret_key = Zeroizing::new(secret_key.to_owned());
        S3Credentials { access_key: access_key.to_owned(), secret_key, session_token: None }
    }

    /// Reads the profile `default` of a file in AWS' format.
    pub fn read(path: &Path) -> Result<S3Credentials, S3Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| S3Error::CredentialsFile { path: path.into(), source: error })?;
        let text = Zeroizing::new(text);
        let mut is_default = false;
        S3Credentials::of(|name| {
            text.lines().map(str::trim).find_map(|line| {
                if let Some(profile) = line.strip_prefix('[') {
                    is_default = profile.trim_end_matches(']').trim() == "default";
                }
                let (key, value) = line.split_once('=').filter(|_| is_default)?;
                key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        })
    }

    /// Reads `AWS_ACCESS_KEY_ID` and the other variables.
    pub fn of_environment() -> Result<S3Credentials, S3Error> {
        S3Credentials::of(|name| std::env::var(name.to_ascii_uppercase()).ok())
    }

    fn of(mut find: impl FnMut(&str) -> Option<String>) -> Result<S3Credentials, S3Error> {
        // Everything is sent in a header.
        let is_valid = |text: &String| {
            (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let mut find = |name: &str| find(name).filter(is_valid);
        let access_key = find("aws_access_key_id").ok_or(S3Error::NoCredentials)?;
        let secret_key = find("aws_secret_access_key").map(Zeroizing::new).ok_or(S3Error::NoCredentials)?;
        let session_token = find("aws_session_token").map(Zeroizing::new);
        Ok(S3Credentials { access_key, secret_key, session_token })
    }
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Credentials({})", self.access_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_profile_of_a_file_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("credentials");
        let text = "[other]\naws_access_key_id = no\n\n[default]\naws_access_key_id = AKIA\naws_secret_access_key=s/e+c=\n";
        std::fs::write(&path, text).unwrap();
        let read = S3Credentials::read(&path).unwrap();
        assert_eq!((&*read.access_key, read.secret_key.as_str()), ("AKIA", "s/e+c="));
        assert!(read.session_token.is_none());
        assert_eq!(format!("{read:?}"), "S3Credentials(AKIA)");
        std::fs::write(&path, "[default]\naws_access_key_id = a\u{7}\n").unwrap();
        assert!(matches!(S3Credentials::read(&path), Err(S3Error::NoCredentials)));
    }
}
