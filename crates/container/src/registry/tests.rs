use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use super::*;
use crate::image::Digest;

/// A minimal registry on this machine.
#[derive(Clone, Default)]
struct Registry(Arc<Shelves>);

#[derive(Default)]
struct Shelves {
    /// By path: media type and content.
    served: Mutex<HashMap<String, (String, Vec<u8>)>>,
    /// The `Authorization` that every request but that for a token must have.
    wanted: Mutex<Option<String>>,
    /// Paths whose next response is cut off.
    broken: Mutex<Vec<String>>,
    requests: AtomicUsize,
}

impl Registry {
    async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let registry = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let registry = registry.clone();
                let serve = service_fn(move |request| {
                    let registry = registry.clone();
                    async move { Ok::<_, Infallible>(registry.answer(address, &request)) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve),
                );
            }
        });
        address
    }

    fn answer(&self, address: SocketAddr, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path().to_owned();
        let respond = |status, header: (&'static str, String), body: Vec<u8>| {
            Response::builder()
                .status(status)
                .header(header.0, header.1)
                .body(Full::new(body.into()))
                .unwrap()
        };
        if path == "/token" {
            let known =
                request.headers().get("authorization").is_some_and(|value| value == "Basic bWU6c2VjcmV0");
            let token = if known { "good" } else { "bad" };
            return respond(
                StatusCode::OK,
                ("x-none", String::new()),
                format!(r#"{{"token":"{token}"}}"#).into(),
            );
        }
        let wanted = self.0.wanted.lock().clone();
        if wanted.is_some_and(|wanted| {
            request.headers().get("authorization").is_none_or(|value| *value != *wanted)
        }) {
            let challenge = format!(r#"Bearer realm="http://{address}/token",service="here""#);
            let body = br#"{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}"#.to_vec();
            return respond(StatusCode::UNAUTHORIZED, ("www-authenticate", challenge), body);
        }
        let mut broken = self.0.broken.lock();
        if let Some(place) = broken.iter().position(|one| *one == path) {
            broken.remove(place);
            return respond(StatusCode::OK, ("x-none", String::new()), b"half of it".to_vec());
        }
        match self.0.served.lock().get(&path) {
            Some((kind, body)) if kind == "redirect" => respond(
                StatusCode::TEMPORARY_REDIRECT,
                ("location", String::from_utf8_lossy(body).into()),
                Vec::new(),
            ),
            Some((media_type, body)) => {
                respond(StatusCode::OK, ("content-type", media_type.clone()), body.clone())
            }
            None => respond(StatusCode::NOT_FOUND, ("x-none", String::new()), Vec::new()),
        }
    }

    fn serve(&self, path: &str, media_type: &str, body: &[u8]) {
        self.0.served.lock().insert(path.to_owned(), (media_type.to_owned(), body.to_vec()));
    }

    fn blob(&self, bytes: &[u8]) -> Descriptor {
        let digest = Digest::of(bytes);
        self.serve(&format!("/v2/team/web/blobs/{digest}"), "application/octet-stream", bytes);
        descriptor("x", &digest, bytes)
    }

    /// Adds an image of two layers behind an index; the last layer is served elsewhere.
    fn stock(&self) -> Digest {
        let layers = ["one", "two"].map(|text| {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(3);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mode(0o644);
            header.set_mtime(0);
            tar.append_data(&mut header, text, text.as_bytes()).unwrap();
            tar.into_inner().unwrap()
        });
        let diffs = layers.each_ref().map(|layer| format!("\"{}\"", Digest::of(layer))).join(",");
        let config = format!(r#"{{"os":"linux","rootfs":{{"type":"layers","diff_ids":[{diffs}]}}}}"#);
        let manifest = Manifest {
            schema_version: 2,
            media_type: media::OCI_MANIFEST.to_owned(),
            config: self.blob(config.as_bytes()),
            layers: layers.iter().map(|layer| self.blob(layer)).collect(),
        };
        let elsewhere = &manifest.layers[1].digest;
        let path = format!("/v2/team/web/blobs/{elsewhere}");
        let moved = self.0.served.lock().remove(&path).unwrap();
        self.serve("/elsewhere", &moved.0, &moved.1);
        self.serve(&path, "redirect", b"/elsewhere");
        let manifest = serde_json::to_vec(&manifest).unwrap();
        let chosen = Descriptor {
            platform: Some(Platform::here()),
            ..descriptor(media::OCI_MANIFEST, &Digest::of(&manifest), &manifest)
        };
        self.serve(&format!("/v2/team/web/manifests/{}", chosen.digest), media::OCI_MANIFEST, &manifest);
        let index =
            Index { schema_version: 2, media_type: media::OCI_INDEX.to_owned(), manifests: vec![chosen] };
        let index = serde_json::to_vec(&index).unwrap();
        self.serve("/v2/team/web/manifests/1", media::OCI_INDEX, &index);
        Digest::of(&index)
    }
}

fn descriptor(media_type: &str, digest: &Digest, bytes: &[u8]) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.clone(),
        size: bytes.len() as u64,
        platform: None,
        annotations: Default::default(),
    }
}

fn store() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    (folder, store)
}

#[tokio::test]
async fn images_arrive_whole() {
    let registry = Registry::default();
    let digest = registry.stock();
    let address = registry.start().await;
    let (_folder, store) = store();
    let last = Arc::new(Mutex::new(PullProgress::default()));
    let progress = Progress::new({
        let last = last.clone();
        move |progress| *last.lock() = progress
    });
    let name = format!("{address}/team/web:1");
    let record = Registries::default().pull(&store, &name, None, &progress).await.unwrap();
    assert_eq!(record.target, digest);
    let last = *last.lock();
    assert_eq!((last.bytes, last.layers), (last.total_bytes, 3));
    let found = store.find(&name).unwrap().unwrap();
    assert_eq!(
        (found.tags, found.digests),
        (vec![name.clone()], vec![format!("{address}/team/web@{digest}")])
    );

    let before = registry.0.requests.load(Ordering::Relaxed);
    Registries::default().pull(&store, &name, None, &Progress::ignored()).await.unwrap();
    assert_eq!(registry.0.requests.load(Ordering::Relaxed), before + 1, "only the tag is looked at again");
}

