//! DNS messages from clients and upstream resolvers, domain names, and `resolv.conf`.

pub(crate) fn check(data: &[u8]) {
    corten_dns::fuzz::message(data);
    if let Ok(text) = std::str::from_utf8(data) {
        corten_dns::fuzz::text(text);
    }
}
