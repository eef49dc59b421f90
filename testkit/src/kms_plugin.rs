//! A KMS plugin: `v2.KeyManagementService` on a Unix socket, as well behaved as a test wants it.
//!
//! Its cipher hides nothing; it only makes sure that a data key is decrypted with the key id that it was encrypted with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use corten_encryption::kms::protocol::{
    DECRYPT, DecryptRequest, DecryptResponse, ENCRYPT, EncryptRequest, EncryptResponse, STATUS,
    StatusRequest, StatusResponse,
};
use corten_grpc::{Code, Router, ServerLimits, Status, serve_unix};
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};

/// The plugin's responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KmsBehavior {
    /// As they should be.
    Good,
    /// None, ever.
    Silent,
    /// Good ones to `Status` and `Encrypt`, none to `Decrypt`.
    SilentDecrypt,
    /// Errors.
    Failing,
    /// Data keys that are none, and texts that are too long.
    Hostile,
}

/// A plugin; it ends when this is dropped.
pub struct KmsPlugin {
    socket: PathBuf,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

struct State {
    key_id: Mutex<String>,
    behavior: Mutex<KmsBehavior>,
    decrypted: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KmsPlugin {
    /// A good plugin with a key, on a socket in a directory.
    pub fn start(directory: &Path, key_id: &str) -> KmsPlugin {
        let state = State {
            key_id: Mutex::new(key_id.to_owned()),
            behavior: Mutex::new(KmsBehavior::Good),
            decrypted: AtomicUsize::new(0),
        };
        let socket = directory.join("kms.sock");
        let mut plugin = KmsPlugin { socket, state: Arc::new(state), runtime: None };
        plugin.listen();
        plugin
    }

    /// The endpoint for an `EncryptionConfiguration`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Ends the process that it stands for.
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Listens again after [`KmsPlugin::stop`].
    pub fn listen(&mut self) {
        self.stop();
        // A socket of before, if any.
        let _ = std::fs::remove_file(&self.socket);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(&self.socket).expect("a socket")
        };
        runtime.spawn(serve_unix(listener, Arc::new(router(&self.state)), ServerLimits::default()));
        self.runtime = Some(runtime);
    }

    /// Encrypts with another key from now on. Earlier ones still decrypt.
    pub fn set_key(&self, key_id: &str) {
        key_id.clone_into(&mut lock(&self.state.key_id));
    }

    pub fn behave(&self, behavior: KmsBehavior) {
        *lock(&self.state.behavior) = behavior;
    }

    /// The number of data keys that were decrypted.
    pub fn decrypted(&self) -> usize {
        self.state.decrypted.load(Ordering::SeqCst)
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Hides a data key, and shows a hidden one.
fn cipher(key_id: &str, bytes: &[u8]) -> Vec<u8> {
    let mask = key_id.bytes().fold(0x5a_u8, |mask, byte| mask.rotate_left(3) ^ byte);
    bytes.iter().map(|byte| byte ^ mask).collect()
}

impl State {
    fn key_id(&self) -> String {
        lock(&self.key_id).clone()
    }

    /// The behavior, after waiting for ever if that is it.
    async fn behavior(&self, decrypts: bool) -> Result<KmsBehavior, Status> {
        let behavior = lock(&self.behavior).clone();
        match behavior {
            KmsBehavior::Silent => std::future::pending().await,
            KmsBehavior::SilentDecrypt if decrypts => std::future::pending().await,
            KmsBehavior::Failing => Err(Status::new(Code::Internal, "the key is not available")),
            behavior => Ok(behavior),
        }
    }

    async fn status(&self) -> Result<StatusResponse, Status> {
        let key_id = match self.behavior(false).await? {
            KmsBehavior::Hostile => "k".repeat(4096),
            _ => self.key_id(),
        };
        Ok(StatusResponse { version: "v2".to_owned(), healthz: "ok".to_owned(), key_id })
    }

    async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, Status> {
        let key_id = self.key_id();
        let ciphertext = match self.behavior(false).await? {
            KmsBehavior::Hostile => vec![0; 1 << 20],
            _ => cipher(&key_id, &request.plaintext),
        };
        let annotations = BTreeMap::from([("key.kms.example.com".to_owned(), key_id.clone().into_bytes())]);
        Ok(EncryptResponse { ciphertext, key_id, annotations })
    }

    async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, Status> {
        let behavior = self.behavior(true).await?;
        self.decrypted.fetch_add(1, Ordering::SeqCst);
        let annotated = request.annotations.get("key.kms.example.com").map(Vec::as_slice);
        if annotated != Some(request.key_id.as_bytes()) {
            return Err(Status::new(Code::InvalidArgument, "the annotations are not those of the key"));
        }
        let plaintext = match behavior {
            KmsBehavior::Hostile => vec![0; 7],
            _ => cipher(&request.key_id, &request.ciphertext),
        };
        Ok(DecryptResponse { plaintext })
    }
}

fn router(state: &Arc<State>) -> Router {
    let [for_status, for_encrypt, for_decrypt] = [state, state, state].map(Arc::clone);
    Router::default()
        .unary(STATUS, move |_, _: StatusRequest| {
            let state = Arc::clone(&for_status);
            async move { state.status().await }
        })
        .unary(ENCRYPT, move |_, request: EncryptRequest| {
            let state = Arc::clone(&for_encrypt);
            async move { state.encrypt(request).await }
        })
        .unary(DECRYPT, move |_, request: DecryptRequest| {
            let state = Arc::clone(&for_decrypt);
            async move { state.decrypt(request).await }
        })
}
