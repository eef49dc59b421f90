//! Network serving that every component shares: one accept loop, one HTTP/1.1 server, one writer of Prometheus text.
//!
//! Components decide what they serve and to whom; limits of connections and timeouts are enforced here. HTTP/2 is the API
//! server's own: it uses the accept loop only.

pub mod accept;
pub mod http;
pub mod metrics;
