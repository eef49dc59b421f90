//! Label and field selectors: what was read prints as something that reads the same.

use corten_api::selector::{FieldSelector, LabelSelector};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        let printed = selector.to_string();
        let again = LabelSelector::parse(&printed).expect("what was printed is read");
        assert_eq!(again.to_string(), printed, "{text:?}");
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let printed = selector.to_string();
        let again = FieldSelector::parse(&printed).expect("what was printed is read");
        assert_eq!(sorted(&again), sorted(&selector), "{text:?}");
    }
}

/// The requirements in an order of their own: a parser sorts them as they are written, and `==` is printed as `=`.
fn sorted(selector: &FieldSelector) -> Vec<(&str, bool, &str)> {
    let requirements = selector.requirements().iter();
    let mut sorted: Vec<_> =
        requirements.map(|wanted| (wanted.field.as_str(), wanted.equal, wanted.value.as_str())).collect();
    sorted.sort_unstable();
    sorted
}
