//! YAML to a tree, to YAML, to the same tree.

use corten_api::yaml;

pub(crate) fn check(data: &[u8]) {
    let Ok(value) = yaml::to_value(data, &mut Vec::new()) else { return };
    let written = yaml::to_string(&value);
    match yaml::to_value(written.as_bytes(), &mut Vec::new()) {
        Ok(again) => assert_eq!(again, value, "{written}"),
        Err(error) => panic!("{error}: {written}"),
    }
}
