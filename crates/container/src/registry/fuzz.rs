//! Entry points of the registry client's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use super::RegistriesConfig;
use super::auth::challenge;

/// A `registries.yaml`, and a `WWW-Authenticate` header.
pub fn text(text: &str) {
    if let Ok(config) = RegistriesConfig::parse(text) {
        assert!(!config.endpoints("docker.io").is_empty(), "a registry is an endpoint of itself");
    }
    let _ = challenge(text);
}
