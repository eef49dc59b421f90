//! What a new cluster brings along: the default storage class.
//!
//! An addon is made once. What people make of it afterwards is theirs, deleting it included: a ConfigMap says which
//! ones have been made. One that is turned off is taken away again, as far as it is still ours.

use corten_api::{Value, value};
use corten_client::{Client, DeleteOptions, Error, Key, kinds};

/// The part that `--disable` calls `local-storage`.
pub(super) const LOCAL_STORAGE: &str = "local-storage";
const CLASS: &str = "local-path";

fn marker() -> Key {
    Key::new("kube-system", "corten-addons")
}

/// Brings the addons to where they should be; a cluster without them is a cluster all the same.
pub(super) async fn install(client: &Client, local_storage: bool) {
    let result = match local_storage {
        true => add(client).await,
        false => remove(client).await,
    };
    if let Err(error) = result {
        tracing::warn!(addon = LOCAL_STORAGE, %error, "addon could not be brought up to date");
    }
}

async fn add(client: &Client) -> Result<(), Error> {
    let made = made(client).await?;
    if made.as_ref().is_some_and(|made| made.at(&["data", LOCAL_STORAGE]).is_some()) {
        return Ok(());
    }
    match client.create(&kinds::STORAGE_CLASSES, &class()).await {
        Err(error) if !error.already_exists() => return Err(error),
        _ => {}
    }
    let is_new = made.is_none();
    let mut made = made.unwrap_or_else(|| kinds::CONFIG_MAPS.new_object("kube-system", &marker().name));
    made.set(&["data", LOCAL_STORAGE], CLASS);
    match is_new {
        true => client.create(&kinds::CONFIG_MAPS, &made).await.map(drop),
        false => client.update(&kinds::CONFIG_MAPS, &made, "").await.map(drop),
    }
}

async fn remove(client: &Client) -> Result<(), Error> {
    let Some(mut made) = made(client).await? else { return Ok(()) };
    if made.remove(&["data", LOCAL_STORAGE]).is_none() {
        return Ok(());
    }
    let key = Key::new("", CLASS);
    let found = client.get(&kinds::STORAGE_CLASSES, &key).await.ok();
    let provisioner = found.as_ref().and_then(|class| class.str_at(&["provisioner"]));
    if provisioner == Some(corten_controllers::LOCAL_PATH_PROVISIONER) {
        client.delete(&kinds::STORAGE_CLASSES, &key, &DeleteOptions::default()).await?;
    }
    client.update(&kinds::CONFIG_MAPS, &made, "").await.map(drop)
}

/// Which addons have been made.
async fn made(client: &Client) -> Result<Option<Value>, Error> {
    match client.get(&kinds::CONFIG_MAPS, &marker()).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

fn class() -> Value {
    let mut class = kinds::STORAGE_CLASSES.new_object("", CLASS);
    class.set(&["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"], "true");
    for (field, value) in [
        ("provisioner", corten_controllers::LOCAL_PATH_PROVISIONER),
        ("reclaimPolicy", "Delete"),
        ("volumeBindingMode", "WaitForFirstConsumer"),
    ] {
        class.set(&[field], value!(value));
    }
    class
}
