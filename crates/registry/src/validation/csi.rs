//! What drivers of the container storage interface are called.

use corten_api::status::ErrorList;
use corten_api::{Field, names};

use crate::validation::text::complain;

/// The name of a CSI driver, whatever the case of its letters.
pub(crate) fn validate_csi_driver_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 63;
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > MOST {
        errors.too_long(at, MOST);
    }
    if !names::is_dns1123_subdomain(name) {
        complain(at, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
    }
}