#[tokio::test]
async fn failures_are_named_and_survived() {
    let registry = Registry::default();
    registry.stock();
    let address = registry.start().await;
    let (_folder, store) = store();
    let pull = |name: String| {
        let store = store.clone();
        async move { Registries::default().pull(&store, &name, None, &Progress::ignored()).await }
    };
    let missing = pull(format!("{address}/team/web:2")).await.unwrap_err();
    assert!(missing.is_not_found() && missing.to_string().contains("web:2: not found"), "{missing}");
    let wrong = Digest::of(b"something else");
    registry.serve(&format!("/v2/team/web/manifests/{wrong}"), media::OCI_MANIFEST, b"{}");
    let error = pull(format!("{address}/team/web@{wrong}")).await.unwrap_err();
    assert!(error.to_string().contains("content has digest"), "{error}");

    let blobs: Vec<String> =
        registry.0.served.lock().keys().filter(|path| path.contains("/blobs/")).cloned().collect();
    *registry.0.broken.lock() = blobs;
    pull(format!("{address}/team/web:1")).await.unwrap();
}

#[tokio::test]
async fn credentials_are_exchanged_for_a_token() {
    let registry = Registry::default();
    registry.stock();
    *registry.0.wanted.lock() = Some("Bearer good".to_owned());
    let address = registry.start().await;
    let (_folder, store) = store();
    let name = format!("{address}/team/web:1");
    let auth = |password: &str| AuthConfig {
        username: "me".to_owned(),
        password: password.to_owned(),
        ..AuthConfig::default()
    };
    let refused = Registries::default().pull(&store, &name, Some(&auth("wrong")), &Progress::ignored()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("pull access denied") && refused.contains("unauthorized: who are you?"),
        "{refused}"
    );
    Registries::default().pull(&store, &name, Some(&auth("secret")), &Progress::ignored()).await.unwrap();
}

#[tokio::test]
async fn mirrors_are_asked_first() {
    let registry = Registry::default();
    registry.stock();
    let address = registry.start().await;
    let (_folder, store) = store();
    let endpoint = vec!["http://127.0.0.1:1".to_owned(), format!("http://{address}")];
    let mirrors = [("example.com".to_owned(), Mirror { endpoint })].into();
    let registries = Registries::new(RegistriesConfig { mirrors, ..RegistriesConfig::default() });
    registries.pull(&store, "example.com/team/web:1", None, &Progress::ignored()).await.unwrap();
    let found = store.find("example.com/team/web:1").unwrap().unwrap();
    assert_eq!(found.tags, ["example.com/team/web:1"]);
}

#[tokio::test]
async fn a_blob_is_as_large_as_its_manifest_says() {
    let registry = Registry::default();
    let address = registry.start().await;
    let (_folder, store) = store();
    let config = registry.blob(br#"{"os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#);
    let layer = registry.blob(&[0; 100_000]);
    let manifests = [
        ("more", vec![Descriptor { size: 1000, ..layer.clone() }]),
        (
            "less",
            vec![Descriptor { size: u64::MAX, ..layer.clone() }, Descriptor { size: u64::MAX, ..layer }],
        ),
    ];
    for (how, layers) in manifests {
        let manifest = Manifest {
            schema_version: 2,
            media_type: media::OCI_MANIFEST.to_owned(),
            config: config.clone(),
            layers,
        };
        let path = format!("/v2/team/web/manifests/{how}");
        registry.serve(&path, media::OCI_MANIFEST, &serde_json::to_vec(&manifest).unwrap());
        let name = format!("{address}/team/web:{how}");
        let error = Registries::default().pull(&store, &name, None, &Progress::ignored()).await.unwrap_err();
        assert!(error.to_string().contains(&format!("the registry sends {how} than the")), "{error}");
    }
    let huge = Manifest {
        schema_version: 2,
        media_type: media::OCI_MANIFEST.to_owned(),
        config: Descriptor { size: 1 << 40, ..config },
        layers: Vec::new(),
    };
    registry.serve("/v2/team/web/manifests/huge", media::OCI_MANIFEST, &serde_json::to_vec(&huge).unwrap());
    let name = format!("{address}/team/web:huge");
    let error = Registries::default().pull(&store, &name, None, &Progress::ignored()).await.unwrap_err();
    assert!(error.to_string().contains("the configuration is larger than"), "{error}");
}

#[tokio::test]
async fn a_document_is_an_index_or_a_manifest() {
    let registry = Registry::default();
    let address = registry.start().await;
    let (_folder, store) = store();
    let config = registry.blob(br#"{"os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#);
    let config = serde_json::to_string(&config).unwrap();
    let both = format!(r#"{{"schemaVersion":2,"manifests":[],"config":{config},"layers":[]}}"#);
    for (tag, media_type) in [("manifest", media::OCI_MANIFEST), ("index", media::OCI_INDEX)] {
        registry.serve(&format!("/v2/team/web/manifests/{tag}"), media_type, both.as_bytes());
        let name = format!("{address}/team/web:{tag}");
        let error = Registries::default().pull(&store, &name, None, &Progress::ignored()).await.unwrap_err();
        assert!(error.to_string().contains("is an index at the same time"), "{error}");
    }
}
