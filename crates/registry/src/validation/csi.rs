//! Names of CSI drivers.

use corten_api::status::ErrorList;
use corten_api::{Field, names};

use crate::validation::text::complain;

/// The name of a CSI driver, in any case.
pub(crate) fn validate_csi_driver_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 63;
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > MOST {
        errors.too_long(at, MOST);
    }
    complain(at, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}
