//! Conversion of custom resources between versions: by setting `apiVersion`, or by a webhook.
//!
//! The result is pruned by the schema of its version. Reads convert when they are answered, writes before they are stored,
//! and never while a lock is held: a webhook may take its time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Status, Str, Value, encoded, json, meta};

use super::definition::{Conversion, Definition, WebhookConversion};
use super::version::Version;
use super::webhook;
use crate::call::{Backend, Call};
use crate::catalog::Served;
use crate::heavy;
use crate::object::{Object, Projection};
use crate::random;
use crate::webhook_client::WebhookClient;

/// The deadline of a conversion webhook.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most objects in one ConversionReview, and the most bytes of them, unless one is larger: a longer list is converted
/// in parts.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 << 20;

/// The conversion of one custom resource.
pub(crate) struct Converter {
    name: String,
    kind: Str,
    versions: Vec<Arc<Version>>,
    storage: usize,
    webhook: Option<Box<ConversionWebhook>>,
}

/// The webhook of a definition, with its connections.
struct ConversionWebhook {
    review_versions: Vec<Str>,
    client: Result<WebhookClient, String>,
}

impl ConversionWebhook {
    fn new(webhook: &WebhookConversion) -> ConversionWebhook {
        ConversionWebhook {
            review_versions: webhook.review_versions.clone(),
            client: WebhookClient::new(&webhook.client_config),
        }
    }
}

impl Converter {
    pub(super) fn new(definition: &Definition, versions: Vec<Arc<Version>>, storage: usize) -> Converter {
        Converter {
            name: definition.qualified_name(),
            kind: definition.names.kind.clone(),
            versions,
            storage,
            webhook: match &definition.conversion {
                Conversion::None => None,
                Conversion::Webhook(webhook) => Some(Box::new(ConversionWebhook::new(webhook))),
            },
        }
    }

    /// True if a webhook converts.
    pub(crate) fn has_webhook(&self) -> bool {
        self.webhook.is_some()
    }

    /// The stored version.
    fn stored(&self) -> &str {
        &self.versions[self.storage].api_version
    }

    /// The API versions of the type.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &str> {
        self.versions.iter().map(|version| version.api_version.as_str())
    }

    /// A version of the type, if it has it.
    pub(crate) fn version(&self, api_version: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.api_version == api_version)
    }

    /// Converts an object without a webhook, for the comparison of field owners; `None` if that needs the webhook.
    pub(crate) fn convert_in_place(&self, object: &mut Value, to: &str) -> Option<()> {
        if meta::api_version(object) == to {
            return Some(());
        }
        if self.webhook.is_some() {
            return None;
        }
        object.set(&["apiVersion"], to);
        self.version(to)?.prune(object).ok()
    }

    /// Converts objects to a version; those that have it already stay as they are.
    pub(crate) async fn convert(
        &self,
        backend: &Backend,
        objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, Status> {
        let Some(target) = self.version(to) else {
            return Err(Status::unexplained(format!(
                "request to convert CR to an invalid group/version: {to}"
            )));
        };
        let mut objects = objects;
        let foreign = |object: &&mut Value| meta::api_version(object) != to;
        match &self.webhook {
            None => objects.iter_mut().filter(foreign).for_each(|object| object.set(&["apiVersion"], to)),
            Some(webhook) => {
                let mut pending: Vec<&mut Value> = objects.iter_mut().filter(foreign).collect();
                if !pending.is_empty() {
                    self.call(backend, webhook, &mut pending, to).await.map_err(Status::unexplained)?;
                }
            }
        }
        for object in &mut objects {
            target.prune(object)?;
        }
        Ok(objects)
    }

    /// Has the webhook convert a batch of objects.
    async fn call(
        &self,
        backend: &Backend,
        webhook: &ConversionWebhook,
        batch: &mut [&mut Value],
        to: &str,
    ) -> Result<(), String> {
        let originals: Vec<&Value> = batch.iter().map(|object| &**object).collect();
        let from = originals.first().map(|object| meta::api_version(object)).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {from}, Kind={} {why}", self.kind);
        let version = webhook::review_version(webhook.review_versions.iter().map(Str::as_str))?;
        let uid = random::uuid();
        let review = webhook::request(version, &uid, &originals, to);
        let client = webhook.client.as_ref().map_err(|why| failed(format!("failed: {why}")))?;
        let answer =
            client.post(backend, &review, TIMEOUT).await.map_err(|why| failed(format!("failed: {why}")))?;
        let converted = webhook::converted(version, &uid, &originals, to, answer).map_err(failed)?;
        for (object, converted) in batch.iter_mut().zip(converted) {
            **object = converted;
        }
        tracing::debug!(crd = self.name, objects = batch.len(), "conversion webhook succeeded");
        Ok(())
    }
}

