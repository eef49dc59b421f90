//! Stores on etcd for tests.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use corten_grpc::{Endpoint, KeepAlive};
use corten_store::{EtcdOptions, NewValue, Revision, Store, Translation};

pub(crate) use super::etcd_process::EtcdServer;

impl EtcdServer {
    pub(crate) fn options(&self) -> EtcdOptions {
        EtcdOptions {
            prefix: "/test/".into(),
            root: String::new(),
            timeout: Duration::from_secs(20),
            compaction: None,
            keep_alive: KeepAlive { interval: Duration::from_secs(1), timeout: Duration::from_secs(1) },
            ..EtcdOptions::new(vec![Endpoint::parse(&self.url(), None).expect("an endpoint")])
        }
    }

    pub(crate) async fn connect(&self) -> Store {
        Store::connect(self.options(), Arc::new(Plain)).await.expect("a store that connects")
    }
}

/// A place between a store and etcd where the connections can be cut.
pub(crate) struct Gate {
    port: u16,
    is_open: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    pub(crate) async fn start(server: &EtcdServer) -> Gate {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (is_open, opened) = tokio::sync::watch::channel(true);
        let target = server.port;
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut opened = opened.clone();
                tokio::spawn(async move {
                    if !*opened.borrow() {
                        return;
                    }
                    let Ok(mut etcd) = tokio::net::TcpStream::connect(("127.0.0.1", target)).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut etcd) => {}
                        _ = opened.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Gate { port, is_open }
    }

    /// The options of a store whose connections pass here.
    pub(crate) fn options(&self, server: &EtcdServer) -> EtcdOptions {
        let url = format!("http://127.0.0.1:{}", self.port);
        EtcdOptions { endpoints: vec![Endpoint::parse(&url, None).expect("an endpoint")], ..server.options() }
    }

    /// Cuts all connections, and refuses new ones.
    pub(crate) fn close(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

/// Stores the place of the revision before the bytes of a value.
pub(crate) struct Plain;

impl Translation for Plain {
    fn store(&self, _: &str, value: &NewValue) -> Result<Vec<u8>, String> {
        let at = value.revision_at.map(|at| at.to_string()).unwrap_or_default();
        Ok([at.as_bytes(), b":", &value.bytes].concat())
    }

    fn load(&self, _: &str, stored: &Bytes, revision: Revision) -> Result<Bytes, String> {
        let text = std::str::from_utf8(stored).map_err(|error| error.to_string())?;
        let (at, text) = text.split_once(':').ok_or("no colon")?;
        let mut text = text.to_owned();
        if let Ok(at) = at.parse() {
            text.insert_str(at, &revision.to_string());
        }
        Ok(text.into())
    }
}
