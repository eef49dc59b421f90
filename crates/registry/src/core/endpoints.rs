//! Endpoints: where a service is served, superseded by endpoint slices.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "endpoints",
    storage_prefix: "services/endpoints",
    create_on_update: true,
    ..Rules::DEFAULT
};