/// An object in the version that a request names. Built-in kinds and objects in that version stay as they are.
pub(crate) async fn to_served(call: &Call, object: Value) -> Result<Value, Status> {
    let Some(converter) = &call.served.converter else { return Ok(object) };
    if meta::api_version(&object) == call.served.api_version {
        return Ok(object);
    }
    let converted = converter.convert(&call.backend, vec![object], &call.served.api_version).await?;
    converted.into_iter().next().ok_or_else(|| Status::internal("conversion returned no object"))
}

/// An object of a request in the stored version, as upstream would read it from the store: without nulls that applying
/// kept, and with that version's defaults, which replace a status that a create drops and reach the other versions.
pub(crate) async fn to_stored(call: &Call, object: Value) -> Result<Value, Status> {
    let Some(converter) = &call.served.converter else { return Ok(object) };
    let mut stored = object;
    if meta::api_version(&stored) != converter.stored() {
        let converted = converter.convert(&call.backend, vec![stored], converter.stored()).await?;
        stored =
            converted.into_iter().next().ok_or_else(|| Status::internal("conversion returned no object"))?;
    }
    converter.versions[converter.storage].complete(&mut stored)?;
    Ok(stored)
}

/// Objects with their text in the served version, where it differs from the stored one.
pub(crate) async fn convert_all(
    backend: &Backend,
    served: &Served,
    objects: Vec<Arc<Object>>,
) -> Result<Vec<Arc<Object>>, Status> {
    let Some(converter) = &served.converter else { return Ok(objects) };
    let mut shown = Vec::with_capacity(objects.len());
    for batch in batches(&objects) {
        let trees = heavy::blocking(|| batch.iter().map(|object| object.tree()).collect());
        let converted = converter.convert(backend, trees, &served.api_version).await?;
        let texts = batch.iter().zip(converted).map(|(object, tree)| with_tree(object, &tree, served));
        heavy::blocking(|| shown.extend(texts));
    }
    Ok(shown)
}

/// A list in parts that are converted at once.
fn batches(objects: &[Arc<Object>]) -> impl Iterator<Item = &[Arc<Object>]> {
    let mut rest = objects;
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len().min(BATCH) && (count == 0 || bytes + rest[count].json.len() <= BATCH_BYTES) {
            bytes += rest[count].json.len();
            count += 1;
        }
        let (batch, others) = rest.split_at(count);
        rest = others;
        (!batch.is_empty()).then_some(batch)
    })
}

/// An object with the text of another tree.
fn with_tree(object: &Object, tree: &Value, served: &Served) -> Arc<Object> {
    let text = encoded::encode(tree, served.kind(), &served.api_version);
    let mut bytes = text.bytes;
    let revision = object.revision.to_string();
    bytes.splice(text.revision_at..text.revision_at, revision.bytes());
    let mut converted = object.with_text(Bytes::from(bytes), object.head, text.revision_at as u32);
    if let Some(cache) = &served.cache {
        converted.projection = Arc::new(Projection::of(tree, &cache.form));
    }
    Arc::new(converted)
}

/// The text of a stored object as a tree, in the version that a request names.
pub(crate) async fn served_tree(call: &Call, stored: &Bytes) -> Result<Value, Status> {
    to_served(call, json::parse(stored).map_err(Status::internal)?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_limited_by_count_and_by_size() {
        let object = |size: usize| Arc::new(Object::numbered(1).with_text(vec![b' '; size].into(), 0, 0));
        let sizes = |objects: &[Arc<Object>]| batches(objects).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&vec![object(1); 1_100]), [500, 500, 100]);
        let (small, half, huge) = (object(1), object(BATCH_BYTES / 2), object(2 * BATCH_BYTES));
        assert_eq!(
            sizes(&[half.clone(), half.clone(), half, huge.clone(), huge, small.clone(), small]),
            [2, 1, 1, 1, 2]
        );
    }
}
