//! Values of etcd: one that is read is written in a form that is read again, as the same object.

pub(crate) fn check(data: &[u8]) {
    let Some((kind, stored)) = data.split_first() else { return };
    corten_apiserver::fuzz::stored_form(usize::from(*kind), stored);
}
