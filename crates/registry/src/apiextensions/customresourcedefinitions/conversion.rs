//! Conversion between versions: none, or by a webhook.

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, names};

use super::schema::flag;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, member, text};
use crate::validation::webhook::validate_client_config;

const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

fn is_review_version(version: &Value) -> bool {
    version.as_str().is_some_and(|version| REVIEW_VERSIONS.contains(&version))
}

fn review_versions(conversion: &Value) -> &[Value] {
    conversion.items_at(&["webhook", "conversionReviewVersions"])
}

/// Returns true if the webhook, if there is one, supports the reviews that the server sends.
pub(super) fn understands_reviews(spec: &Value) -> bool {
    let versions = spec.get("conversion").map_or(&[][..], review_versions);
    versions.is_empty() || versions.iter().any(is_review_version)
}

/// Upstream keeps the webhook's parts in fields of their own, which errors name.
pub(super) fn validate(spec: &Value, any_review: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(conversion) = member(spec, "conversion") else { return };
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(at.child("strategy"), &Value::from(strategy), why);
    }
    match strategy {
        "None" | "Webhook" => {}
        "" => errors.required(at.child("strategy"), ""),
        other => errors.not_supported(at.child("strategy"), &Value::from(other), &["None", "Webhook"]),
    }
    let config = conversion.at(&["webhook", "clientConfig"]).filter(|config| !config.is_null());
    let (config_at, versions_at) = (at.child("webhookClientConfig"), at.child("conversionReviewVersions"));
    let versions = review_versions(conversion);
    if strategy == "Webhook" {
        match config {
            None => errors.required(config_at, "required when strategy is set to Webhook"),
            Some(config) => validate_client_config(config, &config_at, errors),
        }
        validate_review_versions(versions, any_review, &versions_at, errors);
        return;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.forbidden(config_at, why);
    }
    if !versions.is_empty() {
        errors.forbidden(versions_at, why);
    }
}

fn validate_review_versions(versions: &[Value], any_review: bool, at: &Field<'_>, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.required(at, "");
        return;
    }
    let repeats = Repeats::of(versions, ByContent);
    for (i, version) in versions.iter().enumerate() {
        if repeats.at(i) {
            errors.invalid(at.index(i), version, "duplicate version");
            continue;
        }
        let version = version.as_str().unwrap_or_default();
        complain(&at.index(i), version, names::dns1035_label(version), errors);
    }
    if !any_review && !versions.iter().any(is_review_version) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(at, &Value::from(versions.to_vec()), why);
    }
}
