//! Messages of etcd's API: a message that decodes is written in a form that decodes to the same message.

pub(crate) fn check(data: &[u8]) {
    corten_etcd_api::fuzz::message(data);
}
