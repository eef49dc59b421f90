//! Definitions of custom resources in version `v1beta1`, in which upstream stores them: what all versions have in common is
//! outside of the versions there.

use corten_api::Value;

pub(super) const OLD_VERSION: &str = "apiextensions.k8s.io/v1beta1";

/// Converts a definition of version `v1beta1` to `v1`.
pub(super) fn convert(definition: &mut Value, api_version: &str) {
    definition.set(&["apiVersion"], api_version);
    let common = |definition: &mut Value, field: &str| definition.remove(&["spec", field]);
    let schema = common(definition, "validation");
    let subresources = common(definition, "subresources");
    let columns = common(definition, "additionalPrinterColumns");
    let selectable = common(definition, "selectableFields");
    let only = common(definition, "version");
    if definition.items_at(&["spec", "versions"]).is_empty()
        && let Some(name) = only
    {
        let mut version = Value::object();
        version.set(&["name"], name);
        version.set(&["served"], true);
        version.set(&["storage"], true);
        definition.set(&["spec", "versions"], vec![version]);
    }
    let versions = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions"));
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        let fields = [
            ("schema", &schema),
            ("subresources", &subresources),
            ("additionalPrinterColumns", &columns),
            ("selectableFields", &selectable),
        ];
        for (field, common) in fields {
            if version.get(field).is_none()
                && let Some(common) = common
            {
                version.set(&[field], common.clone());
            }
        }
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            if let Some(path) = column.remove(&["JSONPath"]) {
                column.set(&["jsonPath"], path);
            }
        }
    }
    convert_conversion(definition);
}

/// The webhook of a conversion is one field in `v1`.
fn convert_conversion(definition: &mut Value) {
    let mut webhook = Value::object();
    if let Some(client) = definition.remove(&["spec", "conversion", "webhookClientConfig"]) {
        webhook.set(&["clientConfig"], client);
    }
    let reviews = definition.remove(&["spec", "conversion", "conversionReviewVersions"]);
    if definition.str_at(&["spec", "conversion", "strategy"]) == Some("Webhook") {
        if let Some(reviews) = reviews {
            webhook.set(&["conversionReviewVersions"], reviews);
        }
        definition.set(&["spec", "conversion", "webhook"], webhook);
    }
}
